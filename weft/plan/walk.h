// Walk: one rank's steps of one lane and channel, on demand. Everybody reads a plan through this and only this:
// verifier, interpreter, runtime (once, when it binds), code generator, simulator (16,384 ranks, folded by period).
//
// Ways: materialise all steps (gigabytes at scale), or generate them. Expressions are byte-coded once per plan, lets
// are evaluated once per (rank, channel), and next() allocates nothing: 17 to 20 ns a step.
//
// A block is one loop, or the steps between two loops (`once`). Loops that have no step for this rank are no blocks, so
// the steps before and behind them are one block. Ordinals count the blocks of this walk from 0.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/plan/small_vec.h"

namespace weft::plan {

struct CompiledStep;  // instance_impl.h
struct CompiledLane;

// A plan with its number of ranks and parameters: names resolved to indices, expressions compiled, channels known.
// Throws Error(plan): V1 where a name or number does not resolve, `require` lines that fail with the line as reason.
class Instance {
 public:
  Instance(Plan plan, int ranks, const std::map<Id, std::string>& params = {});
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const Plan& plan() const;
  int ranks() const;
  int channels() const;
  int64_t parts(int space) const;
  Dtype dtype(int buffer) const;  // parameters resolved
  std::optional<Dtype> wire(int family) const;
  int64_t fixed_count(int space) const;  // elements of each part of a `fixed` space, -1 where the launch says it
  int64_t own_part(int buffer, int rank) const;  // -1: all parts; expr::none: no part
  int buffer_space(int buffer) const;
  int buffer_root(int buffer) const;                  // follows aliases
  int64_t block_elements(int space) const;            // K of `by block K`, else 0
  const Step& step(int lane, int source_step) const;  // the text behind a FlatStep: its kernel's scalars, for reports
  int label_id(const Id& label) const;                // -1: no step has it and none awaits it
  const Id& label(int id) const;
  int label_count() const;
  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// Integers only; ranges of peers and parts stay ranges. Peers are already modulo n, part numbers modulo the parts.
struct FlatOperand {
  Operand::Kind kind = Operand::Kind::slice;
  bool accumulate = false;
  bool here = true;                        // slice of this rank
  uint16_t name = 0;                       // index of buffer or family
  int32_t peer_first = 0, peer_count = 1;  // (peer_first + i) % n; peer_count 0: empty range
  int64_t part_first = 0, part_count = 1, part_by = 1, part_run = 1;
  double value = 0;
};
// The i-th part named: (first + i / run * by + i % run) mod parts.
int64_t part_at(const FlatOperand& operand, int64_t i, int64_t parts);

struct FlatAwait {
  uint16_t lane = 0, label = 0;
  int32_t channel_first = 0, channel_count = 1;
  int32_t peer_first = 0, peer_count = 1;  // here: {rank, 1}
  bool has_index = false;
  SmallVec<int64_t, 2> index;
  int lag = 0;
};

struct FlatStep {
  static constexpr uint16_t no_label = 0xffff, no_kernel = 0xffff;
  uint16_t label = no_label, kernel = no_kernel;
  uint16_t source_step = 0;  // ordinal of the Step in the lane's text: names it in reports
  kernel::Reduction reduction = kernel::Reduction::sum;
  SmallVec<int64_t, 2> index;  // values of the `for` variables around it
  // reduced, others, targets; absent ones (none, an empty range of peers) are left out. Where all sources or all targets
  // are absent there are no operands at all: the step does nothing and is complete.
  SmallVec<FlatOperand, 8> operands;
  uint16_t reduced = 0, others = 0, targets = 0;  // how many of each, as in operands
  // Targets keep their number as written, since kernel outputs go to targets as written (absent ones count).
  SmallVec<uint16_t, 4> target_slot;  // per target: its place in the text
  SmallVec<FlatAwait, 2> after;
};

struct Block {
  bool loop = false;
  SmallVec<uint16_t, 2> spaces;
  int slices = 1;
  int ordinal = 0;
};

class Walk {
 public:
  // Turns of `for`s in one pass over a block; next() throws Error(plan, V14) beyond. A text can say 10^11 of them.
  static constexpr int64_t most_turns = 1 << 24;
  Walk(const Instance& instance, int rank, int lane, int channel);
  // The walk stands before the first block. next_block() enters the next one (false: the lane is done). Blocks without
  // a step here are skipped. next() gives the steps of the block one by one (false: its end); rewind_block() goes back
  // to its begin (for the next chunk).
  bool next_block();
  const Block& block() const { return block_; }
  bool next(FlatStep& step);
  void rewind_block();

 private:
  enum class State : uint8_t { before, once, loop };
  bool to_step();  // moves to the next step of the block; false at its end
  bool loop_has_step();
  [[noreturn]] void too_many_turns() const;
  void fill(FlatStep& step, const CompiledStep& text) const;
  void fill_operands(FlatStep& step, const CompiledStep& text) const;
  void fill_awaits(FlatStep& step, const CompiledStep& text) const;

  const CompiledLane* text_;
  int rank_, ranks_;
  Block block_;
  State state_ = State::before;
  int32_t at_ = 0, begin_ = 0, blocks_ = 0;  // places in the lane's operations
  const std::vector<expr::IntCode>* codes_;
  std::vector<int64_t> values_;        // r n c, lets, `for` variables and their bounds
  std::vector<int64_t> begin_values_;  // when the block began
  int64_t turns_ = 0;                  // of `for`s, since the block began
};

// Smallest g so that rank r+g does what r does, shifted by g; n if there is none. Read off the text.
int64_t period(const Instance& instance);

}  // namespace weft::plan
