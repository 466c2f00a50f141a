// Dtypes of links, alignments of operands, shapes of steps (typing.h).
#include "weft/runtime/typing.h"

#include <algorithm>

namespace weft::runtime {
namespace {

using plan::FlatStep;
using plan::Operand;

size_t source_count(const FlatStep& flat) { return size_t{flat.reduced} + flat.others; }

int derived_from(const plan::Instance& instance, int buffer) {
  const plan::Space& space = instance.plan().spaces[static_cast<size_t>(instance.buffer_space(buffer))];
  return space.derived == plan::Space::Derived::no ? -1 : plan::find_space(instance.plan(), space.of);
}

kernel::Alignment alignment_of(const plan::Instance& instance, const FlatStep& flat, const OperandTyping& operand,
                               bool tile) {
  if (tile) return kernel::Alignment::whole;
  if (operand.kind == Operand::Kind::constant) return kernel::Alignment::single;
  if (operand.aligned || operand.kind != Operand::Kind::slice) return kernel::Alignment::aligned;
  const int buffer = flat.operands[static_cast<size_t>(operand.operand)].name;
  const plan::Space& space = instance.plan().spaces[static_cast<size_t>(instance.buffer_space(buffer))];
  return space.derived == plan::Space::Derived::column ? kernel::Alignment::aligned : kernel::Alignment::single;
}

// Values a kernel or a copy gets: the reduced one first, then the others.
std::vector<Dtype> input_dtypes(const kernel::StepShape& shape) {
  std::vector<Dtype> inputs;
  if (!shape.reduced.empty()) inputs.push_back(shape.reduced_dtype);
  for (const kernel::SourceShape& source : shape.others) inputs.push_back(source.dtype);
  return inputs;
}

std::vector<Dtype> value_dtypes(const kernel::StepShape& shape) {
  const std::vector<Dtype> inputs = input_dtypes(shape);
  if (shape.kernel.name.empty()) return {inputs.empty() ? Dtype::f32 : inputs[0]};
  return kernel::type(shape.kernel, inputs).outputs;
}

std::vector<Dtype> arrivals(const std::vector<OperandTyping>& operands, const FlatStep& flat) {
  std::vector<Dtype> list;
  for (const OperandTyping& operand : operands)
    if (operand.operand < flat.reduced && operand.kind == Operand::Kind::recv) list.push_back(operand.dtype);
  return list;
}

// Sources of the shape; targets' dtypes follow later, since links need the value's.
kernel::StepShape source_shape(const plan::Instance& instance, const FlatStep& flat,
                               const std::vector<OperandTyping>& operands, bool tile) {
  kernel::StepShape shape;
  shape.reduction = flat.reduction;
  if (flat.reduced) shape.reduced_dtype = plan::reduced_dtype(instance, flat, arrivals(operands, flat));
  if (flat.kernel != FlatStep::no_kernel) shape.kernel = instance.plan().kernels[flat.kernel];
  for (const OperandTyping& operand : operands) {
    if (operand.operand >= static_cast<int>(source_count(flat))) break;
    const bool reduced = operand.operand < flat.reduced;
    (reduced ? shape.reduced : shape.others).push_back({operand.dtype, alignment_of(instance, flat, operand, tile)});
  }
  return shape;
}

// The narrowest dtype on a wire among the targets that take `output`, where it is narrower than `value`; else `value`.
Dtype narrowest_wire(const std::vector<OperandTyping>& operands, const kernel::StepShape& shape, int output,
                     Dtype value) {
  Dtype narrow = value;
  const size_t sources = operands.size() - shape.targets.size();
  for (size_t t = 0; t < shape.targets.size(); ++t)
    if (shape.targets[t].output == output && operands[sources + t].kind == Operand::Kind::send &&
        size_bytes(shape.targets[t].dtype) < size_bytes(narrow))
      narrow = shape.targets[t].dtype;
  return narrow;
}

// V12: what goes to several targets is rounded to the narrowest wire first, so that all ranks hold the same bits.
void round_targets(const std::vector<OperandTyping>& operands, kernel::StepShape& shape) {
  const std::vector<Dtype> values = value_dtypes(shape);
  for (kernel::TargetShape& target : shape.targets) {
    const Dtype value = values[static_cast<size_t>(target.output)],
                narrow = narrowest_wire(operands, shape, target.output, value);
    if (narrow != value && target.dtype != narrow && target.store != kernel::Store::accumulate) target.through = narrow;
  }
}

// A copied reduction is rounded where it is stored: a wide wire keeps the accumulator's bits.
void widen_copy(const plan::Instance& instance, const FlatStep& flat, const std::vector<OperandTyping>& operands,
                kernel::StepShape& shape) {
  if (!shape.reduced.empty() && shape.kernel.name.empty())
    shape.reduced_dtype = plan::accumulator_of_step(instance, flat, arrivals(operands, flat));
}

bool needs_positions(const kernel::StepShape& shape) {
  return !shape.kernel.name.empty() && kernel::type(shape.kernel, input_dtypes(shape)).body.needs_positions;
}

}  // namespace

Typing::Typing(const plan::Assembly& assembly) : instance_(*assembly.instance) {
  const plan::Plan& plan = instance_.plan();
  for (size_t f = 0; f < plan.families.size(); ++f) {
    const std::optional<Dtype> wire = instance_.wire(static_cast<int>(f));
    families_.push_back(wire.value_or(Dtype::f32));
    known_.push_back(wire.has_value());
  }
  while (settle_families(assembly)) {}
}

// Both name cells of one buffer on one rank that may be the same.
bool Typing::may_meet(const plan::FlatOperand& target, int peer, const plan::FlatOperand& source) const {
  if (source.kind != Operand::Kind::slice || instance_.buffer_root(source.name) != instance_.buffer_root(target.name))
    return false;
  const int n = instance_.ranks();
  bool same_rank = false;
  for (int p = 0; p < source.peer_count; ++p) same_rank |= (source.peer_first + p) % n == peer;
  const int64_t parts = instance_.parts(instance_.buffer_space(target.name));
  const bool one_part_each = source.part_count == 1 && target.part_count == 1;
  return same_rank && !(one_part_each && plan::part_at(source, 0, parts) != plan::part_at(target, 0, parts));
}

// Some step of the block reads the cells: they are in a cache, before the write or soon after it.
bool Typing::reads(const plan::AssembledBlock& block, const plan::FlatOperand& target, int peer) const {
  for (const plan::AssembledStep& step : block.steps)
    for (size_t i = 0; i < source_count(step.flat); ++i)
      if (may_meet(target, peer, step.flat.operands[i])) return true;
  return false;
}

// One round: families whose senders' values are known become known.
bool Typing::settle_families(const plan::Assembly& assembly) {
  bool changed = false;
  for (const plan::AssembledLane& lane : assembly.lanes)
    for (const plan::AssembledBlock& block : lane.blocks)
      for (const plan::AssembledStep& step : block.steps) {
        if (step.sends.empty()) continue;
        const FlatStep& flat = step.flat;
        bool all_known = true;
        for (size_t i = 0; i < source_count(flat); ++i)
          if (flat.operands[i].kind == Operand::Kind::recv) all_known &= known_[flat.operands[i].name];
        if (!all_known) continue;
        const std::vector<Dtype> values =
            value_dtypes(source_shape(instance_, flat, spread(block, flat), plan::is_tile(instance_, flat)));
        for (size_t i = source_count(flat), t = 0; i < flat.operands.size(); ++i, ++t) {
          const plan::FlatOperand& target = flat.operands[i];
          if (target.kind != Operand::Kind::send || instance_.wire(target.name)) continue;
          const Dtype value = values[static_cast<size_t>(plan::output_of_target(instance_, flat, t))];
          if (!known_[target.name])
            changed = true;
          else if (families_[target.name] != value)
            throw Error(ErrorKind::unsupported,
                        fmt::format("link {} carries {} and {}", instance_.plan().families[target.name].name,
                                    name(families_[target.name]), name(value)),
                        "give the family a wire dtype, or use a family for each");
          families_[target.name] = value;
          known_[target.name] = true;
        }
      }
  return changed;
}

std::vector<OperandTyping> Typing::spread(const plan::AssembledBlock& block, const FlatStep& flat) const {
  std::vector<OperandTyping> list;
  const int n = instance_.ranks(), main = plan::main_operand(instance_, block, flat);
  Dtype constant = Dtype::f32;  // constants take the dtype of the cells they meet
  for (const plan::FlatOperand& operand : flat.operands)
    if (operand.kind == Operand::Kind::slice && operand.peer_count > 0) constant = instance_.dtype(operand.name);
  if (main >= 0) constant = instance_.dtype(flat.operands[static_cast<size_t>(main)].name);
  for (size_t i = 0; i < flat.operands.size(); ++i) {
    const plan::FlatOperand& operand = flat.operands[i];
    OperandTyping typing;
    typing.operand = static_cast<int>(i);
    typing.kind = operand.kind;
    typing.accumulate = operand.accumulate;
    const bool slice = operand.kind == Operand::Kind::slice;
    typing.dtype = slice                                     ? instance_.dtype(operand.name)
                   : operand.kind == Operand::Kind::constant ? constant
                                                             : families_[operand.name];
    typing.aligned = slice && !operand.accumulate && plan::is_aligned(instance_, block, flat, main, operand);
    typing.derived = slice && !typing.aligned && derived_from(instance_, operand.name) >= 0;
    const int peers = operand.kind == Operand::Kind::constant ? 1 : operand.peer_count;
    for (int p = 0; p < peers; ++p) {
      typing.peer = (operand.peer_first + p) % n;
      list.push_back(typing);
    }
  }
  return list;
}

StepTyping Typing::step(const plan::AssembledLane& lane, const plan::AssembledBlock& block,
                        const plan::AssembledStep& step, bool stream) const {
  StepTyping out;
  const FlatStep& flat = step.flat;
  if (flat.targets == 0 || source_count(flat) == 0) return out;
  out.operands = spread(block, flat);
  out.tile = plan::is_tile(instance_, flat);
  out.shape = source_shape(instance_, flat, out.operands, out.tile);
  out.sources = static_cast<int>(out.shape.reduced.size() + out.shape.others.size());
  out.idle = out.sources == 0 || out.sources == static_cast<int>(out.operands.size());
  if (out.idle) return out;
  const std::vector<Dtype> values = value_dtypes(out.shape);
  const int main = plan::main_operand(instance_, block, flat);
  for (size_t i = 0; i < out.operands.size(); ++i) {
    OperandTyping& operand = out.operands[i];
    if (operand.operand == main && out.main < 0) out.main = static_cast<int>(i);
    if (static_cast<int>(i) < out.sources) continue;
    const int output =
        plan::output_of_target(instance_, flat, static_cast<size_t>(operand.operand) - source_count(flat));
    kernel::TargetShape target{operand.dtype, output, kernel::Store::normal};
    const int buffer = flat.operands[static_cast<size_t>(operand.operand)].name;
    if (operand.accumulate)
      target.store = kernel::Store::accumulate, out.accumulates = true;
    else if (stream && operand.kind == Operand::Kind::slice &&
             !reads(block, flat.operands[static_cast<size_t>(operand.operand)], operand.peer))
      target.store = kernel::Store::stream;
    if (operand.kind == Operand::Kind::slice && !operand.aligned && !operand.accumulate &&
        static_cast<int>(i) != out.main)
      throw Error(ErrorKind::plan,
                  fmt::format("rank {} lane {} {}: target {} has other cells than the step", lane.rank,
                              instance_.plan().lanes[static_cast<size_t>(lane.lane)].name,
                              plan::print(*plan::text_steps(
                                  instance_.plan().lanes[static_cast<size_t>(lane.lane)].body)[flat.source_step]),
                              instance_.plan().buffers[static_cast<size_t>(buffer)].name),
                  "write it with + (accumulate), or in a step of its own", "V2");
    out.shape.targets.push_back(target);
  }
  widen_copy(instance_, flat, out.operands, out.shape);
  if (!out.tile) round_targets(out.operands, out.shape);
  out.needs_positions = needs_positions(out.shape);
  return out;
}

}  // namespace weft::runtime
