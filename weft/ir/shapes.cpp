// Reading shape lists. Names are checked for being distinct, so that a list pasted twice is noticed.
#include "weft/ir/shapes.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "weft/base/file.h"

namespace weft::ir {
namespace {

int64_t size_of(const SourceLine& line, const std::string& word) {
  int64_t value = 0;
  const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
  if (result.ec == std::errc::result_out_of_range)
    fail_at(ErrorKind::user, line, word, "F1", fmt::format("too many elements: {} does not fit 64 bits", word),
            "check the sizes");
  if (word.empty() || result.ec != std::errc() || result.ptr != word.data() + word.size() || value < 0)
    fail_at(ErrorKind::user, line, word, "F1", fmt::format("`{}` is not a size", word),
            "NAME SIZE SIZE ..., sizes are integers of at least 0");
  return value;
}

NamedShape shape_of_line(const SourceLine& line) {
  std::string text = line.text;
  for (char& c : text)
    if (c == '[' || c == ']' || c == ',') c = ' ';
  const std::vector<std::string> w = words(text);
  NamedShape named;
  named.name = w[0];
  if (named.name.empty() || (named.name[0] >= '0' && named.name[0] <= '9'))
    fail_at(ErrorKind::user, line, named.name, "F1", fmt::format("`{}` is not a name", named.name),
            "a line is NAME SIZE SIZE ...");
  int64_t elements = 1;
  for (size_t i = 1; i < w.size(); ++i) {
    named.shape.push_back(size_of(line, w[i]));
    const bool wraps = __builtin_mul_overflow(elements, std::max<int64_t>(named.shape.back(), 1), &elements);
    if (wraps || elements > int64_t{1} << 53)
      fail_at(ErrorKind::user, line, w[i], "F1", fmt::format("{} has too many elements: more than 2^53", named.name),
              "check the sizes");
  }
  return named;
}

}  // namespace

std::vector<NamedShape> parse_shapes(std::string_view text) {
  std::vector<NamedShape> list;
  std::unordered_set<std::string> seen;
  for (const SourceLine& line : source_lines(text)) {
    NamedShape named = shape_of_line(line);
    if (!seen.insert(named.name).second)
      fail_at(ErrorKind::user, line, named.name, "F2", fmt::format("{} stands twice in the list", named.name),
              "each tensor once");
    list.push_back(std::move(named));
  }
  if (list.empty())
    throw Error(ErrorKind::user, "an empty list of shapes", "one tensor a line: NAME SIZE SIZE ...", "F1");
  return list;
}

std::vector<NamedShape> read_shapes(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  try {
    return parse_shapes(text);
  } catch (const Error& error) { throw Error(error.kind(), fmt::format("{}: {}", path.string(), error.what())); }
}

std::vector<std::vector<int64_t>> shapes_only(const std::vector<NamedShape>& list) {
  std::vector<std::vector<int64_t>> out;
  for (const NamedShape& named : list) out.push_back(named.shape);
  return out;
}

int64_t elements(const std::vector<NamedShape>& list) {
  int64_t total = 0;
  for (const NamedShape& named : list) {
    int64_t size = 1;
    for (const int64_t extent : named.shape) size *= extent;
    total += size;  // two of at most 2^53
    if (total > int64_t{1} << 53)
      throw Error(ErrorKind::user, fmt::format("the list has too many elements: more than 2^53 at {}", named.name),
                  "check the sizes");
  }
  return total;
}

}  // namespace weft::ir
