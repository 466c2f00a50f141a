# Every plan of the registry: reference, interpreter, CPU ranks. The runtime's tests share their harness with it.
weft_test_program(test_registry registry weft_runtime weft_algo weft_ir)
target_sources(test_registry PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/unit/runtime/harness.cpp)
