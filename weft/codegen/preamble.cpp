// What stands in front of a generated step: expr's element functions and this room's prelude, less the sections that
// the step does not use. Both are pasted as text, so a compiled kernel depends on no header of Weft and an installed
// Weft needs none.
#include "weft/codegen/emit.h"
#include "weft/codegen/prelude_text.h"
#include "weft/expr/functions.h"

namespace weft::codegen {

std::string preamble_text(const PreludeParts& parts) {
  std::string text(expr::functions_source());
  const size_t once = text.find("#pragma once");
  if (once != text.npos) text.erase(once, 12);
  bool keep = true;
  std::string_view rest = prelude_text();
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    if (line == "//@ pair")
      keep = parts.pairs;
    else if (line == "//@ stream")
      keep = parts.streams;
    else if (line == "//@ half")
      keep = parts.halves;
    else if (line == "//@ fold")
      keep = parts.folds;
    else if (line == "//@ draw")
      keep = parts.draws;
    else if (keep)
      text += std::string(line) + "\n";
  }
  return text + "\n}  // namespace\n\n";
}

}  // namespace weft::codegen
