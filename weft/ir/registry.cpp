// The registry: one line per operation. The order is that of docs/program.md and of `weft ops`.
#include "weft/ir/op_defs.h"

namespace weft::ir {

const std::vector<const OpDef*>& op_registry() {
  static const std::vector<const OpDef*> all = {
      &map_def,       &sum_def,        &prod_def,           &amax_def,   &amin_def,       &matmul_def,
      &conv2d_def,    &all_reduce_def, &reduce_scatter_def, &reduce_def, &all_gather_def, &gather_def,
      &broadcast_def, &scatter_def,    &all_to_all_def,     &send_def,
  };
  return all;
}

const OpDef* find_op_def(std::string_view name) {
  for (const OpDef* def : op_registry())
    if (def->name == name) return def;
  return nullptr;
}

ReduceOp reduce_of(FactorKind kind) {
  switch (kind) {
    case FactorKind::sum: return ReduceOp::sum;
    case FactorKind::prod: return ReduceOp::prod;
    case FactorKind::max: return ReduceOp::max;
    case FactorKind::min: return ReduceOp::min;
    case FactorKind::out:
    case FactorKind::whole: break;
  }
  WEFT_CHECK(false, "factor kind {} is no reduction", static_cast<int>(kind));
  return ReduceOp::sum;
}

}  // namespace weft::ir
