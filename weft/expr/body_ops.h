// The loops of the vectorised evaluator: one function per operation and dtype. Internal to expr.
//
// Built several times for several instruction sets from body_ops_impl.h; the bits are the same (no contraction), only
// the speed is not. best_loops() picks by what the processor has.
#pragma once

#include "weft/expr/typed.h"

namespace weft::expr {

// d = op(a, b, c) for n elements. d overlaps no operand; operands that an operation lacks are null. uniform reads seed
// and stream from a[0] and b[0] and the first position from c; position from c; position_of inner, extent from a, b.
using Loop = void (*)(void* d, const void* a, const void* b, const void* c, int64_t n);

struct Loops {
  Loop (*operation)(Code code, Dtype dtype);  // dtype of the operands (of the branches for select)
  Loop (*convert)(Dtype from, Dtype to);      // register to register
  Loop (*round)(Dtype from, Dtype narrow);    // register to f32 register that holds a narrow value
  Loop (*load)(Dtype memory);                 // memory to register; nullptr where they are the same
  Loop (*store)(Dtype memory);                // register to memory, likewise
};

const Loops& best_loops();

}  // namespace weft::expr
