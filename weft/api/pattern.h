// Test data that encode (rank, index): what the tuner's checks and the benchmarks fill buffers with.
//
// Constant fillings hide most faults of collectives, so every element is a hash of the value's name, the launch, the
// rank (where ranks may differ) and its position in the whole value. Inputs are in [-1, 1), states in [2^-10, 1):
// whatever a program does to a state (square roots of second moments) stays defined. Integers are small.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "weft/api/memory.h"
#include "weft/ir/evaluate.h"

namespace weft::api {

struct Pattern {
  uint32_t salt = 0;
  bool positive = false;
};
// The pattern of a program's input or state: `rank` counts only where the layout lets ranks differ.
Pattern pattern_of(const ir::Program& program, const ir::Name& name, int rank, int launch);

double pattern_value(const Pattern& pattern, int64_t position);  // before rounding to a dtype
void fill(const Pattern& pattern, Dtype dtype, const Piece& piece);
ir::Tensor pattern_tensor(const Pattern& pattern, Dtype dtype, std::vector<int64_t> shape);  // rounded to dtype

// Order-independent digest of (position, bits): equal contents give equal sums however they are cut into pieces.
uint64_t digest(int64_t element_bytes, const Piece& piece);

// Scalars when nobody gives any: f64 0.001, integers the launch's number (1, 2, ...).
std::map<std::string, expr::ScalarValue> default_scalars(const ir::Program& program,
                                                         const std::map<std::string, double>& given, int launch);

}  // namespace weft::api
