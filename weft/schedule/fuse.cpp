// fuse f: a b ..: a block, one kernel. Values do not change.
//
//   a.s = reduce_scatter(avg, g, 0)            fuse f:
//   m1.s = b1 * m + (1 - b1) * a.s               a.s = reduce_scatter(avg, g, 0)
//   w1.s = w - lr * m1.s                   ->    m1.s = b1 * m + (1 - b1) * a.s
//   w1 = all_gather(w1.s)                        w1.s = w - lr * m1.s
//                                                w1 = all_gather(w1.s)
//
//   K1  two members, in no other block; the name is free
//   K2  convex: nothing outside is needed by and needs members (the cyclic fusion that CoCoNet accepts)
//   K3  all big members work on one cut, or all whole, over one space and one group of ranks
//   K4  at most one reduce_scatter or reduce; all_reduce only of small values (folds): split first
//   K5  no member reads a member's gather
//   K6  no matmul, conv2d, all_to_all: overlap those
//   K7  no whole read of a state that the group updates in parts
// Bits: kept (D5: every named value is rounded to its dtype, in memory or in a register alike).
#include <algorithm>

#include "weft/ir/names.h"
#include "weft/schedule/fuse_rules.h"

namespace weft::schedule {
namespace {

bool name_taken(const ir::Program& program, const std::string& name) {
  if (ir::find_op(program, name) != nullptr || ir::find_tensor(program, name) != nullptr ||
      ir::is_scalar(program, name))
    return true;
  if (!ir::meaning_of(name).empty()) return true;
  for (const ir::HeaderDecl& decl : program.header)
    if (const auto* group = std::get_if<ir::GroupDecl>(&decl); group != nullptr && group->name == name) return true;
  std::vector<std::string> sizes = ir::dims(program);
  if (std::find(sizes.begin(), sizes.end(), name) != sizes.end()) return true;
  return std::any_of(program.blocks.begin(), program.blocks.end(),
                     [&name](const ir::Block& b) { return b.name == name; });
}

class Fuse : public Rewrite {
 public:
  std::string_view name() const override { return "fuse"; }
  std::optional<Refusal> check(const ir::Program& program, const Args& args) const override {
    if (args.words.empty()) return malformed("fuse", "fuse f: a b ...");
    return check_fuse(form_of(program), args.words[0], {args.words.begin() + 1, args.words.end()});
  }
  ir::Program apply(const ir::Program& program, const Args& args) const override {
    Form form = form_of(program);
    add_block(form, ir::Block::Kind::fuse, args.words[0], {args.words.begin() + 1, args.words.end()});
    return form.program;
  }
  Bits bits(const ir::Program&, const Args&) const override { return Bits::kept; }
};

}  // namespace

std::optional<Refusal> check_block_name(const Form& form, const std::string& name) {
  if (!is_identifier(name) || name.find('.') != std::string::npos)
    return Refusal{"K1", name, fmt::format("`{}` is no name for a group", name), "letters, digits and _", {}};
  if (name_taken(form.program, name))
    return Refusal{"K1", name, fmt::format("{} is the name of something else", name), "take another name", {name}};
  return {};
}

std::optional<Refusal> check_fuse(const Form& form, const std::string& name, const std::vector<ir::Name>& members) {
  if (std::optional<Refusal> refusal = check_block_name(form, name)) return refusal;
  std::vector<size_t> indices;
  for (const ir::Name& member : members) {
    size_t at = position(form.program, member);
    if (at == form.program.ops.size()) return no_statement(form, "K1", name, member);
    if (const ir::Block* block = block_of(form.program, member))
      return Refusal{"K1",
                     name,
                     fmt::format("{} is already in {}", member, block->name),
                     fmt::format("leave {} out, or fuse it here only", member),
                     {member}};
    if (std::find(indices.begin(), indices.end(), at) != indices.end())
      return Refusal{"K1", name, fmt::format("{} is named twice", member), "name each member once", {member}};
    indices.push_back(at);
  }
  if (indices.size() < 2)
    return Refusal{"K1", name, fmt::format("a group needs two members, {} has {}", name, indices.size()),
                   "add a statement, or leave the group out", members};
  std::sort(indices.begin(), indices.end());
  FuseRules rules(form);
  FuseRules::Breach breach = rules.check(indices);
  if (breach.rule != 0) return rules.refusal(breach);
  return {};
}

void add_block(Form& form, ir::Block::Kind kind, const std::string& name, const std::vector<ir::Name>& members) {
  form.program.blocks.push_back({kind, name, members});
  canonicalize(form);
}

const Rewrite& fuse_rewrite() {
  static const Fuse rewrite;
  return rewrite;
}

}  // namespace weft::schedule
