// Evaluating a kernel on runs of elements, block by block: what the interpreter and hosts without a compiler use, and
// what generated code is compared with. A block is small enough to stay in the first-level cache while expr's register
// code passes over it, and every value is written only after the whole block is read, so outputs may be the inputs.
#include <algorithm>
#include <cstring>
#include <vector>

#include "weft/kernel/blocks.h"
#include "weft/kernel/convert.h"
#include "weft/kernel/kernel.h"
#include "weft/kernel/tile.h"

namespace weft::kernel {

FoldLanes::FoldLanes(Reduction reduction, Dtype folded)
    : reduction_(reduction), accumulator_(accumulator_dtype(reduction, folded)) {
  const int64_t size = size_bytes(accumulator_);
  for (int64_t i = 0; i < lanes; i++) store_identity(reduction_, accumulator_, partial_ + size * i);
}

void FoldLanes::add(Dtype dtype, const void* values, int64_t count) {
  char wide[lanes * 8];
  for (int64_t at = 0; at < count; at += lanes) {
    const int64_t n = std::min(lanes, count - at);
    convert(dtype, static_cast<const char*>(values) + at * size_bytes(dtype), accumulator_, wide, n);
    combine(reduction_, accumulator_, partial_, wide, n);
  }
}

void FoldLanes::finish(Dtype cell_dtype, void* cell) {
  for (int64_t half = lanes / 2; half > 0; half /= 2)
    combine(reduction_, accumulator_, partial_, partial_ + size_bytes(accumulator_) * half, half);
  char whole[8];
  convert(cell_dtype, cell, accumulator_, whole, 1);
  combine(reduction_, accumulator_, whole, partial_, 1);
  convert(accumulator_, whole, cell_dtype, cell, 1);
}

void Scratch::reserve(size_t count) {
  const size_t bytes = count * block_bytes + 64;
  if (storage_.size() < bytes) storage_.resize(bytes);
  base_ = storage_.data() + (64 - reinterpret_cast<uintptr_t>(storage_.data()) % 64) % 64;
}

Scratch& thread_scratch() {
  thread_local Scratch scratch;
  return scratch;
}

void run_tile(const Typed& typed, std::span<const expr::ScalarValue> scalars, const void* x, const void* w, void* y,
              int64_t count) {
  const auto scalar = [&](std::string_view name) -> int64_t {
    for (size_t i = 0; i < typed.kernel->scalars.size(); i++)
      if (typed.kernel->scalars[i] == name)
        return scalars[i].is_integer ? scalars[i].integer : static_cast<int64_t>(scalars[i].number);
    return 0;
  };
  const bool swapped = typed.kernel->body[0].args[0] != typed.kernel->inputs[0];
  MatmulArgs args;
  args.dtype = typed.inputs[0];
  args.w_batched =
      std::find(typed.kernel->scalars.begin(), typed.kernel->scalars.end(), "batch") != typed.kernel->scalars.end();
  args.batch = args.w_batched ? scalar("batch") : 1;
  args.inner = scalar("rows");
  args.cols = scalar("cols");
  const int64_t per_row = args.batch * args.cols;
  if (count == 0) return;
  if (per_row <= 0 || count % per_row != 0)
    throw Error(ErrorKind::user,
                fmt::format("kernel {}: {} elements are no whole rows of {} x {} columns", typed.kernel->name, count,
                            args.batch, args.cols),
                "cut the product by rows: chunks and grain are multiples of cols");
  args.rows = count / per_row;
  args.x = swapped ? w : x;
  args.w = swapped ? x : w;
  args.y = y;
  matmul(args);
}

struct Evaluator::Impl {
  Typed typed;
  Kernel kernel;  // our own, so that the caller's may go
  Kind kind;
  std::optional<expr::BodyCode> code;
  std::vector<Dtype> dtypes;  // of the body's outputs

  explicit Impl(const Typed& given) : typed(given), kernel(*given.kernel), kind(kernel::kind(kernel)) {
    typed.kernel = &kernel;
    if (kind == Kind::tile) return;
    code.emplace(typed.body);
    for (size_t k = 0; k < typed.body.outputs.size(); k++) dtypes.push_back(expr::output_dtype(typed.body, k));
  }
};

Evaluator::Evaluator(const Typed& typed) : impl_(std::make_unique<Impl>(typed)) {}
Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;

void Evaluator::operator()(const Run& run) const {
  const Typed& typed = impl_->typed;
  if (impl_->kind == Kind::tile)
    return run_tile(typed, run.scalars, run.inputs[0], run.inputs[1], run.outputs[0], run.count);
  const std::vector<Dtype>& dtypes = impl_->dtypes;
  Scratch& scratch = thread_scratch();
  scratch.reserve(dtypes.size());
  std::vector<FoldLanes> lanes;
  std::vector<void*> outputs;
  for (size_t k = 0; k < dtypes.size(); k++) {
    lanes.emplace_back(typed.fold_reduction[k], dtypes[k]);
    outputs.push_back(scratch.block(k));
  }
  std::vector<const void*> inputs(run.inputs.size());
  const std::unique_ptr<bool[]> broadcast(new bool[inputs.size() + 1]);
  for (int64_t at = 0; at < run.count; at += block_elements) {
    const int64_t count = std::min(block_elements, run.count - at);
    for (size_t i = 0; i < inputs.size(); i++) {
      broadcast[i] = run.alignment[i] == Alignment::single;
      inputs[i] = static_cast<const char*>(run.inputs[i]) + (broadcast[i] ? 0 : at * size_bytes(typed.inputs[i]));
    }
    impl_->code->run(run.scalars, inputs, broadcast.get(), outputs, count, run.position + at);
    for (size_t k = 0; k < dtypes.size(); k++) {
      const int64_t bytes = size_bytes(dtypes[k]);
      if (typed.fold_of_output[k] >= 0)
        lanes[k].add(dtypes[k], outputs[k], count);
      else
        std::memcpy(static_cast<char*>(run.outputs[k]) + at * bytes, outputs[k], static_cast<size_t>(count * bytes));
    }
  }
  for (size_t k = 0; k < dtypes.size(); k++)
    if (typed.fold_of_output[k] >= 0)
      lanes[k].finish(accumulator_dtype(typed.fold_reduction[k], dtypes[k]), run.outputs[k]);
}

}  // namespace weft::kernel
