# functions_source(): the text of functions_impl.h as a string, so that an installed Weft can paste it into kernels.
set(impl ${CMAKE_SOURCE_DIR}/weft/expr/functions_impl.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${impl})
file(READ ${impl} FUNCTIONS_IMPL)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/functions_source.cpp @ONLY CONTENT [[
// Generated from weft/expr/functions_impl.h by weft/expr/room.cmake.
#include "weft/expr/functions.h"
namespace weft::expr {
std::string_view functions_source() {
  static constexpr char text[] = R"weft_text(@FUNCTIONS_IMPL@)weft_text";
  return {text, sizeof text - 1};
}
}  // namespace weft::expr
]])
target_sources(weft_expr PRIVATE ${CMAKE_BINARY_DIR}/generated/functions_source.cpp)
# Changes no bits; lets sqrt become one instruction and loops over it vector code.
target_compile_options(weft_expr PRIVATE -fno-math-errno -fno-trapping-math)
# The evaluator's loops once per instruction set; which one runs is decided by the processor. Contraction stays off.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  set(loops ${CMAKE_SOURCE_DIR}/weft/expr/body_ops)
  set_source_files_properties(${loops}_avx2.cpp PROPERTIES COMPILE_OPTIONS "-mavx2")
  set(avx512 -mavx2 -mavx512f -mavx512dq -mavx512vl -mavx512bw -mprefer-vector-width=512)
  set_source_files_properties(${loops}_avx512.cpp PROPERTIES COMPILE_OPTIONS "${avx512}")
  set_source_files_properties(${loops}.cpp PROPERTIES COMPILE_DEFINITIONS WEFT_X86_LOOPS)
endif()
