// Canonical form: what makes the text depend on the choices and not on the order in which they were made.
//
//   N1  a value nobody reads is gone
//   N2  who works on slices reads x.s, not its gather:
//         y.s = f(x, z.s)   with x = all_gather(x.s)   ->   y.s = f(x.s, z.s)
//   N3  `cut d` is written only where no operand says it:
//         y.s = f(w, z.s) cut 0                        ->   y.s = f(w, z.s)
//
// Statements stay in the order of the user's text (derived ones where their origin stood), so one pass forwards does N2
// and N3, and one pass backwards N1: a statement's type does not change when it reads a value in its part, and a
// statement that goes takes only earlier ones with it. A `cut` that the user wrote stays, or erasing would lose it.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "weft/schedule/form.h"

namespace weft::schedule {
namespace {

bool same_cut(const Form& form, size_t operand, const Cut& cut, const ir::Factors& factors, const ir::Name& slice) {
  const ir::Layout& layout = form.types.at(slice).layout;
  if (const auto* root = std::get_if<ir::Root>(&layout)) return cut.kind == Cut::Kind::root && root->rank == cut.root;
  const auto* sliced = std::get_if<ir::Sliced>(&layout);
  return sliced != nullptr && cut.kind == Cut::Kind::factor &&
         factors.operand[operand][static_cast<size_t>(sliced->dim)] == cut.factor;
}

// The gathers of slices, by what they make.
using Gathers = std::unordered_map<std::string_view, const ir::Op*>;
Gathers gathers_of(const ir::Program& program) {
  Gathers gathers;
  for (const ir::Op& op : program.ops)
    if (is_gather(op) && is_slice_name(op.args[0])) gathers.emplace(op.name, &op);
  return gathers;
}

void read_slices(Form& form, const Gathers& known, ir::Op& op) {
  if (!is_computation(op) || (op.cut && !is_derived_name(op.name))) return;
  bool gathers = false, cuts = false;
  for (const ir::Name& arg : op.args) {
    gathers |= known.count(arg) > 0;
    cuts |= holds_cut(form.types.at(arg));
  }
  if (!(gathers && (cuts || op.cut)) && !(cuts && op.cut)) return;
  Cut cut = cut_of(form, op);
  ir::Factors factors = op.def->factors(form.program, op, form.types);
  std::map<ir::Name, ir::Name> to;
  for (size_t i = 0; i < op.args.size(); ++i) {
    const auto gather = known.find(op.args[i]);
    if (gather != known.end() && same_cut(form, i, cut, factors, gather->second->args[0]))
      to[op.args[i]] = gather->second->args[0];
  }
  if (!to.empty()) rename_operands(op, to);
  if (!to.empty() || cuts) op.cut.reset();
}

std::unordered_set<std::string_view> live_outs(const ir::Program& program) {
  std::unordered_set<std::string_view> names;
  for (const ir::Out& out : program.outs) names.insert(out.value);
  for (const ir::Update& update : program.updates) names.insert(update.value);
  for (const ir::HeaderDecl& decl : program.header)
    if (const auto* ragged = std::get_if<ir::RaggedDecl>(&decl)) names.insert(ragged->counts);
  return names;
}

void drop_unread(Form& form) {
  std::unordered_set<std::string_view> read = live_outs(form.program);
  std::vector<bool> keep(form.program.ops.size());
  bool all = true;
  for (size_t i = form.program.ops.size(); i-- > 0;) {
    const ir::Op& op = form.program.ops[i];
    keep[i] = read.count(op.name) > 0;
    all &= keep[i];
    if (keep[i]) read.insert(op.args.begin(), op.args.end());
  }
  if (all) return;
  std::vector<ir::Op> kept;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i]) {
      kept.push_back(form.program.ops[i]);
      continue;
    }
    form.types.erase(form.program.ops[i].name);
    for (ir::Block& block : form.program.blocks) std::erase(block.members, form.program.ops[i].name);
  }
  form.program.ops = std::move(kept);
}

// Where each statement stands in the text: blocks move, so this is not the order of `ops`.
std::map<ir::Name, size_t> text_positions(const ir::Program& program) {
  std::map<ir::Name, size_t> at;
  for (const ir::Unit& unit : ir::units(program)) {
    if (unit.block == nullptr || unit.block->kind == ir::Block::Kind::fuse) {
      for (const ir::Op* op : unit.ops) at.emplace(op->name, at.size());
      continue;
    }
    for (const ir::Unit& inner : ir::units(program, unit))
      for (const ir::Op* op : inner.ops) at.emplace(op->name, at.size());
  }
  for (const ir::Block& block : program.blocks)  // as members of overlaps
    if (block.kind == ir::Block::Kind::fuse) at.emplace(block.name, at.at(block.members[0]));
  return at;
}

// Members and blocks as the text shows them: fuse blocks, then overlaps.
void order_blocks(ir::Program& program) {
  if (program.blocks.empty()) return;
  std::erase_if(program.blocks, [](const ir::Block& block) { return block.members.size() < 2; });
  std::map<ir::Name, size_t> at = text_positions(program);
  auto earlier = [&at](const ir::Name& a, const ir::Name& b) { return at.at(a) < at.at(b); };
  std::vector<ir::Block> sorted = program.blocks;
  for (ir::Block& block : sorted) std::stable_sort(block.members.begin(), block.members.end(), earlier);
  std::stable_sort(sorted.begin(), sorted.end(), [&earlier](const ir::Block& a, const ir::Block& b) {
    if (a.kind != b.kind) return a.kind == ir::Block::Kind::fuse;
    return earlier(a.members[0], b.members[0]);
  });
  program.blocks = std::move(sorted);
}

}  // namespace

void canonicalize(Form& form) {
  const Gathers gathers = gathers_of(form.program);
  if (!gathers.empty() || std::any_of(form.program.ops.begin(), form.program.ops.end(),
                                      [](const ir::Op& op) { return op.cut.has_value(); }))
    for (ir::Op& op : form.program.ops) read_slices(form, gathers, op);
  drop_unread(form);
  order_blocks(form.program);
}

ir::Program canonical(const ir::Program& program) {
  Form form = form_of(program);
  canonicalize(form);
  return form.program;
}

}  // namespace weft::schedule
