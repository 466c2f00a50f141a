// Types of a kernel, which its text does not write: they follow from the operands it meets in a step (rules D1, D2, D4,
// D5 of docs/program.md), so one kernel serves f32 and f16 gradients. The result is a Body, the only thing evaluators
// and code generators see.
#include <algorithm>
#include <map>

#include "weft/kernel/kernel.h"

namespace weft::kernel {

namespace {

using Types = std::map<std::string, Dtype>;
using Weak =
    std::map<std::string, expr::Expr>;  // named values that no element entered: put in place where they are used

Reduction fold_reduction(const std::string& function) {
  if (function == "sum") return Reduction::sum;
  if (function == "prod") return Reduction::prod;
  return function == "amax" ? Reduction::max : Reduction::min;
}

// D4: sums and products of narrow types are f32 (i64); extremes stay what they are.
Dtype folded_dtype(Reduction reduction, Dtype dtype) {
  return reduction == Reduction::sum || reduction == Reduction::prod ? fold_dtype(dtype) : dtype;
}

Dtype fold_result(Reduction reduction, Dtype folded) {
  const bool counts = folded == Dtype::boolean && (reduction == Reduction::sum || reduction == Reduction::prod);
  return counts ? Dtype::i64 : folded;  // sum of bool is how many
}

// f64 unless the kernel uses it as a seed, whose 64 bits must arrive whole.
Dtype scalar_dtype(const Kernel& kernel, const std::string& name) {
  bool seed = false;
  for (const Assignment& line : kernel.body)
    if (line.value)
      expr::visit(line.value, [&](const expr::Node& node) {
        if (node.op == expr::Op::call && node.name == "rand")
          for (const expr::Expr& arg : node.args) seed |= arg->op == expr::Op::name && arg->name == name;
      });
  return seed ? Dtype::i64 : Dtype::f64;
}

std::optional<Dtype> dtype_of(const Kernel& kernel, const expr::Expr& value, const Types& types) {
  try {
    return expr::infer_dtype(value, [&](const std::string& name) {
      const auto at = types.find(name);
      return at == types.end() ? std::nullopt : std::optional(at->second);
    });
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("kernel {}: {}", kernel.name, error.message()), error.remedy(), error.rule());
  }
}

bool uses_positions(const expr::Expr& value) {
  bool uses = false;
  expr::visit(value, [&](const expr::Node& node) {
    uses |= node.op == expr::Op::call && (node.name == "rand" || node.name == "index");
  });
  return uses;
}

Typed type_tile(const Kernel& kernel, std::span<const Dtype> inputs) {
  Typed typed;
  if (inputs[0] != inputs[1])
    throw Error(ErrorKind::plan,
                fmt::format("kernel {}: matmul of {} and {}", kernel.name, name(inputs[0]), name(inputs[1])),
                "cast one of them before", "D1");
  typed.outputs = {inputs[0]};
  typed.fold_of_output = {-1};
  return typed;
}

// One line of the body into the typed body; what is weak goes into `weak` instead.
void type_line(const Kernel& kernel, const Assignment& line, Types& types, Weak& weak, Typed& typed) {
  expr::Expr value = expr::substitute(line.value, weak);
  const std::optional<Dtype> dtype = dtype_of(kernel, value, types);
  const bool is_output = std::find(kernel.outputs.begin(), kernel.outputs.end(), line.name) != kernel.outputs.end();
  weak.erase(line.name);
  types.erase(line.name);
  typed.body.needs_positions |= uses_positions(value);
  Dtype as = dtype.value_or(Dtype::f64);
  if (line.kind == AssignmentKind::fold) {
    as = folded_dtype(fold_reduction(line.function), as);
    if (dtype && as != *dtype) value = expr::call(std::string(weft::name(as)), {value});
  }
  if (!dtype && line.kind == AssignmentKind::map) weak[line.name] = value;
  if (!dtype && line.kind == AssignmentKind::map && !is_output) return;
  typed.body.assignments.push_back({line.name, value, as});
  if (dtype) types[line.name] = as;
}

void type_output(const Kernel& kernel, const std::string& output, Typed& typed) {
  const size_t index = typed.body.outputs.size();
  typed.body.outputs.push_back(output);
  Dtype dtype = expr::output_dtype(typed.body, index);
  int fold = -1;
  for (const Assignment& line : kernel.body)
    if (line.kind == AssignmentKind::fold && line.name == output) {
      typed.fold_reduction.push_back(fold_reduction(line.function));
      dtype = fold_result(typed.fold_reduction.back(), dtype);
      fold = static_cast<int>(index);
    }
  if (fold < 0) typed.fold_reduction.push_back(Reduction::sum);
  typed.fold_of_output.push_back(fold);
  typed.outputs.push_back(dtype);
}

}  // namespace

Typed type(const Kernel& kernel, std::span<const Dtype> inputs) {
  check(kernel);
  if (inputs.size() != kernel.inputs.size())
    throw Error(ErrorKind::plan,
                fmt::format("kernel {} takes {} values and gets {}", kernel.name, kernel.inputs.size(), inputs.size()),
                "give it the reduced value first, then the other operands", "V1");
  for (const Dtype dtype : inputs)
    if (dtype == Dtype::f64x2)
      throw Error(ErrorKind::unsupported, fmt::format("kernel {} reads a pair (f64x2)", kernel.name),
                  "keep the two values in two f64 buffers");
  Typed typed = kind(kernel) == Kind::tile ? type_tile(kernel, inputs) : Typed();
  typed.kernel = &kernel;
  typed.inputs.assign(inputs.begin(), inputs.end());
  for (const std::string& scalar : kernel.scalars) {
    typed.scalars.push_back(scalar_dtype(kernel, scalar));
    typed.body.scalars.push_back({scalar, typed.scalars.back()});
  }
  typed.body.scalars.push_back({"ranks", Dtype::i64});
  if (kind(kernel) == Kind::tile) return typed;
  Types types;
  Weak weak;
  for (size_t i = 0; i < inputs.size(); i++) {
    typed.body.inputs.push_back({kernel.inputs[i], inputs[i]});
    types[kernel.inputs[i]] = inputs[i];
  }
  for (const Assignment& line : kernel.body) type_line(kernel, line, types, weak, typed);
  for (const std::string& output : kernel.outputs) type_output(kernel, output, typed);
  return typed;
}

Dtype accumulator_dtype(Reduction reduction, Dtype folded) {
  const bool extreme = reduction == Reduction::min || reduction == Reduction::max;
  if (extreme && folded != Dtype::f64x2) return folded;  // pairs are never folded
  if (is_float(folded)) return Dtype::f64;
  return is_integer(folded) && !is_signed(folded) ? Dtype::u64 : Dtype::i64;
}

Work work(const Typed& typed) {
  Work w;
  if (kind(*typed.kernel) == Kind::tile) return w;  // depends on its sizes: matmul_work()
  for (const Dtype dtype : typed.inputs) w.bytes_read += static_cast<double>(size_bytes(dtype));
  for (size_t i = 0; i < typed.outputs.size(); i++) {
    if (typed.fold_of_output[i] < 0)
      w.bytes_written += static_cast<double>(size_bytes(typed.outputs[i]));
    else
      w.flops += 1;
  }
  w.flops += static_cast<double>(expr::flops(typed.body));
  return w;
}

}  // namespace weft::kernel
