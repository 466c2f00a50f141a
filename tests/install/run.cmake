# Installs into a fresh prefix, builds and runs the outside project against it, then one C file by pkg-config.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "${command}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${PROJECT} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${CXX} -DSANITIZE=${SANITIZE})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/from_c)
run(${WORK}/build/from_cpp)
run(${WORK}/prefix/bin/weft --version)

find_program(PKG_CONFIG pkg-config)
file(GLOB pc ${WORK}/prefix/lib*/pkgconfig/weft.pc ${WORK}/prefix/lib/*/pkgconfig/weft.pc)
get_filename_component(folder ${pc} DIRECTORY)
execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${folder} ${PKG_CONFIG} --define-prefix --cflags --libs weft
                OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT flags MATCHES "-lweft" OR NOT flags MATCHES "-I")
  message(FATAL_ERROR "pkg-config says: ${flags}")
endif()
