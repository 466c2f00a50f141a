# oneDNN for matrix products: optional, found by its CMake package. The distributions build it for GNU OpenMP; the
# thread count of a call is set through that same library, whichever compiler builds Weft. Debian's package asks for
# OpenCL's development files when it is found, without depending on them: ./dev installs ocl-icd-opencl-dev with it.
find_package(dnnl QUIET)
find_library(WEFT_GOMP NAMES gomp libgomp.so.1)
if(TARGET DNNL::dnnl AND WEFT_GOMP)
  target_compile_definitions(weft_kernel PRIVATE WEFT_ONEDNN)
  target_link_libraries(weft_kernel PUBLIC DNNL::dnnl ${WEFT_GOMP})
endif()
target_link_libraries(weft_kernel PUBLIC Threads::Threads)
# Loops over expr's element functions become vector code; no bit changes.
target_compile_options(weft_kernel PRIVATE -fno-math-errno -fno-trapping-math)
