pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(TOMLPLUSPLUS REQUIRED IMPORTED_TARGET tomlplusplus)
target_link_libraries(weft_topo PUBLIC PkgConfig::HWLOC PkgConfig::TOMLPLUSPLUS pugixml::pugixml)
