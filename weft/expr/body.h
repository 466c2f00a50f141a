// A body: named, typed, rounded assignments over elements. What a map statement, a fused group and a plan's kernel
// all become, and the only thing that evaluators and code generators see of pointwise mathematics.
//
// Rules D1, D2, D5 of docs/program.md decide the types, here and nowhere else: tensors that meet have one dtype;
// scalars and literals are weak: scalar-only subexpressions are computed once per launch in f64 (i64) and rounded to
// the dtype of the tensor they meet; maps of narrow floats compute in f32; every *named* value is rounded to its dtype.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/expr/expr.h"

namespace weft::expr {

// Integers wrap in their dtype; `/` of integers floors (-7 / 2 = -4, as // does in Python), % has the divisor's sign;
// x / 0 = 0 and x % 0 = x (no trap inside a kernel). `^` with the literal 2 is a product, else the table's pow; of
// integers it wraps and a negative exponent truncates (2 ^ -1 = 0). Float to integer casts truncate, NaN gives 0, what
// does not fit the nearest end of i64 (u64), and then wraps. A comparison without tensors, such as
// `rand(seed, 1) < 0.1`, is done in f64 (i64 where all is integer), in which both sides are exact.
// Bits are equal in all forms but for NaN, whose sign and payload are the processor's.

// Dtype of a pointwise expression. `type_of(name)`: the tensor's dtype, or nothing for a weak name (scalar, let, size).
// Returns nothing for an all-weak expression. Throws Error(user) with rule D1, F4 or F5; the message names the operands.
std::optional<Dtype> infer_dtype(const Expr& e, const std::function<std::optional<Dtype>(const std::string&)>& type_of);

struct Value {
  std::string name;
  Dtype dtype;
};
struct Assignment {
  std::string name;
  Expr value;
  Dtype dtype;
};

struct Body {
  std::vector<Value> inputs;            // elements
  std::vector<Value> scalars;           // once per launch: f64 or i64 (also `ranks`, sizes, lets already substituted)
  std::vector<Assignment> assignments;  // in order; may shadow an input (`a_s = a_s / ranks`)
  std::vector<std::string> outputs;     // names of inputs or assignments, one per output; may repeat
  bool needs_positions = false;         // uses rand or index: the global element index counts
  // In a body index() is the element's position, and so is index(0), of a value of one dimension (lowering sees to
  // that); index(inner, extent) is position / inner % extent. index(1) and beyond need a shape and are refused.
};

// Register code for blocks of elements: the vectorised evaluator. Built once, run for many blocks.
// Bits equal those of generated code by construction (same functions, same order, no contraction).
class BodyCode {
 public:
  explicit BodyCode(const Body& body);
  ~BodyCode();
  BodyCode(BodyCode&&) noexcept;
  // scalars: one per body.scalars. inputs[i]: `count` elements of inputs[i].dtype, or one element where
  // broadcast[i] (null: none). outputs[k]: count elements of the output's dtype, elsewhere or exactly at an input.
  // position: global index of the first element. Several threads may run one code.
  void run(std::span<const ScalarValue> scalars, std::span<const void* const> inputs, const bool* broadcast,
           std::span<void* const> outputs, int64_t count, int64_t position) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

Dtype output_dtype(const Body& body, size_t output);

// Readable C++ for one element: "const float m1 = 0.9f * m + ...;", one line per assignment; hoisted scalar
// subexpressions come out as names h0, h1 ... with their f64 expressions, to be computed once per launch.
struct BodySource {
  struct Hoisted {
    std::string name;
    Expr value;
    Dtype dtype;
  };
  std::vector<Hoisted> hoisted;
  std::vector<std::string> lines;    // refer to inputs by their C names, to `pos` for the position
  std::vector<std::string> outputs;  // C names of the outputs: a shadowing assignment gets a number, `a_s_2`
};
// In the lines narrow floats are float, bool is bool, others their C type; hoisted names have `dtype` (never narrow).
// Lines call functions of functions_impl.h (namespace wm).
BodySource source(const Body& body);
std::string c_name(const std::string& name);  // "m1.s" -> "m1_s"

int64_t flops(const Body& body);  // per element: + - * / compare select 1; functions their polynomial's count

}  // namespace weft::expr
