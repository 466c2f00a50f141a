// overlap o: a b ..: a block of statements and fuse blocks, producers first; they run at once, part by part.
//
//   layer = matmul(x, w)                        overlap o:
//   fuse f:                                       layer = matmul(x, w)
//     s.s = reduce_scatter(sum, layer, 0)    ->   fuse f:
//     ..                                            s.s = reduce_scatter(sum, layer, 0)
//
//   O1  two members or more, statements or fuse blocks, in no other overlap
//   O2  acyclic: nothing between them is left out
//   O3  neighbours are linked by a value
//   O4  the consumer takes it in parts: no fold over all of it, not a matmul's second operand
//   O5  (the planner's) they use different lanes
// Bits: kept. The block is read, checked and printed; lowering it does not exist yet, so apply refuses as unsupported.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/schedule/fuse_rules.h"

namespace weft::schedule {
namespace {

using Members = std::vector<const ir::Op*>;

std::optional<Members> members_of(const ir::Program& program, const std::string& unit) {
  for (const ir::Block& block : program.blocks) {
    if (block.name != unit || block.kind != ir::Block::Kind::fuse) continue;
    Members ops;
    for (const ir::Name& member : block.members) ops.push_back(ir::find_op(program, member));
    return ops;
  }
  const ir::Op* op = ir::find_op(program, unit);
  return op == nullptr ? std::nullopt : std::optional<Members>(Members{op});
}

bool needs_all(const Form& form, const ir::Op& producer, const ir::Op& consumer) {
  bool folds = consumer.def->op_class == ir::OpClass::fold && ir::is_small(form.types.at(consumer.name));
  bool late = is_op(producer, "all_reduce") && ir::is_small(form.types.at(producer.name));
  bool second = is_op(consumer, "matmul") && consumer.args[1] == producer.name;
  return folds || late || second;
}

std::optional<Refusal> check_link(const Form& form, const std::string& a, const Members& from, const std::string& b,
                                  const Members& to) {
  bool linked = false;
  for (const ir::Op* producer : from) {
    for (const ir::Op* consumer : to) {
      const std::vector<ir::Name>& args = consumer->args;
      if (std::find(args.begin(), args.end(), producer->name) == args.end()) continue;
      linked = true;
      if (needs_all(form, *producer, *consumer))
        return Refusal{"O4",
                       consumer->name,
                       fmt::format("every part of {} reads all of {}", consumer->name, producer->name),
                       is_op(*consumer, "matmul") ? "overlap along the other operand"
                                                  : fmt::format("leave {} out", consumer->name),
                       {consumer->name, producer->name}};
    }
  }
  if (linked) return {};
  return Refusal{"O3",
                 b,
                 fmt::format("{} reads nothing that {} makes: they are independent and run at once anyway", b, a),
                 "leave one of them out",
                 {b, a}};
}

class Overlap : public Rewrite {
 public:
  std::string_view name() const override { return "overlap"; }
  std::optional<Refusal> check(const ir::Program& program, const Args& args) const override {
    if (args.words.empty()) return malformed("overlap", "overlap o: a b ...");
    return check_overlap(form_of(program), args.words[0], {args.words.begin() + 1, args.words.end()});
  }
  ir::Program apply(const ir::Program&, const Args& args) const override {
    throw Error(ErrorKind::unsupported,
                fmt::format("overlap {}: overlapped lanes cannot be lowered yet", args.words[0]),
                "leave the overlap out; what it holds runs one after the other and gives the same values");
  }
  Bits bits(const ir::Program&, const Args&) const override { return Bits::kept; }
};

}  // namespace

std::optional<Refusal> check_overlap(const Form& form, const std::string& name, const std::vector<ir::Name>& members) {
  if (std::optional<Refusal> refusal = check_block_name(form, name)) {
    refusal->rule = "O1";
    return refusal;
  }
  if (members.size() < 2)
    return Refusal{"O1", name, fmt::format("overlap takes two or more, {} has {}", name, members.size()),
                   "add a statement or group, or leave the overlap out", members};
  std::vector<Members> ops;
  for (const std::string& unit : members) {
    std::optional<Members> found = members_of(form.program, unit);
    if (!found) return no_statement(form, "O1", name, unit);
    if (const ir::Block* block = block_of(form.program, unit))
      return Refusal{"O1",
                     name,
                     fmt::format("{} is already in {}", unit, block->name),
                     fmt::format("name {}", block->name),
                     {unit}};
    ops.push_back(std::move(*found));
  }
  Form blocked{form.program, form.types};
  blocked.program.blocks.push_back({ir::Block::Kind::overlap, name, members});
  try {
    ir::units(blocked.program);
  } catch (const Error& error) {
    if (error.rule() != "F8") throw;
    return Refusal{"O2", name, "something between the members is left out",
                   "add what reads one member and feeds another", members};
  }
  for (size_t i = 0; i + 1 < members.size(); ++i)
    if (std::optional<Refusal> refusal = check_link(form, members[i], ops[i], members[i + 1], ops[i + 1]))
      return refusal;
  return {};
}

const Rewrite& overlap_rewrite() {
  static const Overlap rewrite;
  return rewrite;
}

}  // namespace weft::schedule
