// A body with every operation typed: what the evaluator compiles and the C++ printer prints. Internal to expr.
//
// Registers hold *compute* dtypes: f32 for narrow floats (D5). A narrow float is a f32 that was rounded, so `round` is
// an operation, put after every named value and cast of a narrow dtype. Scalar-only subtrees are `hoisted` leaves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/expr/body.h"

namespace weft::expr {

enum class Code : uint8_t {
  hoisted,
  value,  // leaves: index into hoisted or values
  add,
  sub,
  mul,
  div,
  mod,
  pow,
  square,
  neg,
  lt,
  gt,
  le,
  ge,
  eq,
  ne,
  and_,
  or_,
  not_,
  abs,
  min,
  max,
  relu,
  select,
  sqrt,
  rsqrt,
  exp,
  log,
  tanh,
  sigmoid,
  silu,
  gelu,
  convert,  // args[0] to dtype
  round,    // args[0] to `narrow`, kept as f32
  uniform,  // rand: args are seed and stream, hoisted
  position,
  position_of,  // index(); index(inner, extent)
};

struct Term;
using TermPtr = std::shared_ptr<const Term>;
struct Term {
  Code code;
  Dtype dtype;  // of the register
  int index = 0;
  Dtype narrow = Dtype::f32;
  std::vector<TermPtr> args;
};

struct HoistedValue {
  Expr value;
  Dtype dtype;
  bool literal = false;  // no names in it: `constant` holds its value
  ScalarValue constant;
};

struct TypedBody {
  struct Named {
    std::string name;
    Dtype dtype;
    TermPtr term;
  };  // inputs have no term
  std::vector<HoistedValue> hoisted;
  std::vector<Named> values;  // inputs, then assignments; later ones may shadow
  size_t inputs = 0;
  std::vector<int> outputs;  // indices into values
};

TypedBody type_body(const Body& body);
const char* function_name(Code code);  // in functions_impl.h; nullptr for operators and leaves

}  // namespace weft::expr
