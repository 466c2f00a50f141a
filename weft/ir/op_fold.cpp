// sum prod amax amin: folds over named dimensions (extent 1 remains, so the result broadcasts back), over everything,
// or per tensor of a `tensors` dimension (`by P`: P becomes #P).
#include <algorithm>

#include "weft/ir/errors.h"
#include "weft/ir/op_defs.h"

namespace weft::ir {
namespace {

int wrapped_dim(const Op& op, int dim, int rank) {
  if (dim < -rank || dim >= rank)
    fail_op(op, std::to_string(dim), "S2", fmt::format("no dimension {} in a tensor of {} dimensions", dim, rank),
            "dimensions count from 0, or from -1 at the right end");
  return dim < 0 ? dim + rank : dim;
}

int tensors_dim(const Op& op, const Shape& shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d].name == op.attrs.by && !shape[d].per_tensor) return static_cast<int>(d);
  fail_op(op, op.attrs.by, "S2", fmt::format("`by {}`, but no operand has that dimension", op.attrs.by),
          "fold a value that has one element per element of the list");
}

Factors fold_factors(const Program&, const Op& op, const Types& types) {
  Factors f = pointwise_factors(op, types);
  const FactorKind kind = fold_kind(*op.def);
  const int rank = static_cast<int>(f.shape.size());
  if (!op.attrs.by.empty()) {
    const auto d = static_cast<size_t>(tensors_dim(op, f.shape));
    f.kind[d] = kind;
    f.result[d] = -1;
    f.shape[d].per_tensor = true;
  } else if (op.attrs.dims.empty()) {
    f.kind.assign(f.kind.size(), kind);
    f.result.clear();
    f.shape.clear();
  }
  for (const int dim : op.attrs.dims) {
    const auto d = static_cast<size_t>(wrapped_dim(op, dim, rank));
    f.kind[d] = kind;
    f.result[d] = -1;
    f.shape[d] = Size{};
  }
  return f;
}

bool fold_linear(const Op& op, const std::vector<Name>& pending, ReduceOp reduce) {
  if (reduce_of(fold_kind(*op.def)) != reduce) return false;
  return expr::linearity(op.value, pending, name(reduce)) == expr::Linearity::linear;
}

}  // namespace

FactorKind fold_kind(const OpDef& def) {
  if (&def == &sum_def) return FactorKind::sum;
  if (&def == &prod_def) return FactorKind::prod;
  return &def == &amax_def ? FactorKind::max : FactorKind::min;
}

const OpDef sum_def = {"sum",
                       OpClass::fold,
                       -1,
                       "",
                       "sum(E), sum(E, d ..), sum(E by P)",
                       "adds up: everything, over dimensions, per tensor",
                       fold_factors,
                       nullptr,
                       fold_linear,
                       evaluate_fold};
const OpDef prod_def = {"prod",          OpClass::fold, -1,      "",          "prod(E), prod(E, d ..), prod(E by P)",
                        "multiplies up", fold_factors,  nullptr, fold_linear, evaluate_fold};
const OpDef amax_def = {"amax",        OpClass::fold, -1,      "",          "amax(E), amax(E, d ..), amax(E by P)",
                        "the largest", fold_factors,  nullptr, fold_linear, evaluate_fold};
const OpDef amin_def = {"amin",         OpClass::fold, -1,      "",          "amin(E), amin(E, d ..), amin(E by P)",
                        "the smallest", fold_factors,  nullptr, fold_linear, evaluate_fold};

}  // namespace weft::ir
