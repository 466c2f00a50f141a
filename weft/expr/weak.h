// Rule D2, the half that decides: is a number that is known at launch an integer for sure?
//
// A weak value takes the dtype of the tensor it meets. Where that is an integer, a value that may have a fraction would
// silently lose it, and every evaluator in its own way, so inference asks before any of them runs. Launch scalars have
// a dtype, sizes and ranks are integers, lets are what they are made of; the rest follows from the operations, exactly
// as evaluate_scalar computes them. Integer for sure is the dtype i64, everything else f64.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "weft/base/dtype.h"
#include "weft/expr/expr.h"

namespace weft::expr {

// Of a weak name (scalar, let, size, ranks): i64 where it is an integer for sure, else f64.
using WeakDtype = std::function<Dtype(const std::string&)>;

// i64 where `e`, whose names are all weak, is an integer for sure, else f64. Of a power only with a literal exponent of
// at least 0, of a cast as it says. rand is f64, index is i64.
Dtype weak_dtype(const Expr& e, const WeakDtype& weak_of);

// infer_dtype (body.h) with D2 decided for names too; without `weak_of` they are taken for integers, as in the kernels
// of plans, whose programs have been inferred before.
std::optional<Dtype> infer_dtype(const Expr& e, const std::function<std::optional<Dtype>(const std::string&)>& type_of,
                                 const WeakDtype& weak_of);

}  // namespace weft::expr
