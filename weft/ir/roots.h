// Rule L3 at a launch: roots are ranks of their groups. A plan only knows the largest root; here the statement is named.
#pragma once

#include "weft/ir/evaluate.h"

namespace weft::ir {

// What is said of root `root` (as written) in a group of `ranks`: nothing, or message and remedy.
struct RootRefusal {
  std::string message, remedy;
};
std::optional<RootRefusal> refused_root(const Program& program, const Sizes& sizes, const std::string& root, int ranks);

// Every root that the program names. Error(user), L3: at the line, with a caret, where there is a line.
void check_roots(const Program& program, const Sizes& sizes);

}  // namespace weft::ir
