// What the text forms share: lines, carets, words, numbers.
//
// '#' begins a comment at the start of a line, or after a space when a space or the end follows; so `f32[#P]` and
// `[T, #P]` are sizes and `x = y # why` has a comment.
#include "weft/base/text.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "weft/base/printable.h"

namespace weft {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string_view without_comment(std::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '#') continue;
    const bool first = trim(line.substr(0, i)).empty();
    const bool apart =
        (i == 0 || is_space(line[i - 1])) && (i + 1 == line.size() || is_space(line[i + 1]) || line[i + 1] == '#');
    if (first || apart) return line.substr(0, i);
  }
  return line;
}

// Bytes that no form has: controls, which end what is printed or cannot be seen, also in comments, and outside comments
// all that is not ASCII. Here, where every text comes through, so that no parser quotes such a byte in a message.
void check_bytes(std::string_view raw, std::string_view code, int number) {
  if (raw.ends_with('\r')) raw.remove_suffix(1);
  const auto refuse = [&](size_t at, const std::string& message, std::string_view remedy) {
    SourceLine line;
    line.number = number;
    line.text = std::string(raw);
    fail_at_column(ErrorKind::user, line, static_cast<int>(at), 1, "F1", message, remedy);
  };
  for (size_t i = 0; i < raw.size(); ++i) {
    const auto byte = static_cast<unsigned char>(raw[i]);
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
      refuse(i, fmt::format("a control byte, 0x{:02x}", byte), "delete it, or save the file as plain text");
    if (byte >= 0x80 && i < code.size())
      refuse(i, "a character that is not ASCII", "names are letters, digits and _; comments may have any text");
  }
}

SourceLine source_line(std::string_view raw, int number) {
  SourceLine line;
  line.number = number;
  const size_t indent = raw.find_first_not_of(' ');
  line.indent = static_cast<int>(indent);
  line.text = std::string(trim(raw));
  if (raw.find('\t') != std::string_view::npos)
    fail_at_column(ErrorKind::user, line, 0, 1, "F1", "a tab", "indent with two spaces a block");
  if (line.indent % 2)
    fail_at_column(ErrorKind::user, line, 0, 1, "F1", fmt::format("indented by {} spaces", line.indent),
                   "indent with two spaces a block");
  return line;
}

std::vector<std::string> split_if(std::string_view text, char separator, bool top_only) {
  std::vector<std::string> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == separator && (depth == 0 || !top_only)) {
      parts.emplace_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if ((c == ')' || c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  const std::string_view rest = trim(text.substr(begin));
  if (!rest.empty() || !parts.empty()) parts.emplace_back(rest);
  return parts;
}

// The first place where `token` stands alone (not inside a longer name), or npos.
size_t find_word(std::string_view text, std::string_view token) {
  const auto joins = [](char c) { return is_word(c) || c == '.'; };
  for (size_t at = text.find(token); at != std::string_view::npos; at = text.find(token, at + 1)) {
    const size_t end = at + token.size();
    const bool left = at > 0 && joins(text[at - 1]) && joins(token.front());
    const bool right = end < text.size() && joins(text[end]) && joins(token.back());
    if (!left && !right) return at;
  }
  return std::string_view::npos;
}

}  // namespace

std::vector<SourceLine> source_lines(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";  // some editors write one; it means nothing
  if (text.substr(0, byte_order_mark.size()) == byte_order_mark) text.remove_prefix(byte_order_mark.size());
  std::vector<SourceLine> lines;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    const std::string_view whole = text.substr(0, end), raw = without_comment(whole);
    check_bytes(whole, raw, number);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (!trim(raw).empty()) lines.push_back(source_line(raw, number));
  }
  return lines;
}

namespace {

// The part of a line that a caret needs around it, and the caret.
std::string excerpt_of(const std::string& text, size_t column, size_t width) {
  constexpr size_t before = 60, shown = 110;
  column = std::min(column, text.size());
  const size_t begin = text.size() <= shown || column < before ? 0 : column - before;
  const size_t end = std::min(text.size(), begin + shown);
  const std::string left = (begin > 0 ? "..." : "") + printable(std::string_view(text).substr(begin, column - begin));
  const std::string right = printable(std::string_view(text).substr(column, end - column));
  const std::string token = printable(std::string_view(text).substr(column, std::min(width, end - column)));
  return fmt::format("    {}{}{}\n    {}{}", left, right, end < text.size() ? "..." : "",
                     std::string(static_cast<size_t>(characters(left)), ' '),
                     std::string(static_cast<size_t>(std::max<int64_t>(1, characters(token))), '^'));
}

}  // namespace

void fail_at_column(ErrorKind kind, const SourceLine& line, int column, int width, std::string_view rule,
                    std::string_view message, std::string_view remedy) {
  const std::string where = line.number > 0 ? fmt::format("{}:{}: ", line.number, line.indent + column + 1) : "";
  const std::string excerpt = line.text.empty() ? ""
                                                : excerpt_of(line.text, static_cast<size_t>(std::max(column, 0)),
                                                             static_cast<size_t>(std::max(width, 1)));
  throw Error(kind, where, excerpt, std::string(message), std::string(remedy), std::string(rule));
}

void fail_at(ErrorKind kind, const SourceLine& line, std::string_view token, std::string_view rule,
             std::string_view message, std::string_view remedy) {
  const size_t at = token.empty() ? std::string_view::npos : find_word(line.text, token);
  const bool found = at != std::string_view::npos;
  fail_at_column(kind, line, found ? static_cast<int>(at) : 0, found ? static_cast<int>(token.size()) : 1, rule,
                 message, remedy);
}

std::vector<std::string> split(std::string_view text, char separator) { return split_if(text, separator, false); }
std::vector<std::string> split_top(std::string_view text, char separator) { return split_if(text, separator, true); }

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  size_t i = 0;
  while (i < text.size()) {
    while (i < text.size() && is_space(text[i])) ++i;
    const size_t begin = i;
    while (i < text.size() && !is_space(text[i])) ++i;
    if (i > begin) out.emplace_back(text.substr(begin, i - begin));
  }
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) out += separator;
    out += parts[i];
  }
  return out;
}

bool is_identifier(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) || text.back() == '.') return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dot = text[i] == '.' && i > 0 && text[i - 1] != '.';
    if (!dot && !is_word(text[i])) return false;
  }
  return true;
}

std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

int64_t parse_count(std::string_view text) {
  const std::string whole(trim(text));
  const auto refuse = [&] {
    throw Error(ErrorKind::user, fmt::format("`{}` is not a count", text),
                "write digits, with Ki Mi Gi Ti or K M G T for powers of 1024");
  };
  if (whole.empty() || !std::isdigit(static_cast<unsigned char>(whole[0]))) refuse();
  errno = 0;
  char* end = nullptr;
  const long long number = std::strtoll(whole.c_str(), &end, 10);
  int64_t scale = 1;
  std::string_view suffix(end);
  if (!suffix.empty()) {
    const size_t power =
        std::string_view("KMGT").find(static_cast<char>(std::toupper(static_cast<unsigned char>(suffix[0]))));
    suffix.remove_prefix(1);
    if (power == std::string_view::npos || !(suffix.empty() || suffix == "i" || suffix == "iB" || suffix == "B"))
      refuse();
    scale = int64_t{1} << (10 * (power + 1));
  }
  int64_t result = 0;
  if (errno == ERANGE || __builtin_mul_overflow(static_cast<int64_t>(number), scale, &result)) refuse();
  return result;
}

std::string human_bytes(double bytes) {
  static constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (std::abs(bytes) >= 999.5 && unit + 1 < std::size(units)) bytes /= 1000, ++unit;
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string human_ns(double ns) {
  static constexpr const char* units[] = {"ns", "us", "ms", "s"};
  size_t unit = 0;
  while (std::abs(ns) >= 999.5 && unit + 1 < std::size(units)) ns /= 1000, ++unit;
  return std::abs(ns) < 100 ? fmt::format("{:.3g} {}", ns, units[unit]) : fmt::format("{:.0f} {}", ns, units[unit]);
}

}  // namespace weft
