// The library that needs no compiler: a step done block by block with the conversions, reductions and register code
// that the other files of this room have. It is the definition of what a step computes; generated code is compared with
// it.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "weft/kernel/blocks.h"
#include "weft/kernel/convert.h"
#include "weft/kernel/step.h"

namespace weft::kernel {

namespace {

struct Step {
  std::shared_ptr<const TypedStep> typed;
  std::optional<expr::BodyCode> code;
  size_t reduced = 0, sources = 0, inputs = 0;  // inputs: values the kernel (or the copy) gets

  explicit Step(std::shared_ptr<const TypedStep> of) : typed(std::move(of)) {
    const StepShape& shape = typed->shape;
    if (!typed->is_copy() && typed->kind != Kind::tile) code.emplace(typed->typed.body);
    reduced = shape.reduced.size();
    sources = reduced + shape.others.size();
    inputs = (reduced ? 1 : 0) + shape.others.size();
  }
  const SourceShape& source(size_t i) const {
    return i < reduced ? typed->shape.reduced[i] : typed->shape.others[i - reduced];
  }
};

// One block of a step's work: pointers into this thread's scratch.
class Block {
 public:
  Block(const Step& step, const StepArgs& args) : step_(step), args_(args), shape_(step.typed->shape) {
    scratch_.reserve(3 + step.typed->values.size());
    for (size_t k = 0; k < step.typed->values.size(); k++) outputs_.push_back(scratch_.block(3 + k));
    for (size_t t = 0; t < shape_.targets.size(); t++)
      lanes_.emplace_back(step.typed->folds[t], step.typed->values[shape_.targets[t].output]);
    inputs_.resize(step.inputs);
    broadcast_.reset(new bool[step.inputs + 1]());
  }

  void run(int64_t at, int64_t count) {
    gather(at, count);
    if (step_.typed->is_copy())
      copy(count);
    else
      step_.code->run(scalars(), inputs_, broadcast_.get(), outputs_, count, args_.position + at);
    for (size_t t = 0; t < shape_.targets.size(); t++) write(t, at, count);
  }

  void finish() {
    for (size_t t = 0; t < shape_.targets.size(); t++)
      if (shape_.targets[t].store == Store::accumulate) lanes_[t].finish(shape_.targets[t].dtype, args_.targets[t]);
  }

 private:
  std::span<const expr::ScalarValue> scalars() const {
    return {static_cast<const expr::ScalarValue*>(args_.hoisted), shape_.kernel.scalars.size() + 1};
  }

  const char* element(size_t source, int64_t at) const {
    const SourceShape& s = step_.source(source);
    return static_cast<const char*>(args_.sources[source]) +
           (s.alignment == Alignment::single ? 0 : at * size_bytes(s.dtype));
  }

  // Source `i` in the accumulation dtype, spread over the block where it is one element.
  void load(size_t i, int64_t at, int64_t count, char* to) const {
    const SourceShape& s = step_.source(i);
    const Dtype dtype = step_.typed->accumulate;
    const int64_t bytes = size_bytes(dtype);
    const bool single = s.alignment == Alignment::single;
    convert(s.dtype, element(i, at), dtype, to, single ? 1 : count);
    for (int64_t e = 1; single && e < count; e++) std::memcpy(to + e * bytes, to, static_cast<size_t>(bytes));
  }

  void gather(int64_t at, int64_t count) {
    size_t input = 0;
    const bool as_it_is = step_.reduced == 1 && shape_.reduced[0].dtype == shape_.reduced_dtype;
    if (step_.reduced && !as_it_is) {
      char *sum = scratch_.block(0), *next = scratch_.block(1), *rounded = scratch_.block(2);
      load(0, at, count, sum);
      for (size_t i = 1; i < step_.reduced; i++) {
        load(i, at, count, next);
        combine(shape_.reduction, step_.typed->accumulate, sum, next, count);
      }
      convert(step_.typed->accumulate, sum, shape_.reduced_dtype, rounded, count);
      inputs_[input++] = rounded;
    }
    for (size_t i = as_it_is ? 0 : step_.reduced; i < step_.sources; i++) {
      broadcast_[input] = step_.source(i).alignment == Alignment::single;
      inputs_[input++] = element(i, at);
    }
  }

  void copy(int64_t count) {
    const int64_t bytes = size_bytes(step_.typed->values[0]);
    auto* to = static_cast<char*>(outputs_[0]);
    std::memcpy(to, inputs_[0], static_cast<size_t>((broadcast_[0] ? 1 : count) * bytes));
    for (int64_t e = 1; broadcast_[0] && e < count; e++) std::memcpy(to + e * bytes, to, static_cast<size_t>(bytes));
  }

  void write(size_t t, int64_t at, int64_t count) {
    const TargetShape& target = shape_.targets[t];
    Dtype dtype = step_.typed->values[target.output];
    const void* value = outputs_[target.output];
    if (target.store == Store::accumulate) return lanes_[t].add(dtype, value, count);
    if (target.through) {
      convert(dtype, value, *target.through, scratch_.block(0), count);
      dtype = *target.through;
      value = scratch_.block(0);
    }
    convert(dtype, value, target.dtype, static_cast<char*>(args_.targets[t]) + at * size_bytes(target.dtype), count);
  }

  const Step& step_;
  const StepArgs& args_;
  const StepShape& shape_;
  Scratch& scratch_ = thread_scratch();
  std::vector<void*> outputs_;
  std::vector<const void*> inputs_;
  std::unique_ptr<bool[]> broadcast_;
  std::vector<FoldLanes> lanes_;
};

void run_blocks(const StepArgs* args, const void* self) {
  Block block(*static_cast<const Step*>(self), *args);
  for (int64_t at = 0; at < args->count; at += block_elements)
    block.run(at, std::min(block_elements, args->count - at));
  block.finish();
}

void run_tile_step(const StepArgs* args, const void* self) {
  const TypedStep& step = *static_cast<const Step*>(self)->typed;
  const std::span<const expr::ScalarValue> scalars{static_cast<const expr::ScalarValue*>(args->hoisted),
                                                   step.shape.kernel.scalars.size() + 1};
  run_tile(step.typed, scalars, args->sources[0], args->sources[1], args->targets[0], args->count);
  for (size_t t = 1; t < step.shape.targets.size(); t++)
    std::memcpy(args->targets[t], args->targets[0],
                static_cast<size_t>(args->count * size_bytes(step.shape.targets[t].dtype)));
}

void prepare(const expr::ScalarValue* scalars, int64_t ranks, void* hoisted, const void* self) {
  const size_t count = static_cast<const Step*>(self)->typed->shape.kernel.scalars.size();
  auto* to = static_cast<expr::ScalarValue*>(hoisted);
  std::copy(scalars, scalars + count, to);
  to[count] = {true, ranks, static_cast<double>(ranks)};
}

class EvaluatorLibrary : public KernelLibrary {
 public:
  std::vector<StepCode> find(const std::vector<StepShape>& shapes) override {
    const std::lock_guard<std::mutex> hold(mutex_);
    std::vector<StepCode> codes;
    for (const StepShape& shape : shapes) {
      std::unique_ptr<Step>& step = steps_[shape.key()];
      if (!step) step = std::make_unique<Step>(type_step(shape));
      const auto bytes = static_cast<int64_t>((shape.kernel.scalars.size() + 1) * sizeof(expr::ScalarValue));
      codes.push_back({step->typed->kind == Kind::tile ? run_tile_step : run_blocks, prepare, step.get(), bytes});
    }
    return codes;
  }
  std::string_view name() const override { return "evaluator"; }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Step>> steps_;
};

}  // namespace

std::unique_ptr<KernelLibrary> evaluator_library() { return std::make_unique<EvaluatorLibrary>(); }

}  // namespace weft::kernel
