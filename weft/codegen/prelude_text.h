// The text of prelude_impl.h, embedded at build time (room.cmake).
#pragma once

#include <string_view>

namespace weft::codegen {

std::string_view prelude_text();

}  // namespace weft::codegen
