# libweft.so, its headers, a CMake package (find_package(weft)) and a pkg-config file.
#
# The shared library is the C interface of weft/capi and the C++ interface of weft/api in one: the first is stable and
# needs nothing else; who uses the second compiles against this version's headers (C++20, fmt).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(weft_shared SHARED $<TARGET_OBJECTS:weft_capi> $<TARGET_OBJECTS:weft_api>)
get_target_property(weft_api_libraries weft_api LINK_LIBRARIES)
target_link_libraries(weft_shared PRIVATE ${weft_api_libraries})
target_include_directories(weft_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft EXPORT_NAME c VERSION ${PROJECT_VERSION}
                                             SOVERSION ${PROJECT_VERSION_MAJOR})
if(WEFT_SANITIZE)
  target_link_options(weft_shared PRIVATE -fsanitize=${WEFT_SANITIZE})
endif()

install(TARGETS weft_shared EXPORT weft_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS weft RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES weft/capi/weft.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY weft/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft FILES_MATCHING PATTERN "*.h")
install(DIRECTORY machines DESTINATION ${CMAKE_INSTALL_DATADIR}/weft)
install(DIRECTORY examples/shapes DESTINATION ${CMAKE_INSTALL_DATADIR}/weft)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weft_targets FILE weft-targets.cmake NAMESPACE weft:: DESTINATION ${package_folder})
configure_package_config_file(cmake/weft-config.cmake.in ${CMAKE_BINARY_DIR}/weft-config.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weft-config.cmake ${CMAKE_BINARY_DIR}/weft-config-version.cmake
        DESTINATION ${package_folder})
configure_file(cmake/weft.pc.in ${CMAKE_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
