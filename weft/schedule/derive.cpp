// From a scheduled program back to the schedule that makes it.
//
// A scheduled program shows its choices in its names: x.s beside x says that x was split or divided, the types say
// where. They are replayed in canonical order while the program is rebuilt; a text that no schedule makes is found by
// comparing at the end, so what derive returns is a schedule of exactly this text.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/schedule/form.h"
#include "weft/schedule/written.h"

namespace weft::schedule {
namespace {

class Derivation {
 public:
  Derivation(const ir::Program& naive, const ir::Program& scheduled) : goal_(form_of(scheduled)), now_(form_of(naive)) {
    canonicalize(goal_);
    canonicalize(now_);
  }

  std::vector<Directive> run() {
    const std::vector<ir::Op> written = now_.program.ops;
    for (const ir::Op& op : written) split(op);
    for (const ir::Op& op : written) divide_like_goal(op);
    store_like_goal();
    for (const ir::Block& block : goal_.program.blocks)
      if (!is_written_block(now_.program, block.name)) add(block);
    return std::move(directives_);
  }

 private:
  void split(const ir::Op& op) {
    auto part = goal_.types.find(op.name + ".s");
    if (!is_op(op, "all_reduce") || part == goal_.types.end()) return;
    Directive directive{"split", {op.name}};
    if (const auto* root = std::get_if<ir::Root>(&part->second.layout))
      directive.words.insert(directive.words.end(), {"root", root->rank});
    const auto* sliced = std::get_if<ir::Sliced>(&part->second.layout);
    if (sliced != nullptr && sliced->dim != 0) directive.words.push_back(std::to_string(sliced->dim));
    if (std::optional<Refusal> refusal = check_split(now_, op.name, part->second.layout)) refuse(*refusal);
    apply_split(now_, op.name, part->second.layout);
    directives_.push_back(std::move(directive));
  }

  // y.s or y.p of the goal, made by reorder where that gives the same cut, else by cut.
  void divide_like_goal(const ir::Op& op) {
    if (is_op(op, "all_reduce")) return;
    const ir::Op* part = ir::find_op(goal_.program, op.name + ".s");
    if (part == nullptr) part = ir::find_op(goal_.program, op.name + ".p");
    if (part == nullptr || ir::find_op(now_.program, part->name) != nullptr) return;  // not there, or as written
    Cut wanted = cut_of(goal_, *part);
    Divided divided;
    std::optional<Refusal> refusal = divide(now_, op.name, {}, &divided);
    bool same = !refusal && divided.op.name == part->name && cut_of(now_, divided.op) == wanted;
    if (!same && wanted.kind == Cut::Kind::factor) refusal = divide(now_, op.name, wanted.factor, &divided);
    if (refusal) refuse(*refusal);
    apply_divided(now_, op.name, std::move(divided));
    bool joins = same && !directives_.empty() && directives_.back().name == "reorder";
    if (joins)
      directives_.back().words.push_back(op.name);
    else if (same)
      directives_.push_back({"reorder", {op.name}});
    else
      directives_.push_back({"cut", {op.name, std::to_string(wanted.factor)}});
  }

  void store_like_goal() {
    Directive directive{"store", {}};
    for (const ir::TensorDecl& decl : goal_.program.tensors) {
      auto was = now_.types.find(decl.name);
      if (was == now_.types.end() || was->second.layout == decl.type.layout) continue;
      if (std::optional<Refusal> refusal = check_store(now_, decl.name)) refuse(*refusal);
      apply_store(now_, decl.name);
      directive.words.push_back(decl.name);
    }
    if (!directive.words.empty()) directives_.push_back(std::move(directive));
  }

  void add(const ir::Block& block) {
    Directive directive{block.kind == ir::Block::Kind::fuse ? "fuse" : "overlap", {block.name}};
    directive.words.insert(directive.words.end(), block.members.begin(), block.members.end());
    directives_.push_back(std::move(directive));
  }

  Form goal_, now_;
  std::vector<Directive> directives_;
};

}  // namespace

Schedule derive(const ir::Program& naive, const ir::Program& scheduled, std::string name) {
  check_scheduled(naive, scheduled);
  Schedule schedule{std::move(name), naive.name, Derivation(naive, scheduled).run(), {}};
  ir::Program made = replay(naive, schedule);
  if (!ir::equal(made, canonical(scheduled)))
    throw Error(ErrorKind::user, scheduled.name + ": ", "",
                "no schedule makes this text; the nearest one is\n" + print(schedule), "write the schedule instead",
                "E1");
  return schedule;
}

}  // namespace weft::schedule
