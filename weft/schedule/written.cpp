// A printed schedule is a program, and must mean the same when it is read again.
//
// Ways: take such a text apart, erase it to the program it came from and derive its schedule (then `plain` would undo
// what the text says); refuse it; or take it as it stands. We take the last: its blocks and slices are facts, rewrites
// apply to what they leave open, and erasing compares what remains of both. That holds if the text is one that a
// schedule could have made, which is asked here once, before anything else.
#include "weft/schedule/written.h"

#include <algorithm>
#include <unordered_set>

#include "weft/base/error.h"
#include "weft/ir/errors.h"
#include "weft/schedule/fuse_rules.h"

namespace weft::schedule {
namespace {

void check_fused(const Form& form, const ir::Block& block) {
  Form others = form;
  std::erase_if(others.program.blocks, [&](const ir::Block& b) { return b.name == block.name; });
  const FuseRules rules(others);
  const std::unordered_set<std::string_view> names(block.members.begin(), block.members.end());
  std::vector<size_t> members;
  for (size_t i = 0; i < form.program.ops.size(); ++i)
    if (names.count(form.program.ops[i].name)) members.push_back(i);
  const FuseRules::Breach breach = rules.check(members);
  if (breach.rule == 0) return;
  const Refusal refusal = rules.refusal(breach);
  ir::fail_op(form.program.ops[breach.op], refusal.op, refusal.rule,
              fmt::format("in the block {}: {}", block.name, refusal.message), refusal.remedy);
}

[[noreturn]] void refuse_overlap(const Form& form, const ir::Block& block) {
  const ir::Op* first = nullptr;
  for (const ir::Name& member : block.members) {
    const ir::Op* op = ir::find_op(form.program, member);
    for (const ir::Block& inner : form.program.blocks)
      if (inner.name == member && !inner.members.empty()) op = ir::find_op(form.program, inner.members[0]);
    if (first == nullptr) first = op;
  }
  WEFT_CHECK(first != nullptr, "overlap {} has no statement", block.name);
  const SourceLine line = ir::line_of(*first);
  fail_at(ErrorKind::unsupported, line, first->name, "O5",
          fmt::format("the block overlap {}: overlapped lanes cannot be lowered yet", block.name),
          "leave the overlap out; what it holds runs one after the other and gives the same values");
}

// x beside x.s is its gather, x beside x.p its sum: erasing makes one value of the two.
void check_derived(const Form& form, const ir::Op& op) {
  if (!is_derived_name(op.name)) return;
  const ir::Op* whole = ir::find_op(form.program, origin(op.name));
  if (whole == nullptr || (!is_computation(*whole) && whole->args[0] == op.name)) return;
  ir::fail_op(op, op.name, "E3", fmt::format("{} is not made of {}, though by its name it is", whole->name, op.name),
              "take a name without a dot");
}

}  // namespace

void check_written(const Form& naive) {
  for (const ir::Op& op : naive.program.ops) check_derived(naive, op);
  for (const ir::Block& block : naive.program.blocks)
    if (block.kind == ir::Block::Kind::overlap) refuse_overlap(naive, block);
  for (const ir::Block& block : naive.program.blocks) check_fused(naive, block);
}

bool is_written_block(const ir::Program& naive, const std::string& name) {
  return std::any_of(naive.blocks.begin(), naive.blocks.end(), [&](const ir::Block& b) { return b.name == name; });
}

}  // namespace weft::schedule
