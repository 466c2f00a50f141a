// The operations, one file each (op_NAME.cpp, evaluate_NAME.cpp); registry.cpp lists them.
#pragma once

#include "weft/ir/ops.h"

namespace weft::ir {

extern const OpDef map_def;
extern const OpDef sum_def, prod_def, amax_def, amin_def;
extern const OpDef matmul_def, conv2d_def;
extern const OpDef all_reduce_def, reduce_scatter_def, reduce_def;
extern const OpDef all_gather_def, gather_def, broadcast_def, scatter_def;
extern const OpDef all_to_all_def, send_def;

// Shared by map and fold: broadcasting from the right (S1).
Factors pointwise_factors(const Op& op, const Types& types);
FactorKind fold_kind(const OpDef& def);  // sum prod max min

void evaluate_map(const Op& op, RankTensors& ranks);
void evaluate_fold(const Op& op, RankTensors& ranks);
void evaluate_matmul(const Op& op, RankTensors& ranks);
void evaluate_conv2d(const Op& op, RankTensors& ranks);
void evaluate_reduction(const Op& op, RankTensors& ranks);  // all_reduce reduce_scatter reduce
void evaluate_move(const Op& op, RankTensors& ranks);       // all_gather gather broadcast scatter
void evaluate_all_to_all(const Op& op, RankTensors& ranks);
void evaluate_send(const Op& op, RankTensors& ranks);

}  // namespace weft::ir
