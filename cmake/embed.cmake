# weft_embed(TARGET FILE HEADER NAMESPACE FUNCTION): NAMESPACE::FUNCTION(), declared in HEADER, returns the text of FILE
# as a string, so that an installed Weft can paste it into the code that it generates. Text beyond 64 KiB would have to be
# cut (a limit of other compilers than ours).
function(weft_embed target file header namespace function)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${file})
  file(READ ${CMAKE_SOURCE_DIR}/${file} TEXT)
  set(FILE ${file})
  set(HEADER ${header})
  set(NAMESPACE ${namespace})
  set(FUNCTION ${function})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${function}.cpp @ONLY CONTENT [[
// Generated from @FILE@ by cmake/embed.cmake.
#include "@HEADER@"
namespace @NAMESPACE@ {
std::string_view @FUNCTION@() {
  static constexpr char text[] = R"weft_text(@TEXT@)weft_text";
  return {text, sizeof text - 1};
}
}  // namespace @NAMESPACE@
]])
  target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/generated/${function}.cpp)
endfunction()
