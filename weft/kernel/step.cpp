// The shape of a step: its canonical text, its checks, its types.
#include "weft/kernel/step.h"

#include <algorithm>

namespace weft::kernel {

namespace {

std::string_view text(Alignment alignment) {
  return alignment == Alignment::aligned ? "" : alignment == Alignment::single ? " single" : " whole";
}
std::string_view text(Store store) {
  return store == Store::normal ? "" : store == Store::stream ? " stream" : " accumulate";
}

std::string sources_text(const std::vector<SourceShape>& sources) {
  std::vector<std::string> parts;
  for (const SourceShape& s : sources) parts.push_back(fmt::format("{}{}", weft::name(s.dtype), text(s.alignment)));
  return join(parts, ", ");
}

[[noreturn]] void refuse(const StepShape& shape, const std::string& message, const std::string& remedy) {
  const std::string who = shape.kernel.name.empty() ? "a copying step" : "a step with kernel " + shape.kernel.name;
  throw Error(ErrorKind::plan, fmt::format("{}: {}", who, message), remedy, "V1");
}

bool accumulates(const StepShape& shape) {
  return std::any_of(shape.targets.begin(), shape.targets.end(),
                     [](const TargetShape& t) { return t.store == Store::accumulate; });
}

std::vector<Dtype> input_dtypes(const StepShape& shape) {
  std::vector<Dtype> inputs;
  if (!shape.reduced.empty()) inputs.push_back(shape.reduced_dtype);
  for (const SourceShape& source : shape.others) inputs.push_back(source.dtype);
  return inputs;
}

// Pairs are copied and combined; nothing else knows them.
void check_pairs(const StepShape& shape) {
  std::vector<Dtype> all = input_dtypes(shape);
  for (const SourceShape& source : shape.reduced) all.push_back(source.dtype);
  for (const TargetShape& target : shape.targets) all.push_back(target.dtype);
  const auto pairs = std::count(all.begin(), all.end(), Dtype::f64x2);
  if (pairs == 0) return;
  if (pairs != static_cast<int64_t>(all.size()) || !shape.kernel.name.empty() || accumulates(shape))
    throw Error(ErrorKind::unsupported, "a step mixes pairs (f64x2) with numbers",
                "pairs are copied and reduced with pairs; for kernels keep two f64 buffers");
}

void check_copy(const StepShape& shape) {
  const size_t values = (shape.reduced.empty() ? 0 : 1) + shape.others.size();
  if (values != 1)
    refuse(shape, fmt::format("{} values and no kernel", values), "reduce them, sum(a, b), or name a kernel");
  for (const TargetShape& target : shape.targets)
    if (target.output != 0)
      refuse(shape, fmt::format("a target takes output {}", target.output), "a copy has one output, 0");
}

void check_tile(const StepShape& shape) {
  if (shape.reduced.size() > 1) refuse(shape, "a tile reads a reduction", "reduce into a buffer in a step before");
  for (const auto* list : {&shape.reduced, &shape.others})
    for (const SourceShape& source : *list)
      if (source.alignment != Alignment::whole)
        refuse(shape, "a tile's operand is not read whole", "give both operands the alignment `whole`");
  for (const TargetShape& target : shape.targets)
    if (target.dtype != shape.targets[0].dtype || target.store == Store::accumulate || target.through)
      refuse(shape, "a tile writes another dtype, rounds on the way or accumulates",
             "write the product, then convert or fold it in another step");
}

void check_targets(const TypedStep& step) {
  const StepShape& shape = step.shape;
  for (const TargetShape& target : shape.targets) {
    if (target.output < 0 || target.output >= static_cast<int>(step.values.size()))
      refuse(shape, fmt::format("a target takes output {} of {}", target.output, step.values.size()),
             "outputs count from 0, the last one goes to all that remain");
    const bool fold = !step.is_copy() && step.typed.fold_of_output[target.output] >= 0;
    const bool into_cell = target.store == Store::accumulate;
    if (fold && !into_cell)
      refuse(shape, "a fold's target is written like an element",
             "write it +q[p]: a fold accumulates into a coarser cell");
    if (into_cell && target.through)
      refuse(shape, "an accumulating target rounds on the way", "fold first, round when the cell is read");
    if (!fold && into_cell && !step.is_copy())
      refuse(shape, "an accumulating target takes an output that is no fold", "make it a fold: q = sum(...)");
  }
}

void check_sources(const TypedStep& step) {
  const StepShape& shape = step.shape;
  for (const auto* list : {&shape.reduced, &shape.others})
    for (const SourceShape& source : *list)
      if (source.alignment == Alignment::whole && step.kind != Kind::tile)
        refuse(shape, "an operand is read whole", "only tile kernels read whole operands");
  if (shape.reduced.size() > 1) check_reduction(shape.reduction, step.accumulate);
}

void set_values(TypedStep& step) {
  const StepShape& shape = step.shape;
  if (step.is_copy()) {
    step.values = {shape.reduced.empty() ? shape.others[0].dtype : shape.reduced_dtype};
  } else {
    step.typed = type(shape.kernel, input_dtypes(shape));
    step.kind = kernel::kind(shape.kernel);
    step.values = step.typed.outputs;
    if (step.kind != Kind::tile)
      for (size_t k = 0; k < step.values.size(); k++) step.values[k] = expr::output_dtype(step.typed.body, k);
  }
  for (const TargetShape& target : shape.targets) {
    const bool known =
        !step.is_copy() && target.output >= 0 && target.output < static_cast<int>(step.typed.fold_reduction.size());
    step.folds.push_back(known ? step.typed.fold_reduction[target.output] : shape.reduction);
  }
}

// The widest of the sources' and the result's: a sum of f64 that goes out as f32 is rounded at its end only.
Dtype accumulate_in(const StepShape& shape) {
  Dtype widest = accumulate_dtype(shape.reduced_dtype);
  for (const SourceShape& source : shape.reduced) {
    const Dtype dtype = accumulate_dtype(source.dtype);
    if (size_bytes(dtype) > size_bytes(widest) && is_float(dtype) == is_float(widest)) widest = dtype;
  }
  return widest;
}

}  // namespace

std::string StepShape::key() const {
  std::vector<std::string> writes;
  for (const TargetShape& t : targets)
    writes.push_back(fmt::format("{}:{}{}{}", t.output, t.through ? fmt::format("{} as ", weft::name(*t.through)) : "",
                                 weft::name(t.dtype), text(t.store)));
  const bool reduces = reduced.size() > 1 || (kernel.name.empty() && accumulates(*this));
  return fmt::format("{}({}) as {}; {} -> {}{}{}", reduces ? kernel::name(reduction) : "copy", sources_text(reduced),
                     weft::name(reduced_dtype), sources_text(others), join(writes, ", "),
                     kernel.name.empty() ? "" : "\n", kernel.name.empty() ? "" : print(kernel));
}

std::shared_ptr<const TypedStep> type_step(const StepShape& shape) {
  auto step = std::make_shared<TypedStep>();
  step->shape = shape;
  step->accumulate = accumulate_in(shape);
  if (step->is_copy()) check_copy(shape);
  if (shape.targets.empty()) refuse(shape, "no targets", "a step without targets does nothing: leave it out");
  check_pairs(shape);
  set_values(*step);
  check_sources(*step);
  if (step->kind == Kind::tile) check_tile(shape);
  check_targets(*step);
  return step;
}

}  // namespace weft::kernel
