# The C border, and the installed package as others find it: by find_package and by pkg-config, from outside the tree.
weft_test_program(test_capi unit/capi weft_capi)
add_test(NAME install.package
         COMMAND ${CMAKE_COMMAND} -DBUILD=${CMAKE_BINARY_DIR} -DPROJECT=${CMAKE_CURRENT_SOURCE_DIR}/install/project
                 -DWORK=${CMAKE_BINARY_DIR}/install-test -DGENERATOR=${CMAKE_GENERATOR} -DCXX=${CMAKE_CXX_COMPILER}
                 -DSANITIZE=${WEFT_SANITIZE} -P ${CMAKE_CURRENT_SOURCE_DIR}/install/run.cmake)
set_tests_properties(install.package PROPERTIES TIMEOUT ${WEFT_TEST_TIMEOUT} LABELS install)
