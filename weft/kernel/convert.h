// Blocks of elements from one dtype to another, as load and store of single elements in base/dtype.h define it, fast
// enough to stand in front of a matrix product or inside the evaluator.
#pragma once

#include <cstdint>

#include "weft/base/dtype.h"

namespace weft::kernel {

// to[i] = from[i] converted; floats round once to nearest even, integers wrap, float to integer truncates toward zero.
// The blocks may be the same memory only where both dtypes have one size.
void convert(Dtype from_dtype, const void* from, Dtype to_dtype, void* to, int64_t count);

}  // namespace weft::kernel
