// Canonical order: statements stand as written, a block stands where its first member can stand.
//
// A rewrite edits statements in place and wraps names in blocks; where a block goes in the text, and in the lowered
// plan, is decided here alone, so that the text depends on what was chosen and not on how. Of the units whose producers
// are placed, the one whose first statement was written first comes next; if there is none, the blocks wait for each
// other (F8). A heap of those that are ready keeps it
// near linear: a search orders thousands of programs.
#include <algorithm>
#include <queue>
#include <string_view>
#include <unordered_map>

#include "weft/ir/errors.h"
#include "weft/ir/program.h"

namespace weft::ir {
namespace {

// Which unit each statement is in: `owner` maps names of statements (and of fuse blocks inside overlaps) to a block.
using Owners = std::unordered_map<std::string_view, const Block*>;

Owners outermost_blocks(const Program& program) {
  Owners owner;
  for (const Block& block : program.blocks)
    if (block.kind == Block::Kind::overlap)
      for (const Name& member : block.members) owner[member] = &block;
  for (const Block& block : program.blocks) {
    if (block.kind != Block::Kind::fuse) continue;
    const auto outer = owner.find(block.name);
    for (const Name& member : block.members) {
      if (outer != owner.end())
        owner[member] = outer->second;
      else
        owner.try_emplace(member, &block);
    }
  }
  return owner;
}

[[noreturn]] void refuse_cycle(const Unit& unit) {
  const Op& op = *unit.ops.front();
  fail_op(op, op.name, "F8",
          fmt::format("{} waits for itself: the program has a cycle", unit.block ? unit.block->name : op.name),
          "a block may not need what needs one of its members: take the statement between into the block, or leave one "
          "out");
}

std::vector<Unit> place(const std::vector<const Op*>& ops, const Owners& owner) {
  std::vector<Unit> all;
  std::unordered_map<std::string_view, size_t> unit_of;  // statement -> index into all
  std::unordered_map<const Block*, size_t> block_unit;
  for (const Op* op : ops) {
    const auto found = owner.find(op->name);
    const Block* block = found == owner.end() ? nullptr : found->second;
    size_t index = all.size();
    if (block) index = block_unit.try_emplace(block, index).first->second;
    if (index == all.size()) all.push_back({block, {}});
    all[index].ops.push_back(op);
    unit_of[op->name] = index;
  }
  std::vector<std::vector<size_t>> readers(all.size());
  std::vector<size_t> waits(all.size(), 0);  // for so many operands of other units
  for (size_t i = 0; i < all.size(); ++i)
    for (const Op* op : all[i].ops)
      for (const Name& arg : op->args)
        if (const auto from = unit_of.find(arg); from != unit_of.end() && from->second != i)
          readers[from->second].push_back(i), ++waits[i];
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < all.size(); ++i)
    if (waits[i] == 0) ready.push(i);
  std::vector<Unit> placed;
  for (; !ready.empty();) {
    const size_t next = ready.top();
    ready.pop();
    for (const size_t reader : readers[next])
      if (--waits[reader] == 0) ready.push(reader);
    placed.push_back(std::move(all[next]));
  }
  if (placed.size() < all.size())
    refuse_cycle(all[static_cast<size_t>(std::find_if(waits.begin(), waits.end(), [](size_t w) { return w > 0; }) -
                                         waits.begin())]);
  return placed;
}

}  // namespace

std::vector<Unit> units(const Program& program) {
  std::vector<const Op*> ops;
  for (const Op& op : program.ops) ops.push_back(&op);
  return place(ops, outermost_blocks(program));
}

std::vector<Unit> units(const Program& program, const Unit& overlap) {
  Owners owner;
  for (const Block& block : program.blocks)
    if (block.kind == Block::Kind::fuse)
      for (const Name& member : block.members) owner[member] = &block;
  return place(overlap.ops, owner);
}

}  // namespace weft::ir
