// Canonical order: statements stand as written, a block stands where its first member can stand.
//
// A rewrite edits statements in place and wraps names in blocks; where a block goes in the text, and in the lowered
// plan, is decided here alone, so that the text depends on what was chosen and not on how. Of the units whose producers
// are placed, the one whose first statement was written first comes next; if there is none, the blocks wait for each
// other (F8). Quadratic in the number of units, which is a few tens.
#include <algorithm>
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
  std::vector<Unit> placed;
  std::vector<bool> done(all.size(), false);
  const auto ready = [&](size_t i) {
    for (const Op* op : all[i].ops)
      for (const Name& arg : op->args)
        if (const auto from = unit_of.find(arg); from != unit_of.end() && from->second != i && !done[from->second])
          return false;
    return true;
  };
  while (placed.size() < all.size()) {
    size_t next = 0;
    while (next < all.size() && (done[next] || !ready(next))) ++next;
    if (next == all.size()) {
      next = 0;
      while (done[next]) ++next;
      const Op& op = *all[next].ops.front();
      fail_op(op, op.name, "F8",
              fmt::format("{} waits for itself: the program has a cycle",
                          all[next].block ? all[next].block->name : op.name),
              "a block may not need what needs one of its members: take the statement between into the block, or leave "
              "one out");
    }
    done[next] = true;
    placed.push_back(std::move(all[next]));
    all[next].ops.clear();
  }
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
