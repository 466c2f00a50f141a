// The few rules by which a step's operands are understood, for everybody who executes one. The text leaves them implicit
// (which slice gives the cells, which are read whole, which output a target takes), so four readers could understand it
// in four ways; they are written here once and the verifier, interpreter, statistics and runtime ask.
#include "weft/plan/machine_step.h"

#include <algorithm>
#include <numeric>

namespace weft::plan {

namespace {

void collect(const Body& body, std::vector<const Step*>& list) {
  for (const Item& item : body) {
    if (const auto* step = std::get_if<Step>(&item))
      list.push_back(step);
    else if (const auto* loop = std::get_if<Loop>(&item))
      collect(loop->body, list);
    else if (const auto* repeat = std::get_if<For>(&item))
      collect(repeat->body, list);
    else
      collect(std::get<When>(item).body, list);
  }
}

bool in_loop_spaces(const AssembledBlock& block, int space) {
  return std::find(block.head.spaces.begin(), block.head.spaces.end(), static_cast<uint16_t>(space)) !=
         block.head.spaces.end();
}

bool gives_cells(const Instance& instance, const AssembledBlock& block, const FlatOperand& operand) {
  if (operand.kind != Operand::Kind::slice || operand.accumulate || operand.peer_count == 0) return false;
  return !block.head.loop || in_loop_spaces(block, instance.buffer_space(operand.name));
}

// Who gives a step its cells: what has cells of its own, before what meets them through a derived space, before single
// elements, which outside of loops meet every cell alike.
int leads(const Instance& instance, const AssembledBlock& block, const FlatOperand& operand) {
  const int space = instance.buffer_space(operand.name);
  if (!block.head.loop && instance.fixed_count(space) == 1) return 2;
  return instance.plan().spaces[static_cast<size_t>(space)].derived != Space::Derived::no;
}

Dtype wider(Dtype a, Dtype b) { return size_bytes(a) >= size_bytes(b) ? a : b; }

}  // namespace

std::vector<const Step*> text_steps(const Body& body) {
  std::vector<const Step*> list;
  collect(body, list);
  return list;
}

bool is_tile(const Instance& instance, const FlatStep& flat) {
  return flat.kernel != FlatStep::no_kernel && kernel::kind(instance.plan().kernels[flat.kernel]) == kernel::Kind::tile;
}

int main_operand(const Instance& instance, const AssembledBlock& block, const FlatStep& flat) {
  const size_t sources = size_t{flat.reduced} + flat.others;
  if (is_tile(instance, flat))
    for (size_t i = sources; i < flat.operands.size(); ++i)
      if (gives_cells(instance, block, flat.operands[i])) return static_cast<int>(i);
  for (const int rank : {0, 1, 2})
    for (size_t i = 0; i < flat.operands.size(); ++i)
      if (gives_cells(instance, block, flat.operands[i]) && leads(instance, block, flat.operands[i]) == rank)
        return static_cast<int>(i);
  return -1;
}

bool is_aligned(const Instance& instance, const AssembledBlock& block, const FlatStep& flat, int main,
                const FlatOperand& operand) {
  if (operand.kind != Operand::Kind::slice || main < 0) return false;
  const int space = instance.buffer_space(operand.name);
  const int main_space = instance.buffer_space(flat.operands[static_cast<size_t>(main)].name);
  if (block.head.loop) return in_loop_spaces(block, space);
  if (space == main_space)
    return !is_tile(instance, flat) || &operand >= &flat.operands[size_t{flat.reduced} + flat.others];
  const auto& spaces = instance.plan().spaces;
  const auto kind = [&](int s) { return spaces[static_cast<size_t>(s)].kind; };
  if (kind(space) != kind(main_space)) return false;
  if (kind(space) == Space::Kind::fixed) {
    const auto count = [&](int s) { return instance.fixed_count(s); };
    return count(space) >= 0 && count(space) == count(main_space);
  }
  const Id& like = spaces[static_cast<size_t>(space)].like;
  const Id& main_like = spaces[static_cast<size_t>(main_space)].like;
  return kind(space) == Space::Kind::equal &&
         (like == spaces[static_cast<size_t>(main_space)].name ||
          main_like == spaces[static_cast<size_t>(space)].name || (!like.empty() && like == main_like));
}

int output_of_target(const Instance& instance, const FlatStep& flat, size_t target) {
  if (flat.kernel == FlatStep::no_kernel) return 0;
  const int outputs = static_cast<int>(instance.plan().kernels[flat.kernel].outputs.size());
  return std::min<int>(flat.target_slot[target], outputs - 1);
}

Dtype reduced_dtype(const Instance& instance, const FlatStep& flat, std::span<const Dtype> arrived) {
  for (size_t i = 0; i < flat.reduced; ++i)
    if (flat.operands[i].kind == Operand::Kind::slice && flat.operands[i].peer_count > 0)
      return instance.dtype(flat.operands[i].name);
  if (arrived.empty()) return Dtype::f64;  // constants alone
  return std::accumulate(arrived.begin(), arrived.end(), arrived[0], wider);
}

Dtype accumulator_of_step(const Instance& instance, const FlatStep& flat, std::span<const Dtype> arrived) {
  return std::accumulate(arrived.begin(), arrived.end(), accumulate_dtype(reduced_dtype(instance, flat, arrived)),
                         [](Dtype a, Dtype b) { return wider(a, accumulate_dtype(b)); });
}

}  // namespace weft::plan
