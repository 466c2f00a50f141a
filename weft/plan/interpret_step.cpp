// What a step does, on numbers: sources are reduced and converted in plain arrays, the kernel's mathematics is the
// kernel room's, outputs go to their targets.
#include <algorithm>

#include "weft/plan/interpret_run.h"

namespace weft::plan {

// ---- one step
void Interpreter::perform(const Event& event) {
  const FlatStep& flat = event.what->flat;
  if (event.empty || flat.operands.empty()) return;
  const int main = main_operand(instance_, block_of(event), flat);
  if (main < 0) refuse(event, "V2", "names no slice of the loop's space", "a step works on the cells of one");
  const FlatOperand& leading = at(flat.operands, main);
  const Cells cells = spell_out(event, leading, leading.here ? lane_of(event).rank : leading.peer_first, main);
  const std::vector<int64_t> where = positions(cells);
  std::vector<Values> list = sources(event, main, cells, where);
  size_t reduced = 0;
  for (size_t i = 0; i < flat.reduced; ++i)
    reduced += flat.operands[i].kind == Operand::Kind::constant ? 1 : static_cast<size_t>(flat.operands[i].peer_count);
  Dtype nominal = list[0].dtype;
  std::vector<Values> inputs;
  if (reduced) inputs.push_back(reduce(event, list, reduced, nominal));
  for (size_t i = reduced; i < list.size(); ++i) inputs.push_back(std::move(list[i]));
  std::vector<Cells> folds = fold_targets(event, main, where);
  const std::vector<Values> outputs = compute(event, inputs, where, folds);
  deliver(event, main, outputs, nominal);
}

std::vector<Values> Interpreter::sources(const Event& event, int main, const Cells& leading,
                                         const std::vector<int64_t>& where) {
  const FlatStep& flat = event.what->flat;
  const auto count = static_cast<int64_t>(where.size());
  const bool tile = is_tile(instance_, flat);
  std::vector<Values> list;
  size_t next = 0;
  for (size_t i = 0; i < size_t{flat.reduced} + flat.others; ++i) {
    const FlatOperand& operand = flat.operands[i];
    if (operand.kind == Operand::Kind::constant) {
      Values constant(instance_.dtype(leading.operand->name), count);
      for (int64_t k = 0; k < count; ++k) store_f64(constant.dtype, constant.at(k), operand.value);
      list.push_back(std::move(constant));
      continue;
    }
    for (int p = 0; p < operand.peer_count; ++p) {
      if (operand.kind == Operand::Kind::recv) {
        list.push_back(receive(event, event.what->receives[next++], count));
        continue;
      }
      const int rank = operand.here ? lane_of(event).rank : (operand.peer_first + p) % instance_.ranks();
      const Cells cells = spell_out(event, operand, rank, main);
      list.push_back(tile ? read_whole(event, cells) : read(event, cells, where));
    }
  }
  return list;
}

// From left to right in the accumulator's dtype; a kernel gets the result rounded to the dtype of the reduced slices.
Values Interpreter::reduce(const Event& event, std::vector<Values>& list, size_t reduced, Dtype& nominal) {
  const FlatStep& flat = event.what->flat;
  std::vector<Dtype> arrived;
  size_t next = 0;
  for (size_t i = 0; i < flat.reduced; ++i)
    for (int p = 0; p < (flat.operands[i].kind == Operand::Kind::constant ? 1 : flat.operands[i].peer_count);
         ++p, ++next)
      if (flat.operands[i].kind == Operand::Kind::recv) arrived.push_back(list[next].dtype);
  nominal = reduced_dtype(instance_, flat, arrived);
  const Dtype accumulator = accumulator_of_step(instance_, flat, arrived);
  Values sum = converted(list[0], accumulator);
  for (size_t i = 1; i < reduced; ++i) {
    const Values next_values = converted(list[i], accumulator);
    kernel::combine(flat.reduction, accumulator, sum.at(0), next_values.at(0), sum.count());
  }
  return flat.kernel == FlatStep::no_kernel ? sum : converted(sum, nominal);
}

// Runs of elements that follow each other in the whole value and fold into the same coarser cells: (first, count).
std::vector<std::pair<int64_t, int64_t>> Interpreter::runs(const std::vector<int64_t>& where,
                                                           const std::vector<Cells>& folds) const {
  std::vector<std::pair<int64_t, int64_t>> list;
  for (size_t i = 0; i < where.size(); ++i) {
    bool joined = i > 0 && where[i] == where[i - 1] + 1;
    for (const Cells& fold : folds)
      joined = joined && fold.elements[i].part == fold.elements[i - 1].part &&
               fold.elements[i].offset == fold.elements[i - 1].offset;
    if (joined)
      ++list.back().second;
    else
      list.emplace_back(static_cast<int64_t>(i), 1);
  }
  return list;
}

// Accumulating targets, with the coarser element that each element of the step meets.
std::vector<Cells> Interpreter::fold_targets(const Event& event, int main, const std::vector<int64_t>& where) {
  const FlatStep& flat = event.what->flat;
  std::vector<Cells> list;
  for (size_t t = 0; t < flat.targets; ++t) {
    const FlatOperand& target = flat.operands[size_t{flat.reduced} + flat.others + t];
    if (target.kind != Operand::Kind::slice || !target.accumulate) continue;
    for (int p = 0; p < target.peer_count; ++p) {
      Cells cells = spell_out(event, target,
                              target.here ? lane_of(event).rank : (target.peer_first + p) % instance_.ranks(), main);
      std::vector<Element> met;
      for (int64_t position : where) met.push_back(meet(event, cells, position));
      cells.elements = std::move(met);
      list.push_back(std::move(cells));
    }
  }
  return list;
}

std::vector<expr::ScalarValue> Interpreter::scalars(const Event& event, const kernel::Kernel& kernel) const {
  const std::vector<Id>& names = text(event).kernel.scalars;
  std::vector<expr::ScalarValue> list;
  for (size_t i = 0; i < kernel.scalars.size(); ++i) {
    const auto name = std::find(scalar_names_.begin(), scalar_names_.end(), names.at(i));
    list.push_back(at(args_, lane_of(event).rank).scalars[static_cast<size_t>(name - scalar_names_.begin())]);
  }
  list.push_back({true, instance_.ranks(), static_cast<double>(instance_.ranks())});
  return list;
}

// One array per output; outputs that fold go straight into their coarser cells.
std::vector<Values> Interpreter::compute(const Event& event, const std::vector<Values>& inputs,
                                         const std::vector<int64_t>& where, std::vector<Cells>& folds) {
  const FlatStep& flat = event.what->flat;
  if (flat.kernel == FlatStep::no_kernel) {
    if (!folds.empty()) fold_copy(event, inputs[0], where, folds);
    return {inputs[0]};
  }
  std::vector<Dtype> dtypes;
  for (const Values& input : inputs) dtypes.push_back(input.dtype);
  const kernel::Typed typed = kernel::type(instance_.plan().kernels[flat.kernel], dtypes);
  std::vector<Values> outputs;
  for (Dtype dtype : typed.outputs) outputs.emplace_back(dtype, static_cast<int64_t>(where.size()));
  run_kernel(event, typed, inputs, outputs, where, folds);
  return outputs;
}

void Interpreter::fold_copy(const Event& event, const Values& value, const std::vector<int64_t>& where,
                            std::vector<Cells>& folds) {
  for (const auto& [first, count] : runs(where, folds))
    for (const Cells& fold : folds) {
      const Element& element = fold.elements[static_cast<size_t>(first)];
      void* cell = memory_->address(fold.rank, fold.operand->name, element.part, element.offset, element.place);
      memory_->check_written(fold.rank, fold.operand->name, cell, event.launch, who(event));
      kernel::FoldLanes lanes(event.what->flat.reduction, value.dtype);
      lanes.add(value.dtype, value.at(first), count);
      lanes.finish(instance_.dtype(fold.operand->name), cell);
    }
}

void Interpreter::run_kernel(const Event& event, const kernel::Typed& typed, const std::vector<Values>& inputs,
                             std::vector<Values>& outputs, const std::vector<int64_t>& where,
                             std::vector<Cells>& folds) {
  const bool tile = is_tile(instance_, event.what->flat);
  const kernel::Evaluator evaluate(typed);
  const std::vector<expr::ScalarValue> values = scalars(event, *typed.kernel);
  const std::vector<kernel::Alignment> alignment(inputs.size(),
                                                 tile ? kernel::Alignment::whole : kernel::Alignment::aligned);
  const auto all =
      tile ? std::vector<std::pair<int64_t, int64_t>>{{0, static_cast<int64_t>(where.size())}} : runs(where, folds);
  for (const auto& [first, count] : all) {
    std::vector<const void*> from;
    std::vector<void*> to;
    std::vector<std::vector<std::byte>> partial(outputs.size(), std::vector<std::byte>(8));
    for (const Values& input : inputs) from.push_back(input.at(tile ? 0 : first));
    for (size_t k = 0; k < outputs.size(); ++k) {
      const bool folds_here = !tile && typed.fold_of_output[k] >= 0;
      if (folds_here)
        kernel::store_identity(typed.fold_reduction[k],
                               kernel::accumulator_dtype(typed.fold_reduction[k], typed.outputs[k]), partial[k].data());
      to.push_back(folds_here ? partial[k].data() : outputs[k].at(first));
    }
    evaluate({from, alignment.data(), to, count, where[static_cast<size_t>(first)], values});
    size_t next = 0;
    const FlatStep& flat = event.what->flat;
    for (size_t t = 0; t < flat.targets; ++t) {
      const FlatOperand& target = flat.operands[size_t{flat.reduced} + flat.others + t];
      if (target.kind != Operand::Kind::slice || !target.accumulate) continue;
      const auto k = static_cast<size_t>(output_of_target(instance_, flat, t));
      for (int p = 0; p < target.peer_count; ++p) {
        const Cells& fold = folds[next++];
        const Element& element = fold.elements[static_cast<size_t>(first)];
        void* cell = memory_->address(fold.rank, fold.operand->name, element.part, element.offset, element.place);
        memory_->check_written(fold.rank, fold.operand->name, cell, event.launch, who(event));
        const Dtype accumulator = kernel::accumulator_dtype(typed.fold_reduction[k], typed.outputs[k]),
                    dtype = instance_.dtype(fold.operand->name);
        std::vector<std::byte> sum(8);
        convert_element(dtype, cell, accumulator, sum.data());
        kernel::combine(typed.fold_reduction[k], accumulator, sum.data(), partial[k].data(), 1);
        convert_element(accumulator, sum.data(), dtype, cell);
      }
    }
  }
}

// Targets take their outputs; a value for several of them is first rounded to the narrowest type on a wire.
void Interpreter::deliver(const Event& event, int main, const std::vector<Values>& outputs, Dtype nominal) {
  const FlatStep& flat = event.what->flat;
  const bool copied = flat.kernel == FlatStep::no_kernel;
  std::vector<Values> rounded = outputs;
  const auto wire_of = [&](const FlatOperand& target, int output) {
    return instance_.wire(target.name).value_or(copied ? nominal : at(outputs, output).dtype);
  };
  for (size_t t = 0; t < flat.targets; ++t) {
    const FlatOperand& target = flat.operands[size_t{flat.reduced} + flat.others + t];
    const int output = output_of_target(instance_, flat, t);
    if (target.kind != Operand::Kind::send || target.peer_count == 0) continue;
    const Dtype wire = wire_of(target, output);
    if (size_bytes(wire) < size_bytes(at(rounded, output).dtype))
      at(rounded, output) = converted(at(rounded, output), wire);
  }
  size_t next = 0;
  for (size_t t = 0; t < flat.targets; ++t) {
    const FlatOperand& target = flat.operands[size_t{flat.reduced} + flat.others + t];
    const int output = output_of_target(instance_, flat, t);
    if (target.kind == Operand::Kind::slice && target.accumulate) continue;
    for (int p = 0; p < target.peer_count; ++p) {
      if (target.kind == Operand::Kind::send)
        at(links_, event.what->sends[next++])
            .push_back(
                {converted(at(rounded, output), wire_of(target, output)), event.launch, event.chunk, who(event)});
      else
        write(event,
              spell_out(event, target, target.here ? lane_of(event).rank : (target.peer_first + p) % instance_.ranks(),
                        main),
              at(rounded, output));
    }
  }
}

}  // namespace weft::plan
