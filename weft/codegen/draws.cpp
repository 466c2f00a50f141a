// Taking random numbers out of an element's lines.
//
// A Philox block costs ten rounds and gives four numbers; element i uses number i % 4 of block i / 4. Asked element by
// element, three of four are thrown away. The loop over elements cannot share them (it is vectorised across elements), so
// they are drawn for a block of elements beforehand and the element takes its own as an input. The bits are the same.
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/codegen/emit.h"

namespace weft::codegen {
namespace {

constexpr std::string_view call = "wm::uniform(";

// The arguments of the call whose parenthesis opens just before `at`; `at` moves behind the closing one.
std::vector<std::string> arguments_at(const std::string& line, size_t& at) {
  std::vector<std::string> list(1);
  for (int depth = 1; at < line.size(); ++at) {
    const char c = line[at];
    depth += (c == '(' || c == '{') - (c == ')' || c == '}');
    if (depth == 0) {
      ++at;
      return list;
    }
    if (c == ',' && depth == 1)
      list.emplace_back();
    else if (c != ' ' || !list.back().empty())
      list.back() += c;
  }
  internal_failure(__FILE__, __LINE__, "parentheses", line);
}

}  // namespace

std::vector<Draw> take_draws(std::vector<std::string>& lines) {
  std::vector<Draw> draws;
  for (std::string& line : lines)
    for (size_t from = line.find(call); from != line.npos; from = line.find(call, from + 1)) {
      size_t to = from + call.size();
      const std::vector<std::string> arguments = arguments_at(line, to);
      WEFT_CHECK(arguments.size() == 3 && arguments[2] == "static_cast<uint64_t>(pos)", "{} has no position", line);
      size_t known = 0;
      while (known < draws.size() && (draws[known].seed != arguments[0] || draws[known].stream != arguments[1]))
        ++known;
      if (known == draws.size()) draws.push_back({fmt::format("draw_{}", known + 1), arguments[0], arguments[1]});
      line.replace(from, to - from, draws[known].name);
    }
  return draws;
}

}  // namespace weft::codegen
