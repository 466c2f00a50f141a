// Walk: a program counter over a lane's operations. Nothing here allocates after the constructor.
#include "weft/plan/instance_impl.h"

namespace weft::plan {
namespace {

constexpr int64_t most_named = 1 << 20;  // peers or parts in one operand

int64_t bounded(int64_t count, const char* what) {
  if (count <= most_named) return count;
  throw Error(ErrorKind::plan, fmt::format("an operand names {} {}", count, what),
              fmt::format("{} at most; whole spaces are named by loops", most_named), "V14");
}

// How many numbers the range a..b holds, as a count of peers.
int32_t range_count(int64_t first, int64_t last) {
  return last > first ? static_cast<int32_t>(bounded(last - first, "peers")) : 0;
}

// False: the operand is absent.
bool fill_any(FlatOperand& operand, const CompiledOperand& text, const expr::IntCode* codes, const int64_t* values,
              int rank, int ranks) {
  if (text.peers) {
    const int64_t first = text.peer_first.value(codes, values);
    if (first == expr::none) return false;
    if (text.range) {
      const int64_t last = text.peer_last.value(codes, values);
      operand.peer_count = last == expr::none ? 0 : range_count(first, last);
      if (operand.peer_count == 0) return false;
    }
    operand.peer_first = static_cast<int32_t>(wrap(first, ranks));
    operand.here = operand.here && operand.peer_first == rank && operand.peer_count == 1;
  }
  if (!text.parts) return true;
  const int64_t first = text.part_first.value(codes, values);
  if (first == expr::none) return false;
  operand.part_first = wrap(first, text.part_modulus);
  if (text.one_part) return true;
  operand.part_count = std::max<int64_t>(0, bounded(text.part_count.value(codes, values), "parts"));
  operand.part_run = std::max<int64_t>(1, text.part_run.value(codes, values));
  operand.part_by = text.part_by.value(codes, values);
  return true;
}

inline bool fill_operand(FlatOperand& operand, const CompiledOperand& text, const expr::IntCode* codes,
                         const int64_t* values, int rank, int ranks) {
  operand = text.flat;
  operand.peer_first = rank;
  if (text.varies == Varies::peer) {
    const int64_t peer = text.peer_first.value(codes, values);
    operand.peer_first = static_cast<int32_t>(wrap(peer, ranks));
    return peer != expr::none;
  }
  if (text.varies == Varies::part) {
    const int64_t part = text.part_first.value(codes, values);
    operand.part_first = wrap(part, text.part_modulus);
    return part != expr::none;
  }
  return text.varies == Varies::nothing || fill_any(operand, text, codes, values, rank, ranks);
}

}  // namespace

int64_t part_at(const FlatOperand& operand, int64_t i, int64_t parts) {
  const int64_t run = operand.part_run;
  const int64_t offset = run == 1 ? i * operand.part_by : i / run * operand.part_by + i % run;
  return wrap(operand.part_first + offset, parts);
}

Walk::Walk(const Instance& instance, int rank, int lane, int channel)
    : text_(&instance.impl().lanes[static_cast<size_t>(lane)]),
      rank_(rank),
      ranks_(instance.ranks()),
      codes_(&instance.impl().codes),
      values_(static_cast<size_t>(instance.impl().slots)) {
  instance.impl().begin(rank, channel, values_.data());
  begin_values_ = values_;
}

// Within a once block the walk ends before a loop that has steps, within a loop at its end.
bool Walk::to_step() {
  const expr::IntCode* codes = codes_->data();
  const Op* ops = text_->ops.data();
  int64_t* values = values_.data();
  for (;;) {
    const Op& op = ops[at_];
    switch (op.kind) {
      case Op::Kind::step: return true;
      case Op::Kind::for_begin:
        values[op.slot] = op.lo.value(codes, values);
        values[op.slot + 1] = op.hi.value(codes, values);
        at_ = values[op.slot] < values[op.slot + 1] ? at_ + 1 : op.jump;
        break;
      case Op::Kind::for_end:
        if (++turns_ > most_turns) too_many_turns();
        at_ = ++values[op.slot] < values[op.slot + 1] ? op.jump : at_ + 1;
        break;
      case Op::Kind::when: at_ = op.lo.value(codes, values) != 0 ? at_ + 1 : op.jump; break;
      case Op::Kind::loop_begin:
        if (loop_has_step()) return false;
        at_ = op.jump + 1;
        break;
      case Op::Kind::loop_end:
      case Op::Kind::end: return false;
    }
  }
}

// A text may say `for j in 0..99999999999`; nobody could run that, and everybody who reads it would hang.
void Walk::too_many_turns() const {
  throw Error(ErrorKind::plan,
              fmt::format("the `for`s of a block turn more than {} times on rank {} of {}", most_turns, rank_, ranks_),
              "count with n and parameters, and let `loop` go over the elements of a space", "V14");
}

bool Walk::loop_has_step() {
  const int32_t at = at_++;
  const bool found = to_step();  // no loop lies in a loop: this ends at a step or at the loop's end
  at_ = at;
  return found;
}

bool Walk::next_block() {
  const std::vector<Op>& ops = text_->ops;
  if (state_ == State::once)
    while (to_step()) ++at_;
  if (state_ == State::loop) at_ = ops[static_cast<size_t>(begin_ - 1)].jump + 1;
  state_ = State::once;
  if (to_step()) {
    block_.loop = false;
    block_.spaces.clear();
    block_.slices = 1;
  } else {
    const Op& op = ops[static_cast<size_t>(at_)];
    if (op.kind != Op::Kind::loop_begin) return false;
    block_ = text_->loops[static_cast<size_t>(op.item)];
    state_ = State::loop;
    ++at_;
  }
  block_.ordinal = blocks_++;
  turns_ = 0;
  begin_ = at_;
  begin_values_ = values_;  // same size: no allocation
  return true;
}

void Walk::rewind_block() {
  at_ = begin_;
  turns_ = 0;
  values_ = begin_values_;
}

bool Walk::next(FlatStep& step) {
  if (state_ == State::before || !to_step()) return false;
  fill(step, text_->steps[static_cast<size_t>(text_->ops[static_cast<size_t>(at_)].item)]);
  ++at_;
  return true;
}

void Walk::fill(FlatStep& step, const CompiledStep& text) const {
  step.label = text.label;
  step.kernel = text.kernel;
  step.source_step = text.ordinal;
  step.reduction = text.reduction;
  int64_t* index = step.index.extend_to(text.index.size());
  for (size_t i = 0; i < text.index.size(); ++i) index[i] = values_[static_cast<size_t>(text.index[i])];
  fill_operands(step, text);
  if (text.after.empty())
    step.after.clear();
  else
    fill_awaits(step, text);
}

void Walk::fill_operands(FlatStep& step, const CompiledStep& text) const {
  FlatOperand* const begin = step.operands.extend_to(text.operands.size());
  FlatOperand* at = begin;
  // Copies: the compiler cannot know that operands do not lie over this walk.
  const expr::IntCode* const codes = codes_->data();
  const int64_t* const values = values_.data();
  const int rank = rank_, ranks = ranks_;
  const FlatOperand *others = begin, *targets = begin;
  uint16_t* const slots = step.target_slot.extend_to(text.operands.size());
  const CompiledOperand* const first = text.operands.data();
  const CompiledOperand* const first_other = first + text.reduced;
  const CompiledOperand* const first_target = first_other + text.others;
  const CompiledOperand* const end = first + text.operands.size();
  for (const CompiledOperand* operand = first; operand != end; ++operand) {
    if (operand == first_other) others = at;
    if (operand == first_target) targets = at;
    if (operand >= first_target) slots[at - targets] = operand->place;
    at += fill_operand(*at, *operand, codes, values, rank, ranks);
  }
  if (first_other == end) others = at;
  if (first_target == end) targets = at;
  const bool idle = at == targets || targets == begin;
  if (idle) step.kernel = FlatStep::no_kernel;
  step.reduced = static_cast<uint16_t>(idle ? 0 : others - begin);
  step.others = static_cast<uint16_t>(idle ? 0 : targets - others);
  step.targets = static_cast<uint16_t>(idle ? 0 : at - targets);
  step.operands.truncate(static_cast<size_t>(idle ? 0 : at - begin));
  step.target_slot.truncate(step.targets);
}

void Walk::fill_awaits(FlatStep& step, const CompiledStep& text) const {
  const expr::IntCode* codes = codes_->data();
  const int64_t* values = values_.data();
  step.after.clear();
  for (const CompiledAwait& await : text.after) {
    FlatAwait& flat = step.after.extend();
    flat.lane = await.flat.lane;
    flat.label = await.flat.label;
    flat.has_index = await.flat.has_index;
    flat.lag = await.flat.lag;
    flat.channel_count = await.flat.channel_count;
    flat.channel_first = await.channel ? static_cast<int32_t>(await.channel_number.value(codes, values)) : 0;
    flat.peer_first = rank_;
    flat.peer_count = 1;
    flat.index.clear();
    for (const Number& number : await.index) flat.index.push_back(number.value(codes, values));
    if (!await.peers) continue;
    const int64_t first = await.peer_first.value(codes, values);
    const int64_t last = await.range ? await.peer_last.value(codes, values) : first;
    flat.peer_count = first == expr::none || last == expr::none ? 0 : await.range ? range_count(first, last) : 1;
    if (flat.peer_count == 0)
      step.after.pop_back();
    else
      flat.peer_first = static_cast<int32_t>(wrap(first, ranks_));
  }
}

}  // namespace weft::plan
