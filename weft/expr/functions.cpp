// The function table. Bounds are in units in the last place of the exact result (of the smallest subnormal's step where
// the result is subnormal); tests/unit/expr/functions_test.cpp holds them against long double and f64.
// f32: computed in f64 and rounded once. min, max, select, abs, relu are exact for every dtype.
#include "weft/expr/functions.h"

namespace weft::expr {

const std::vector<Function>& functions() {
  static const std::vector<Function> table = {
      // name, arity, floats only, ulp f32, ulp f64, operations an element
      {"abs", 1, false, 0, 0, 1},      {"min", 2, false, 0, 0, 1},        {"max", 2, false, 0, 0, 1},
      {"relu", 1, false, 0, 0, 1},     {"select", 3, false, 0, 0, 1},     {"sqrt", 1, true, 0.5, 0.5, 1},
      {"rsqrt", 1, true, 1.5, 1.5, 2}, {"exp", 1, true, 0.51, 1, 25},     {"log", 1, true, 0.51, 1, 26},
      {"tanh", 1, true, 0.51, 3, 27},  {"sigmoid", 1, true, 0.51, 3, 27}, {"silu", 1, true, 0.51, 5, 28},
      {"gelu", 1, true, 0.51, 5, 34},  {"pow", 2, true, 0.51, 1.5, 45},
  };
  return table;
}

const Function* find_function(std::string_view name) {
  for (const Function& f : functions())
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace weft::expr
