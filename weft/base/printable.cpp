// A file that was never meant as text, or a line of a megabyte, must not garble a terminal or hide the message: what a
// user gave is shown within bounds. Escapes such as \x1b would be longer than what they stand for and shift the caret,
// so one character stands for one.
#include "weft/base/printable.h"

#include <algorithm>
#include <cstdint>

namespace weft {
namespace {

// Bytes of the UTF-8 sequence that begins here; 0: none does.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xf0 && first < 0xf5 ? 4
                        : first >= 0xe0                 ? 3
                        : first >= 0xc2                 ? 2
                                                        : 0;
  if (first >= 0xf5 || length > text.size()) return 0;
  for (size_t i = 1; i < length; i++)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return length;
}

bool is_control(unsigned char c) { return c < 0x20 || c == 0x7f; }

}  // namespace

std::string printable(std::string_view text, bool keep_newlines) {
  std::string out;
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    const bool newline = text[0] == '\n' && keep_newlines;
    const bool c1 = length == 2 && text[0] == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0;
    if (length == 0 || c1 || (is_control(static_cast<unsigned char>(text[0])) && !newline))
      out += '?';
    else
      out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

int64_t characters(std::string_view printable_text) {
  int64_t count = 0;
  for (const char c : printable_text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

std::string clipped_lines(std::string_view text, size_t most) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.size() > most) {
      size_t keep = most;
      while (keep > 0 && (static_cast<unsigned char>(line[keep]) & 0xc0) == 0x80) keep--;
      out.append(line.substr(0, keep)).append("...");
    } else {
      out += line;
    }
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace weft
