// The library of generated code: every step shape becomes one C++ function, compiled by the system compiler and cached.
#pragma once

#include <memory>
#include <string>

#include "weft/kernel/step_code.h"

namespace weft::codegen {

// Compiled under cache_directory()/kernels; found again in 1 to 2 ms a set. Where there is no compiler, or
// WEFT_NO_COMPILER is set, this is the evaluator's library, which a warning says once. Code stays loaded until the
// process ends.
std::unique_ptr<kernel::KernelLibrary> generated_library();

// The complete C++ text of a shape: what `weft show --as cpp` prints. Tiles have none: the text says which library
// runs.
std::string source_of(const kernel::StepShape& shape);

}  // namespace weft::codegen
