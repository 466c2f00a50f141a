// What kind of number a weak name is (rule D2), read off a program's header.
#pragma once

#include "weft/expr/weak.h"
#include "weft/ir/program.h"

namespace weft::ir {

// i64 for sizes, ranks, i64 scalars and constants that are integers for sure, f64 for the others. The header is read at
// the first question; `program` must outlive the answer.
expr::WeakDtype weak_dtypes(const Program& program);

}  // namespace weft::ir
