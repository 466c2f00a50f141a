# The compiler that built Weft is the first guess at run time.
target_compile_definitions(weft_codegen PRIVATE WEFT_BUILD_CXX="${CMAKE_CXX_COMPILER}")
target_link_libraries(weft_codegen PUBLIC Threads::Threads)

# prelude_text(): what generated files share, as a string.
set(prelude ${CMAKE_SOURCE_DIR}/weft/codegen/prelude_impl.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${prelude})
file(READ ${prelude} CODEGEN_PRELUDE)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/prelude_text.cpp @ONLY CONTENT [[
// Generated from weft/codegen/prelude_impl.h by weft/codegen/room.cmake.
#include "weft/codegen/prelude_text.h"
namespace weft::codegen {
std::string_view prelude_text() {
  static constexpr char text[] = R"weft_text(@CODEGEN_PRELUDE@)weft_text";
  return {text, sizeof text - 1};
}
}  // namespace weft::codegen
]])
target_sources(weft_codegen PRIVATE ${CMAKE_BINARY_DIR}/generated/prelude_text.cpp)
