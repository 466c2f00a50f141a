// The reference evaluator: all ranks in one thread, one statement after the other, in float64 or exact integers.
//
// This is what a program *means*. No rewrite, plan or kernel is used; expressions are evaluated element by element in
// f64 (floats) or i64 / u64 with wrap at the named dtype (integers). With `round_named` every named value is rounded to
// its dtype and computed in f32 where that is narrower than f64, sums over ranks too, and an average is taken of the
// rounded sum: all as plans do it, so that coarse dtypes, where decimal constants tie, are compared tightly. Without it
// floats stay f64. Replicated values are
// asserted equal on all ranks. Folds go in element order, reductions in rank order.
#pragma once

#include <map>
#include <vector>

#include "weft/expr/expr.h"
#include "weft/ir/program.h"

namespace weft::ir {

// A whole value on one rank: floats in `f`, integers and bool in `i` (u64 as its bits). Row-major.
struct Tensor {
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;
  std::vector<double> f;
  std::vector<int64_t> i;
  int64_t size() const { return static_cast<int64_t>(is_float(dtype) ? f.size() : i.size()); }
};

struct Sizes {
  int ranks = 1;
  std::map<std::string, int64_t> dims;                               // dims; of a ragged T the most rows of a rank
  std::map<std::string, std::vector<std::vector<int64_t>>> tensors;  // `tensors P`: the shapes
  std::map<std::string, expr::ScalarValue> scalars;
  std::map<std::string, std::vector<std::vector<int64_t>>> counts = {};  // ragged T: rows from each rank to each
};
// Rows of ragged T that each rank has for each: as handed in, else a lopsided split of dims[T], the last rank getting none.
std::vector<std::vector<int64_t>> row_counts(const Sizes& sizes, const std::string& ragged);
// The ragged size that `name` is: T, or T.t where the counts are those of the other side. Null: it is none.
const struct RaggedDecl* ragged_of(const Program& program, const std::string& name);
// What rank has of a ragged size, `T` or `T.t`, part by part.
std::vector<int64_t> ragged_parts(const Sizes& sizes, const std::string& name, int rank);
int64_t tensors_total(const Sizes& sizes, const std::string& name);
std::vector<int64_t> tensors_lengths(const Sizes& sizes, const std::string& name);  // elements of each
// Concrete shape ("#P": number of tensors; ragged rows: the most that there may be). Throws user errors for unknown sizes.
std::vector<int64_t> shape_of(const Shape& shape, const Sizes& sizes);
// The slice of dimension length n that rank r of k holds: [r*n/k, (r+1)*n/k).
std::pair<int64_t, int64_t> slice_of(int64_t n, int rank, int ranks);
void check_requirements(const Program& program, const Sizes& sizes);  // `require` lines; user error names the line

// Inputs and old states per rank: values[name][rank] holds the *whole* tensor for replicated ones (same on all ranks),
// the rank's slice for sliced ones, the rank's own for local ones, the value on the root for root(k) (empty elsewhere).
using Values = std::map<Name, std::vector<Tensor>>;
struct Result {
  Values values;
};  // every statement's, plus new states under "update:NAME"

struct EvaluateOptions {
  bool round_named = false;
};
Result evaluate(const Program& program, const Sizes& sizes, const Values& inputs, const EvaluateOptions& options = {});

}  // namespace weft::ir
