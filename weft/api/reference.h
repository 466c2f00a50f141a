// Reference values for checks: patterned inputs and states, evaluated by the program's own meaning.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/ir/evaluate.h"

namespace weft::api {

// The slice of `rank` of a whole tensor along `dim`.
ir::Tensor slice(const ir::Tensor& whole, int dim, int rank, int ranks);

// The ragged size that the input `name` counts the rows of; null: it counts none. Its pattern is ir::row_counts.
const ir::RaggedDecl* counts_of(const ir::Program& program, const ir::Name& name);

// Inputs of launch `launch` (from 1) and, where `states` is empty, patterned states; as evaluate() wants them.
ir::Values patterned_values(const ir::Program& program, const ir::Sizes& sizes, int launch, const ir::Values& states);

// Results (outputs by name, states by name) after each of `launches` launches, as whole values per rank.
std::vector<ir::Values> reference_results(const ir::Program& program, ir::Sizes sizes, int launches,
                                          const std::map<std::string, double>& scalars);

}  // namespace weft::api
