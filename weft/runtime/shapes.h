// The step shapes of a plan: what a kernel library will be asked for when it is loaded. For printing generated code and
// for compiling ahead.
#pragma once

#include <vector>

#include "weft/kernel/step_code.h"
#include "weft/plan/walk.h"

namespace weft::runtime {

// Distinct, of all ranks, in the order of lanes and steps.
std::vector<kernel::StepShape> step_shapes(const plan::Instance& instance, bool stream);

}  // namespace weft::runtime
