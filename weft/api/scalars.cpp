// A plan's launch scalars are expressions over what a program calls by name; a launch turns names into numbers.
//
// Sizes, `ranks` and `rank` are known here and need not be given; a name that is none of these and was not given is the
// caller's mistake and is named. Integers given as numbers must be whole, and numbers for scalars that do not exist are
// refused: a misspelt `lr` must not train with another rate.
#include "weft/api/scalars.h"

#include <cmath>

namespace weft::api {

std::vector<expr::ScalarValue> launch_scalars(const lower::Lowered& lowered, const ir::Sizes& sizes,
                                              const std::map<std::string, expr::ScalarValue>& scalars, int rank) {
  const auto value_of = [&](const std::string& name) -> expr::ScalarValue {
    if (name == "ranks") return {true, sizes.ranks, 0};
    if (const auto scalar = scalars.find(name); scalar != scalars.end()) return scalar->second;
    if (const auto size = sizes.dims.find(name); size != sizes.dims.end()) return {true, size->second, 0};
    if (sizes.tensors.count(name)) return {true, ir::tensors_total(sizes, name), 0};
    if (name == "rank") return {true, rank, 0};
    throw Error(ErrorKind::user,
                fmt::format("a launch needs {}, which is neither a size nor a scalar that was given", name),
                "pass it, as in launch({{\"lr\", 1e-3}})");
  };
  std::vector<expr::ScalarValue> values;
  for (const expr::Expr& e : lowered.scalars) values.push_back(expr::evaluate_scalar(e, value_of));
  return values;
}

std::map<std::string, expr::ScalarValue> typed_scalars(const ir::Program& program,
                                                       const std::map<std::string, double>& given) {
  std::map<std::string, expr::ScalarValue> out;
  for (const ir::HeaderDecl& decl : program.header) {
    const auto* scalar = std::get_if<ir::ScalarDecl>(&decl);
    if (!scalar) continue;
    const auto found = given.find(scalar->name);
    if (found == given.end()) continue;
    if (is_float(scalar->dtype))
      out[scalar->name] = {false, 0, found->second};
    else if (found->second == std::floor(found->second) && std::abs(found->second) <= 0x1p53)
      out[scalar->name] = {true, static_cast<int64_t>(found->second), 0};
    else
      throw Error(ErrorKind::user, fmt::format("scalar {} is an integer, {} was given", scalar->name, found->second),
                  "give a whole number of at most 2^53");
  }
  for (const auto& [name, value] : given)
    if (!out.count(name))
      throw Error(ErrorKind::user, fmt::format("{} has no scalar named {}", program.name, name),
                  "see its `scalar` lines");
  return out;
}

}  // namespace weft::api
