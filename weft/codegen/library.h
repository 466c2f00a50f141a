// The library of generated code: every step shape becomes one C++ function, compiled by the system compiler and cached.
#pragma once

#include <memory>
#include <string>

#include "weft/kernel/step_code.h"

namespace weft::codegen {

// Compiled under cache_directory()/kernels; found again in 1 to 2 ms a set. Where there is no compiler, or
// WEFT_NO_COMPILER is set, or the machine does not let us (no folder to write, disk full, a compiler that hangs or is
// killed), kernels are evaluated, which a warning says once per job with its reason. A compiler that refuses the text is
// Error(io): somebody should know. Code stays loaded until the process ends.
std::unique_ptr<kernel::KernelLibrary> generated_library();

// The complete C++ text of a shape: what `weft show --as cpp` prints. Tiles have none: the text says which library
// runs.
std::string source_of(const kernel::StepShape& shape);

}  // namespace weft::codegen
