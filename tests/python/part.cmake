# The Python package and the torch backend, in an environment that tests/python/prepare.py makes (./dev test does).
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(files test_programs test_ranks test_torch test_package)
if(WEFT_SANITIZE)  # the package is built by pip, without sanitizers: once is enough
  set(files)
endif()
foreach(file ${files})
  add_test(NAME python.${file} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/python/suite.py ${file}.py)
  set_tests_properties(python.${file} PROPERTIES TIMEOUT 1200 LABELS python SKIP_RETURN_CODE 77)
endforeach()
