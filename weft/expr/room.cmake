# functions_source(): what kernels paste in.
weft_embed(weft_expr weft/expr/functions_impl.h weft/expr/functions.h weft::expr functions_source)
# Changes no bits; lets sqrt become one instruction and loops over it vector code.
target_compile_options(weft_expr PRIVATE -fno-math-errno -fno-trapping-math)
# The evaluator's loops once per instruction set; which one runs is decided by the processor. Contraction stays off.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  set(loops ${CMAKE_SOURCE_DIR}/weft/expr/body_ops)
  set_source_files_properties(${loops}_avx2.cpp PROPERTIES COMPILE_OPTIONS "-mavx2")
  set(avx512 -mavx2 -mavx512f -mavx512dq -mavx512vl -mavx512bw -mprefer-vector-width=512)
  set_source_files_properties(${loops}_avx512.cpp PROPERTIES COMPILE_OPTIONS "${avx512}")
  set_source_files_properties(${loops}.cpp PROPERTIES COMPILE_DEFINITIONS WEFT_X86_LOOPS)
endif()
