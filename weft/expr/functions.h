// The table of functions: what a pointwise expression may call, with arity, result dtype and error bound.
//
// The numeric definitions are in functions_impl.h, a header that includes nothing of Weft: the library's evaluator
// compiles it, and the code generator pastes its text in front of every generated kernel, so that evaluator, vector
// body, tail (and later CUDA) run the same operations in the same order and give the same bits. Branch-free scalar
// code; the compiler vectorises it.
#pragma once

#include <string_view>
#include <vector>

#include "weft/base/dtype.h"

namespace weft::expr {

struct Function {
  std::string_view name;  // sqrt rsqrt exp log tanh sigmoid relu gelu silu abs min max select pow ...
  int arity;
  bool float_only;
  double ulp_f32, ulp_f64;  // stated bound, tested exhaustively for f32 (every bit pattern under WEFT_SLOW=1)
  int flops;                // operations an element, for predictions
};

const std::vector<Function>& functions();
const Function* find_function(std::string_view name);
std::string_view functions_source();  // the text of functions_impl.h, embedded at build time

}  // namespace weft::expr
