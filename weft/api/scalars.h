// Launch scalars: expressions over a program's scalars, its sizes and `ranks`, evaluated once per launch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/lower/lower.h"

namespace weft::api {

// Error(user) names the scalar or size that is missing. `scalars` by the program's names. `rank`: sizes of what this rank
// has a slice of.
std::vector<expr::ScalarValue> launch_scalars(const lower::Lowered& lowered, const ir::Sizes& sizes,
                                              const std::map<std::string, expr::ScalarValue>& scalars, int rank);
// What a caller gave as numbers, in the dtype each scalar was declared with.
std::map<std::string, expr::ScalarValue> typed_scalars(const ir::Program& program,
                                                       const std::map<std::string, double>& given);

}  // namespace weft::api
