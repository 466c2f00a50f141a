// A step's shape with everything that follows from it: what both libraries (evaluator, generated code) begin with.
#pragma once

#include <memory>

#include "weft/kernel/step_code.h"

namespace weft::kernel {

struct TypedStep {
  StepShape shape;
  Kind kind = Kind::pointwise;   // pointwise also for a copy
  Dtype accumulate;              // sources are converted to it and reduced in it: the widest of theirs
  Typed typed;                   // of shape.kernel; for a copy: no body, one output
  std::vector<Dtype> values;     // per output, before folding and before conversion to the target
  std::vector<Reduction> folds;  // per target: how Store::accumulate combines
  bool is_copy() const { return shape.kernel.name.empty(); }
};

// Checks the shape (Error(plan) V1, Error(unsupported)) and types it. The pointer because `typed` points into `shape`.
std::shared_ptr<const TypedStep> type_step(const StepShape& shape);

}  // namespace weft::kernel
