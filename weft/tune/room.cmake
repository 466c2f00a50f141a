target_link_libraries(weft_tune PUBLIC PkgConfig::TOMLPLUSPLUS)
