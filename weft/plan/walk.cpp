// Walk: a program counter over a lane's operations. Nothing here allocates after the constructor.
#include "weft/plan/instance_impl.h"

namespace weft::plan {
namespace {

// How many numbers the range a..b holds, as a count of peers.
int32_t range_count(int64_t first, int64_t last) { return last > first ? static_cast<int32_t>(last - first) : 0; }

}  // namespace

int64_t part_at(const FlatOperand& operand, int64_t i, int64_t parts) {
  const int64_t run = operand.part_run;
  const int64_t offset = run == 1 ? i * operand.part_by : i / run * operand.part_by + i % run;
  return wrap(operand.part_first + offset, parts);
}

Walk::Walk(const Instance& instance, int rank, int lane, int channel)
    : instance_(&instance), rank_(rank), lane_(lane), channel_(channel), values_(static_cast<size_t>(instance.impl().slots)) {
  instance.impl().begin(rank, channel, values_.data());
  begin_values_ = values_;
}

// Within a once block the walk ends before a loop that has steps, within a loop at its end.
bool Walk::to_step() {
  const auto& impl = instance_->impl();
  const CompiledLane& lane = impl.lanes[static_cast<size_t>(lane_)];
  int64_t* values = values_.data();
  for (;;) {
    const Op& op = lane.ops[static_cast<size_t>(at_)];
    switch (op.kind) {
      case Op::Kind::step: return true;
      case Op::Kind::for_begin:
        values[op.slot] = impl.value(op.lo, values);
        values[op.slot + 1] = impl.value(op.hi, values);
        at_ = values[op.slot] < values[op.slot + 1] ? at_ + 1 : op.jump;
        break;
      case Op::Kind::for_end: at_ = ++values[op.slot] < values[op.slot + 1] ? op.jump : at_ + 1; break;
      case Op::Kind::when: at_ = impl.value(op.lo, values) != 0 ? at_ + 1 : op.jump; break;
      case Op::Kind::loop_begin:
        if (loop_has_step()) return false;
        at_ = op.jump + 1;
        break;
      case Op::Kind::loop_end:
      case Op::Kind::end: return false;
    }
  }
}

bool Walk::loop_has_step() {
  const int32_t at = at_++;
  const bool found = to_step();         // no loop lies in a loop: this ends at a step or at the loop's end
  at_ = at;
  return found;
}

bool Walk::next_block() {
  const CompiledLane& lane = instance_->impl().lanes[static_cast<size_t>(lane_)];
  if (state_ == State::once)
    while (to_step()) ++at_;
  if (state_ == State::loop) at_ = lane.ops[static_cast<size_t>(begin_ - 1)].jump + 1;
  state_ = State::once;
  if (to_step()) {
    block_.loop = false;
    block_.spaces.clear();
    block_.slices = 1;
  } else {
    const Op& op = lane.ops[static_cast<size_t>(at_)];
    if (op.kind != Op::Kind::loop_begin) return false;
    block_ = lane.loops[static_cast<size_t>(op.item)];
    state_ = State::loop;
    ++at_;
  }
  block_.ordinal = blocks_++;
  begin_ = at_;
  begin_values_ = values_;              // same size: no allocation
  return true;
}

void Walk::rewind_block() {
  at_ = begin_;
  values_ = begin_values_;
}

bool Walk::next(FlatStep& step) {
  if (state_ == State::before || !to_step()) return false;
  const CompiledLane& lane = instance_->impl().lanes[static_cast<size_t>(lane_)];
  fill(step, lane.steps[static_cast<size_t>(lane.ops[static_cast<size_t>(at_)].item)]);
  ++at_;
  return true;
}

void Walk::fill(FlatStep& step, const CompiledStep& text) const {
  step.label = text.label;
  step.kernel = text.kernel;
  step.source_step = text.ordinal;
  step.reduction = text.reduction;
  step.index.clear();
  for (const int16_t slot : text.index) step.index.push_back(values_[static_cast<size_t>(slot)]);
  step.operands.clear();
  step.target_slot.clear();
  const size_t others = text.reduced, targets = others + text.others;
  uint16_t counts[3] = {0, 0, 0};
  for (size_t i = 0; i < text.operands.size(); ++i) {
    const CompiledOperand& operand = text.operands[i];
    if (!fill_operand(step.operands.extend(), operand)) {
      step.operands.pop_back();
      continue;
    }
    ++counts[i < others ? 0 : i < targets ? 1 : 2];
    if (i >= targets) step.target_slot.push_back(operand.place);
  }
  const bool idle = counts[2] == 0 || counts[0] + counts[1] == 0;
  if (idle) {
    step.operands.clear();
    step.target_slot.clear();
    step.kernel = FlatStep::no_kernel;
  }
  step.reduced = idle ? 0 : counts[0];
  step.others = idle ? 0 : counts[1];
  step.targets = idle ? 0 : counts[2];
  fill_awaits(step, text);
}

// False: the operand is absent.
bool Walk::fill_operand(FlatOperand& operand, const CompiledOperand& text) const {
  const auto& impl = instance_->impl();
  const int64_t* values = values_.data();
  operand = text.flat;
  operand.peer_first = rank_;
  if (text.peers) {
    const int64_t first = impl.value(text.peer_first, values);
    if (first == expr::none) return false;
    if (text.range) {
      const int64_t last = impl.value(text.peer_last, values);
      operand.peer_count = last == expr::none ? 0 : range_count(first, last);
      if (operand.peer_count == 0) return false;
    }
    operand.peer_first = static_cast<int32_t>(wrap(first, impl.ranks));
    operand.here = operand.here && operand.peer_first == rank_ && operand.peer_count == 1;
  }
  if (!text.parts) return true;
  const int64_t first = impl.value(text.part_first, values);
  if (first == expr::none) return false;
  operand.part_first = wrap(first, text.part_modulus);
  if (text.one_part) return true;
  operand.part_count = std::max<int64_t>(0, impl.value(text.part_count, values));
  operand.part_run = std::max<int64_t>(1, impl.value(text.part_run, values));
  operand.part_by = impl.value(text.part_by, values);
  return true;
}

void Walk::fill_awaits(FlatStep& step, const CompiledStep& text) const {
  const auto& impl = instance_->impl();
  const int64_t* values = values_.data();
  step.after.clear();
  for (const CompiledAwait& await : text.after) {
    FlatAwait& flat = step.after.extend();
    flat.lane = await.flat.lane;
    flat.label = await.flat.label;
    flat.has_index = await.flat.has_index;
    flat.lag = await.flat.lag;
    flat.channel_count = await.flat.channel_count;
    flat.channel_first = await.channel ? static_cast<int32_t>(impl.value(await.channel_number, values)) : 0;
    flat.peer_first = rank_;
    flat.peer_count = 1;
    flat.index.clear();
    for (const Number& number : await.index) flat.index.push_back(impl.value(number, values));
    if (!await.peers) continue;
    const int64_t first = impl.value(await.peer_first, values);
    const int64_t last = await.range ? impl.value(await.peer_last, values) : first;
    flat.peer_count = first == expr::none || last == expr::none ? 0 : await.range ? range_count(first, last) : 1;
    if (flat.peer_count == 0) step.after.pop_back();
    else flat.peer_first = static_cast<int32_t>(wrap(first, impl.ranks));
  }
}

}  // namespace weft::plan
