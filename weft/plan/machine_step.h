// What a step's operands mean, for verifier and interpreter alike: which operand gives the step its cells, which ones
// are aligned with it, which kernel output a target takes, which dtypes meet. Bound form and code generators follow the
// same rules (docs/plan.md, "Interpreter").
#pragma once

#include <vector>

#include "weft/plan/machine.h"

namespace weft::plan {

// The steps of a lane in the order of its text: FlatStep::source_step is an index into it.
std::vector<const Step*> text_steps(const Body& body);

// Index of the operand whose cells the step works on, -1 if none has any: the first slice of the loop's spaces (outside
// a loop: the first slice) that is not accumulated into; a tile's is its first target of that kind.
int main_operand(const Instance& instance, const AssembledBlock& block, const FlatStep& flat);

// Does this slice go through the step cell by cell with the main operand? The others are read as a whole, or meet it
// through a derived space.
bool is_aligned(const Instance& instance, const AssembledBlock& block, const FlatStep& flat, int main,
                const FlatOperand& operand);

bool is_tile(const Instance& instance, const FlatStep& flat);

// The kernel output that a target takes: outputs go to targets as written, the last one also to all that remain.
int output_of_target(const Instance& instance, const FlatStep& flat, size_t target);

// The dtype of a reduced value as a kernel sees it and as a link without a wire type carries it: that of the first
// reduced slice. Links alone: the widest that arrives. (`arrived`: dtypes of the reduced operands that are messages.)
Dtype reduced_dtype(const Instance& instance, const FlatStep& flat, std::span<const Dtype> arrived);
// The type in which the reduction itself runs: never narrower than what arrives, so that a wide wire keeps its bits.
Dtype accumulator_of_step(const Instance& instance, const FlatStep& flat, std::span<const Dtype> arrived);

}  // namespace weft::plan
