// One name space for all that a program defines and all that the language has: a tensor called `sum` could be declared
// and then not be told from the operation. Mistakes in names are the commonest ones, so errors name the nearest known
// name by the number of letters that are added, lost, changed or exchanged (Damerau).
#include "weft/ir/names.h"

#include <algorithm>

#include "weft/base/dtype.h"
#include "weft/base/text.h"
#include "weft/expr/functions.h"
#include "weft/ir/statements.h"

namespace weft::ir {
namespace {

constexpr std::string_view words_of_lines[] = {
    "program", "dim",     "require", "tensors", "ragged", "group", "scalar", "let", "in",  "state", "update", "out",
    "fuse",    "overlap", "cut",     "by",      "on",     "and",   "or",     "not", "inf", "nan",   "world",  "ranks"};

size_t letters_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

bool eat_hoisted(std::string_view& name) {  // ".h12" from the right
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 2 >= name.size() || name[dot + 1] != 'h') return false;
  if (name.substr(dot + 2).find_first_not_of("0123456789") != std::string_view::npos) return false;
  name = name.substr(0, dot);
  return true;
}

}  // namespace

std::string_view meaning_of(std::string_view name) {
  if (std::find(std::begin(words_of_lines), std::end(words_of_lines), name) != std::end(words_of_lines))
    return "a word of the language";
  if (parse_dtype(name)) return "a dtype and its cast";
  if (const OpDef* def = find_op_def(name); def && def->op_class != OpClass::map) return "an operation";
  if (is_definition(name)) return "a definition";
  if (expr::find_function(name) || name == "rand" || name == "index") return "a function";
  return "";
}

bool is_statement_name(std::string_view name) {
  if (name.ends_with(".s") || name.ends_with(".p")) name.remove_suffix(2);
  if (name.ends_with(".n")) name.remove_suffix(2);
  while (eat_hoisted(name)) {}
  return is_identifier(name) && name.find('.') == std::string_view::npos;
}

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  constexpr size_t longest = 64;  // nobody mistypes more than that by a letter
  std::string best;
  size_t least = name.size() < 3 ? 1 : 2;
  if (name.size() > longest) return best;
  for (const std::string& candidate : known) {
    if (candidate.size() > longest || candidate == name) continue;
    const size_t letters = letters_between(name, candidate);
    const bool all_changed = letters >= std::max(name.size(), candidate.size());
    if (all_changed || letters > least || (!best.empty() && letters == least)) continue;
    best = candidate;
    least = letters;
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  const std::string meant = nearest(name, known);
  return meant.empty() ? "" : fmt::format("did you mean {}? ", meant);
}

}  // namespace weft::ir
