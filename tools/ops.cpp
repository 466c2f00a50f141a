// weft ops: what a program may say: operations, definitions, functions.
#include "weft/ir/ops.h"

#include <cstdio>

#include "tools/verbs.h"
#include "weft/expr/functions.h"

namespace weft::tools {
namespace {

void line(std::string_view signature, std::string_view meaning) {
  std::printf("  %-32s %s\n", std::string(signature).c_str(), std::string(meaning).c_str());
}

void ops_verb() {
  std::printf("operations (docs/program.md):\n");
  for (const ir::OpDef* def : ir::op_registry()) line(def->signature, def->meaning);
  std::printf("definitions, which expand:\n");
  for (const ir::Definition& definition : ir::definitions()) line(definition.signature, definition.meaning);
  std::printf("functions in expressions, with the bound of their error in units of the last place:\n");
  for (const expr::Function& function : expr::functions())
    line(function.name, fmt::format("{} argument{}, f32 {} ulp, f64 {} ulp", function.arity,
                                    function.arity == 1 ? "" : "s", function.ulp_f32, function.ulp_f64));
}

}  // namespace

Verb add_ops(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("ops", "list the operations, definitions and functions of programs");
  verb->footer("  weft ops");
  return ops_verb;
}

}  // namespace weft::tools
