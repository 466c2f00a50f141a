// Erasing: what the user wrote, found again in a scheduled program.
//
//   a.s = reduce_scatter(avg, g, 0)               a = all_reduce(avg, g)
//   fuse f:                                       m1 = b1 * m + (1 - b1) * a
//     m1.s = b1 * m + (1 - b1) * a.s        ->
//     m1 = all_gather(m1.s)
//
// Problem: a scheduled program may come from a file, and no rewrite should be believed anyway. Ways: prove each rewrite;
// run both programs; or use that a schedule only says *where* values are computed, so that its words can be struck out.
// Striking out is a few lines, independent of all rewrites, and exact. It says what is computed; that each value then
// is what its name says is inference's part, and check_scheduled asks for both:
//   E1  erased, it is the program (statements nobody reads aside; their order has no meaning)
//   E2  what the user named has the type it had, states that are stored in parts aside
//   E3  x.s is a slice (or lies on a root), x.p is pending: a local x.p would be summed though nothing is pending
#include <algorithm>

#include "weft/base/error.h"
#include "weft/schedule/form.h"

namespace weft::schedule {
namespace {

// x = all_gather(x.s), x = all_reduce(sum, x.p): the same value elsewhere.
bool only_moves(const ir::Op& op) {
  return !is_computation(op) && is_derived_name(op.args[0]) && origin(op.args[0]) == op.name;
}

ir::Op erased(ir::Op op) {
  if (is_derived_name(op.name)) op.cut.reset();
  if (is_slice_name(op.name) && is_scatter(op)) {
    op.def = definition("all_reduce");
    op.attrs.dim.reset();
    op.attrs.root.clear();
  }
  std::map<ir::Name, ir::Name> to;
  for (const ir::Name& arg : op.args)
    if (is_derived_name(arg)) to[arg] = origin(arg);
  if (!to.empty()) rename_operands(op, to);
  op.name = origin(op.name);
  return op;
}

[[noreturn]] void broken(const ir::Name& name, std::string_view rule, const std::string& message) {
  throw Error(ErrorKind::user, name + ": ", "", message,
              "a schedule says where values are computed, never what they are", std::string(rule));
}

// Both programs' statements in one order: by name, since order has no meaning.
void sort_ops(ir::Program& program) {
  std::sort(program.ops.begin(), program.ops.end(), [](const ir::Op& a, const ir::Op& b) { return a.name < b.name; });
}

void compare_erased(const ir::Program& naive, const ir::Program& scheduled) {
  ir::Program a = erase(naive), b = erase(scheduled);  // the program may itself be a printed schedule
  sort_ops(a);
  sort_ops(b);
  const auto find = [](const ir::Program& program, const ir::Name& name) {  // in sorted statements
    const auto at = std::lower_bound(program.ops.begin(), program.ops.end(), name,
                                     [](const ir::Op& op, const ir::Name& sought) { return op.name < sought; });
    return at != program.ops.end() && at->name == name ? &*at : nullptr;
  };
  for (const ir::Op& op : a.ops) {
    const ir::Op* other = find(b, op.name);
    if (other == nullptr) broken(op.name, "E1", fmt::format("{} is not computed any more", op.name));
    if (ir::print(*other) != ir::print(op))
      broken(op.name, "E1",
             fmt::format("without its schedule it is `{}`, the program says `{}`", ir::print(*other), ir::print(op)));
  }
  for (const ir::Op& op : b.ops)
    if (find(a, op.name) == nullptr) broken(op.name, "E1", fmt::format("{} has no {}", naive.name, op.name));
  a.ops.clear();
  b.ops.clear();
  if (!ir::equal(a, b)) broken(naive.name, "E1", "declarations, updates or outputs are not those of the program");
}

void check_user_type(const ir::Program& naive, const ir::Name& name, const ir::Type& was, const ir::Type& is) {
  ir::Type expected = was;
  const ir::TensorDecl* decl = ir::find_tensor(naive, name);
  if (decl != nullptr && decl->state && is_replicated(was) && holds_cut(is)) expected.layout = is.layout;
  if (!(expected == is))
    broken(name, "E2", fmt::format("{} is {}, in the program it is {}", name, ir::print(is), ir::print(was)));
}

void check_derived_type(const ir::Name& name, const ir::Type& was, const ir::Type& is) {
  bool right = is_slice_name(name) ? holds_cut(is) : std::holds_alternative<ir::Partial>(is.layout);
  ir::Type same = is;
  same.layout = was.layout;
  if (!right || !is_replicated(was) || !(same == was))
    broken(name, "E3", fmt::format("{} is {}, {} is {}", name, ir::print(is), origin(name), ir::print(was)));
}

}  // namespace

ir::Program erase(const ir::Program& scheduled) {
  ir::Program result = scheduled;
  result.blocks.clear();
  result.ops.clear();
  for (const ir::Op& op : scheduled.ops)
    if (!only_moves(op)) result.ops.push_back(erased(op));
  for (ir::Update& update : result.updates) {
    if (!is_slice_name(update.value)) continue;
    update.value = origin(update.value);
    for (ir::TensorDecl& decl : result.tensors)
      if (decl.name == update.state) decl.type.layout = ir::Replicated{};  // T1: it was
  }
  return result;
}

void check_scheduled(const ir::Program& naive, const ir::Program& scheduled) {
  Form plain = form_of(naive);
  canonicalize(plain);
  compare_erased(plain.program, scheduled);
  for (const auto& [name, type] : ir::infer(scheduled)) {
    auto was = plain.types.find(name);
    const bool written = was != plain.types.end();
    if (!written) was = plain.types.find(origin(name));
    if (was == plain.types.end()) broken(name, "E1", fmt::format("{} has no {}", naive.name, origin(name)));
    if (is_derived_name(name) && !written)
      check_derived_type(name, was->second, type);
    else
      check_user_type(naive, name, was->second, type);
  }
}

}  // namespace weft::schedule
