// The page's text, in which html() puts the data.
#pragma once

#include <string_view>

namespace weft::view {

std::string_view timeline_page();

}  // namespace weft::view
