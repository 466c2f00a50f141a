// Pictures of programs and plans: DOT text, and SVG by graphviz.
#pragma once

#include <string>

#include "weft/ir/program.h"
#include "weft/plan/plan.h"

namespace weft::view {

// Statements as nodes, values as edges labelled with dtype and layout; blocks as boxes; communications drawn apart.
std::string dot(const ir::Program& program);
// One box per lane with its steps in order, edges for links and awaits.
std::string dot(const plan::Plan& plan);
// Runs `dot -Tsvg`. Error(unsupported) where graphviz is not installed, with the package's name.
std::string svg(const std::string& dot_text);

}  // namespace weft::view
