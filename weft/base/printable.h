// Text of unknown origin, made fit to be shown: in carets below a line, and in what the command prints about an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// Control characters (but for newlines, where asked) and bytes that are no UTF-8 become '?'; the rest stays.
std::string printable(std::string_view text, bool keep_newlines = false);
int64_t characters(std::string_view printable_text);  // code points: columns on a terminal, near enough
// Lines longer than `most` characters end in "...".
std::string clipped_lines(std::string_view printable_text, size_t most);

}  // namespace weft
