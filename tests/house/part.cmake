find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME house.rules COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/house/check.py ${CMAKE_SOURCE_DIR})
add_test(NAME house.planted COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/house/planted.py)
