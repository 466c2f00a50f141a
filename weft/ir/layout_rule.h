// The one layout rule (L1 to L4, L7, L9 to L11): from the factors of an operation and the layouts of its operands to the
// layout of its result.
#pragma once

#include "weft/ir/ops.h"

namespace weft::ir {

Layout layout_rule(const Op& op, const Types& types, const Factors& factors, Dtype result);

// The factor that a computation is cut along: a sliced operand's, else `cut d`'s; -1 where it works on whole values.
// For statements that inference has accepted.
int cut_factor(const Op& op, const Types& types, const Factors& factors);

// F6, F7, F3, L8 of updates and outputs, from these on: a parser asks of each as it comes.
void check_effects(const Program& program, const Types& types, size_t first_update = 0, size_t first_out = 0);

}  // namespace weft::ir
