// What each step of a plan looks like to a kernel library: dtypes, alignments, the shape of its code.
//
// A plan names buffers and links; a library wants dtypes. Most follow from the buffers. A link without a wire type
// carries what is sent, so its dtype is found by following the sends until nothing changes.
#pragma once

#include <vector>

#include "weft/kernel/step_code.h"
#include "weft/plan/machine_step.h"

namespace weft::runtime {

// One operand of a step after ranges of peers are spread out: what the step's code sees as one pointer.
struct OperandTyping {
  int operand = 0;  // index into FlatStep::operands
  int peer = 0;     // rank whose buffer, or the other end of the link
  plan::Operand::Kind kind = plan::Operand::Kind::slice;
  Dtype dtype = Dtype::f32;
  bool aligned = false;  // goes through the step cell by cell
  bool derived = false;  // meets the step's elements through a derived space
  bool accumulate = false;
};

struct StepTyping {
  bool idle = true;                     // nothing to do: a point to wait for
  int main = -1;                        // index into `operands` of the one that gives the cells
  std::vector<OperandTyping> operands;  // reduced, others, targets
  int sources = 0;
  bool tile = false, needs_positions = false, accumulates = false;
  kernel::StepShape shape;
};

class Typing {
 public:
  explicit Typing(const plan::Assembly& assembly);
  // stream: targets whose cells no step of the block (a loop) reads are written with non-temporal stores. What a later
  // loop reads counts as not read: between two passes over a large buffer the caches have forgotten it.
  StepTyping step(const plan::AssembledLane& lane, const plan::AssembledBlock& block, const plan::AssembledStep& step,
                  bool stream) const;
  Dtype family(int family) const { return families_[static_cast<size_t>(family)]; }

 private:
  std::vector<OperandTyping> spread(const plan::AssembledBlock& block, const plan::FlatStep& flat) const;
  bool settle_families(const plan::Assembly& assembly);
  bool may_meet(const plan::FlatOperand& target, int peer, const plan::FlatOperand& source) const;
  bool reads(const plan::AssembledBlock& block, const plan::FlatOperand& target, int peer) const;

  const plan::Instance& instance_;
  std::vector<Dtype> families_;
  std::vector<bool> known_;  // per family
};

}  // namespace weft::runtime
