// What an Instance holds: the plan with names resolved and numbers compiled, as walks read it. Internal to the room.
//
// A lane's body becomes a flat list of operations with jumps, so that a walk is a program counter and a few integers.
// Most numbers of real plans are a constant, a variable or `r - j`: those are computed in line, the rest by IntCode.
#pragma once

#include "weft/plan/walk.h"

namespace weft::plan {

// slot a + sign * slot b + k where there is no code. slot_zero stands for an absent term, so that a constant, a variable
// and `r - j` are the same few instructions without a branch to mispredict.
struct Number {
  int16_t a = 3, b = 3;
  int32_t code = -1;  // index into Impl::codes
  int64_t sign = 1, k = 0;
  bool is_constant() const;
  int64_t value(const expr::IntCode* codes, const int64_t* values) const {
    if (code >= 0) return codes[code].run(values);
    const int64_t va = values[a], vb = values[b];
    return va == expr::none || vb == expr::none ? expr::none : va + sign * vb + k;
  }
};

// What of an operand changes from step to step. Nearly all are one of the first three.
enum class Varies : uint8_t { nothing, peer, part, all };

struct CompiledOperand {
  FlatOperand flat;                 // what does not change
  Varies varies = Varies::nothing;  // peer: one peer of a link; part: one part of a buffer here
  bool peers = false, range = false, parts = false, one_part = true;
  Number peer_first, peer_last, part_first, part_count, part_by, part_run;
  int64_t part_modulus = 1;
  uint16_t place = 0;  // of a target in the text
};

struct CompiledAwait {
  FlatAwait flat;
  bool channel = false, peers = false, range = false;
  Number channel_number, peer_first, peer_last;
  std::vector<Number> index;
};

struct CompiledStep {
  const Step* text = nullptr;
  uint16_t label = FlatStep::no_label, kernel = FlatStep::no_kernel, ordinal = 0;
  kernel::Reduction reduction = kernel::Reduction::sum;
  uint16_t reduced = 0, others = 0;
  std::vector<CompiledOperand> operands;
  std::vector<CompiledAwait> after;
  std::vector<int16_t> index;  // slots of the `for` variables around it
};

struct Op {
  enum class Kind : uint8_t { step, for_begin, for_end, when, loop_begin, loop_end, end } kind = Kind::end;
  int16_t slot = 0;  // for: the variable; its bound is in the next slot
  int32_t item = 0;  // step, loop: which
  int32_t jump = 0;  // for_begin, when: behind the block; for_end: its first op; loop_begin: its end
  Number lo, hi;     // for; when: lo is the condition
};

struct CompiledLane {
  std::vector<Op> ops;
  std::vector<CompiledStep> steps;
  std::vector<Block> loops;
};

// Where a walk's values lie: r, n, c, a zero, lets, then two slots for each level of `for`.
constexpr int slot_r = 0, slot_n = 1, slot_c = 2, slot_zero = 3, first_let = 4;

inline bool Number::is_constant() const { return code < 0 && a == slot_zero && b == slot_zero; }

struct Instance::Impl {
  Plan plan;
  int ranks = 1, channels = 1;
  std::map<Id, std::string> params;       // with the caller's values
  std::map<std::string, Expr> constants;  // n and integer parameters, to substitute
  std::map<std::string, expr::Table> tables;
  std::vector<expr::IntCode> codes;
  std::vector<Number> lets;
  std::vector<int64_t> parts, counts, blocks;  // per space
  std::vector<Dtype> dtypes;                   // per buffer
  std::vector<std::optional<Dtype>> wires;     // per family
  std::vector<int> spaces, roots;              // per buffer
  std::vector<Number> owns;                    // per buffer; meaningless where it owns all parts
  std::vector<Id> labels;
  std::map<Id, int> label_ids;
  std::vector<CompiledLane> lanes;
  int slots = first_let;  // values of one walk

  int64_t value(const Number& number, const int64_t* values) const { return number.value(codes.data(), values); }
  // Fills r, n, c and the lets; `values` has `slots` places.
  void begin(int rank, int channel, int64_t* values) const {
    values[slot_r] = rank;
    values[slot_n] = ranks;
    values[slot_c] = channel;
    values[slot_zero] = 0;
    for (size_t i = 0; i < lets.size(); ++i) values[first_let + i] = value(lets[i], values);
  }
};

// Compiles an expression. `slot(name)` is the place of a variable or -1; what is not known is Error(plan, V1).
Number compile_number(Instance::Impl& impl, const Expr& e, const std::function<int(const std::string&)>& slot);
void compile_lanes(Instance::Impl& impl);                                         // compile.cpp
[[noreturn]] void refuse(const std::string& message, const std::string& remedy);  // Error(plan, V1)

// `r-j` and `r+j` are at most one round off: a division for those would cost as much as the rest of a step.
inline int64_t wrap(int64_t value, int64_t modulus) {
  if (static_cast<uint64_t>(value) < static_cast<uint64_t>(modulus)) return value;
  const int64_t once = value < 0 ? value + modulus : value - modulus;
  if (static_cast<uint64_t>(once) < static_cast<uint64_t>(modulus)) return once;
  const int64_t rest = value % modulus;
  return rest < 0 ? rest + modulus : rest;
}

}  // namespace weft::plan
