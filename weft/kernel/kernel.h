// Kernels: what a step computes between its sources and its targets.
//
// A plan moves cells; a kernel says what happens to their elements. Three kinds cover the field, and a new one touches
// this room only: pointwise (any number of inputs and outputs), fold (pointwise, then partial reductions that end in
// coarser cells), tile (matmul: whole operands). Each kind supplies exactly three things: evaluate, source, work. There
// is never a loop over elements in a kernel's source: loads, stores, tails and packing stay with the step
// (docs/plan.md, 7), so that the same text serves C++ and CUDA.
//
// Text form, in a plan (one assignment a line; hashed with the plan):
//     kernel adam(lr, step): a, m, v, w -> m1, v1, w1
//       m1 = 0.9 * m + (1 - 0.9) * a
//     kernel squares: w, u -> q
//       q = sum(w * w + u * u)          # fold: the coarser cell of the step's `+q[c]` target says over what
//     kernel mm(rows, cols): x, w -> y
//       y = matmul(x, w)                # tile: w is [rows, cols], or [batch, rows, cols] where batch is a scalar too;
//                                       # x has as many rows as the step's elements make: count / cols (/ batch)
// Types are not written: they follow from the operands by rules D1, D2, D4, D5 (expr/body.h).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/expr/body.h"
#include "weft/expr/expr.h"

namespace weft::kernel {

// How sources that meet are combined, left to right. (avg is a division in a kernel.)
enum class Reduction : uint8_t { sum, prod, min, max, bit_and, bit_or, bit_xor, logical_and, logical_or };
std::string_view name(Reduction reduction);
std::optional<Reduction> parse_reduction(std::string_view text);
// Throws Error(plan) V1 where the reduction has no meaning for the dtype (bits of floats).
void check_reduction(Reduction reduction, Dtype dtype);
// The value that changes nothing: 0, 1, +inf / largest, -inf / smallest ... as f64 or i64 bits in `dtype` at `at`.
void store_identity(Reduction reduction, Dtype dtype, void* at);
// into = combine(into, from), elementwise, in `dtype` arithmetic (16- and 8-bit floats: in f32, rounded once).
void combine(Reduction reduction, Dtype dtype, void* into, const void* from, int64_t count);

enum class AssignmentKind : uint8_t { map, fold, tile };
struct Assignment {
  std::string name;
  AssignmentKind kind = AssignmentKind::map;
  expr::Expr value;               // map: the expression; fold: what is folded; tile: null
  std::string function;           // fold: sum prod amax amin; tile: matmul
  std::vector<std::string> args;  // tile: its operands
};

struct Kernel {
  std::string name;
  std::vector<std::string> scalars;  // launch scalars; `ranks` is always known
  std::vector<std::string> inputs;   // the reduced value first (if the step reduces or has any source), then the others
  std::vector<std::string> outputs;  // to the targets in order; the last one also to all that remain
  std::vector<Assignment> body;
};

enum class Kind : uint8_t { pointwise, fold, tile };
Kind kind(const Kernel& kernel);
// Checks names, arity and shape of the body: Error(plan) rule V1.
void check(const Kernel& kernel);
std::string print(const Kernel& kernel);      // header line and two-space indented body, no trailing newline
Kernel parse_header(const SourceLine& line);  // "kernel NAME(scalars): inputs -> outputs"
Assignment parse_assignment(const SourceLine& line);

// How an operand's elements meet the step's elements.
enum class Alignment : uint8_t {
  aligned,  // one element each
  single,   // one element for the whole run (a constant, a fold's result, a per-row or per-tensor value)
  whole,    // tile operands
};

// ---- typing: kernel plus operand dtypes.
struct Typed {
  const Kernel* kernel = nullptr;
  std::vector<Dtype> inputs, scalars, outputs;  // outputs: dtype of the value as named (rounded), one per kernel output
  expr::Body body;                  // pointwise and fold: the maps, and the folded expressions as assignments; its
                                    // scalars are the kernel's, then `ranks`; its outputs the kernel's, in order
  std::vector<int> fold_of_output;  // per output: index into body.outputs of the folded value, or -1 (pointwise)
  std::vector<Reduction> fold_reduction;
};
Typed type(const Kernel& kernel, std::span<const Dtype> inputs);

// ---- the three things: evaluate
struct Run {                            // a run of elements that are contiguous in every aligned operand
  std::span<const void* const> inputs;  // by Alignment: count elements, one, or the whole operand
  const Alignment* alignment;
  std::span<void* const> outputs;  // pointwise: count elements of outputs[k]; fold: one accumulator, combined into
  int64_t count = 0;
  int64_t position = 0;  // of the first element in the whole value (row-major index), for rand and index
  std::span<const expr::ScalarValue> scalars;  // one per kernel.scalars, then `ranks`
};
class Evaluator {  // built once per Typed, used by the interpreter and by hosts without a compiler
 public:
  explicit Evaluator(const Typed& typed);
  ~Evaluator();
  Evaluator(Evaluator&&) noexcept;
  void operator()(const Run& run) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
// Of a fold's partials: extremes are kept in their own dtype, whose ends are what nothing changes; sums and products in
// f64 (floats), i64 or u64 (integers and bool).
Dtype accumulator_dtype(Reduction reduction, Dtype folded);

// The partial reduction of one run, in a tree that does not depend on how wide vectors are: element i of the run goes
// to lane i % 32, each lane in order; then the upper half of the lanes is combined into the lower, five times.
// Generated code does the same.
class FoldLanes {
 public:
  static constexpr int64_t lanes = 32;
  FoldLanes(Reduction reduction, Dtype folded);
  // The next elements of the run; every call but the last has a multiple of `lanes`.
  void add(Dtype dtype, const void* values, int64_t count);
  // cell = combine(cell, partial), the cell converted to the accumulator's dtype and back.
  void finish(Dtype cell_dtype, void* cell);

 private:
  Reduction reduction_;
  Dtype accumulator_;
  alignas(64) char partial_[lanes * 8];
};

// ---- work
struct Work {
  double bytes_read = 0, bytes_written = 0, flops = 0;
};  // per element of the step (tile: per call, see tile.h)
Work work(const Typed& typed);

}  // namespace weft::kernel
