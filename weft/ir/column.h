// Columns: the values of a pointwise expression over the elements that one rank computes, for the reference evaluator.
#pragma once

#include <functional>
#include <vector>

#include "weft/expr/weak.h"
#include "weft/ir/evaluate.h"

namespace weft::ir {

// Floats in f64, integers and truths in 64 bits; one element where all are the same.
struct Column {
  bool is_float = true;
  bool is_unsigned = false;
  bool uniform = false;
  std::vector<double> f;
  std::vector<int64_t> i;

  int64_t size() const { return static_cast<int64_t>(is_float ? f.size() : i.size()); }
  double real(int64_t at) const;    // element `at` (any for uniform ones) as f64
  int64_t whole(int64_t at) const;  // integers only
};
Column uniform_column(const expr::ScalarValue& value);
Column column_of(const Tensor& tensor);                                           // its elements, row-major
Tensor tensor_of(const Column& column, Dtype dtype, std::vector<int64_t> shape);  // spread out; integers wrap at dtype
double round_to(Dtype dtype, double value);
int64_t wrap_to(Dtype dtype, int64_t value);
int64_t truncate_to(Dtype dtype, double value);

// Where an expression finds its leaves.
struct Leaves {
  int64_t count = 0;                                              // elements
  std::function<Column(const std::string&)> operand;              // of any name
  std::function<Column()> positions;                              // of each element in the whole value (rand)
  std::function<Column(int64_t)> index;                           // along dimension d
  std::function<std::optional<Dtype>(const std::string&)> dtype;  // of a tensor; nothing for weak names
  expr::WeakDtype weak;                                           // of a weak name: i64 or f64
  Dtype result = Dtype::f64;                                      // what the value becomes
  // Casts round to their dtype, and every step of a float dtype but f64 to f32, as kernels compute it.
  bool round_steps = false;
};
Column evaluate_expression(const expr::Expr& e, const Leaves& leaves);

}  // namespace weft::ir
