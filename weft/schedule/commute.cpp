// commute y: a linear function before the sum instead of after it.
//
//   x = all_reduce(sum, e); y = f(x)   ->   y.p = f(e); y = all_reduce(sum, y.p)        (x goes if nobody else reads it)
//
//   C1  y is a map that reads one all_reduce(sum or avg)
//   C2  f is linear in it (a constant or a bias would be added once per rank)
//   C3  its other operands are replicated
// Bits: to tolerance: each contribution is rounded, so a narrowing cast costs up to ranks * eps. Never proposed unless
// the user asks for loose numerics, and not covered by erase-and-compare: what is summed is another value.
#include "weft/base/error.h"
#include "weft/schedule/form.h"

namespace weft::schedule {
namespace {

const ir::Op* only_reduction(const ir::Program& program, const ir::Op& op) {
  const ir::Op* found = nullptr;
  for (const ir::Name& arg : op.args) {
    const ir::Op* producer = ir::find_op(program, arg);
    if (producer == nullptr || !is_op(*producer, "all_reduce")) continue;
    if (found != nullptr) return nullptr;
    found = producer;
  }
  bool sums =
      found != nullptr && (found->attrs.reduce == ir::ReduceOp::sum || found->attrs.reduce == ir::ReduceOp::avg);
  return sums && !is_pending_name(found->args[0]) ? found : nullptr;
}

// C2 by inference: is y accepted (L7) when what it reads is pending?
bool linear_in(const Form& form, const ir::Op& op, const ir::Name& x) {
  ir::Types types = form.types;
  types.at(x).layout = ir::Partial{ir::ReduceOp::sum};
  try {
    ir::infer(form.program, op, types);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;
    return false;
  }
}

class Commute : public Rewrite {
 public:
  std::string_view name() const override { return "commute"; }
  std::optional<Refusal> check(const ir::Program& program, const Args& args) const override {
    if (args.words.size() != 1) return malformed("commute", "commute y");
    return check_commute(form_of(program), args.words[0]);
  }
  ir::Program apply(const ir::Program& program, const Args& args) const override {
    Form form = form_of(program);
    apply_commute(form, args.words[0]);
    return form.program;
  }
  Bits bits(const ir::Program&, const Args&) const override { return Bits::tolerance; }
};

}  // namespace

std::optional<Refusal> check_commute(const Form& form, const ir::Name& y) {
  const ir::Op* op = ir::find_op(form.program, y);
  if (op == nullptr) return no_statement(form, "C1", y, y);
  const ir::Op* x = op->def->op_class == ir::OpClass::map ? only_reduction(form.program, *op) : nullptr;
  if (x == nullptr || is_derived_name(y) || op->cut || block_of(form.program, y) != nullptr)
    return Refusal{"C1",
                   y,
                   fmt::format("{} is no pointwise statement that reads one all_reduce(sum)", y),
                   fmt::format("leave {} behind its sum", y),
                   {y}};
  for (const ir::Name& arg : op->args)
    if (!is_replicated(form.types.at(arg)))
      return Refusal{"C3",
                     y,
                     fmt::format("{} is {}", arg, ir::print(form.types.at(arg).layout)),
                     fmt::format("other operands must be replicated: leave {} behind its sum", y),
                     {y, arg}};
  if (!linear_in(form, *op, x->name))
    return Refusal{"C2",
                   y,
                   fmt::format("{} is not linear in {}", y, x->name),
                   fmt::format("leave {} behind the sum: a constant or bias would be added once per rank", y),
                   {y, x->name}};
  return {};
}

void apply_commute(Form& form, const ir::Name& y) {
  size_t at = position(form.program, y);
  ir::Op before = form.program.ops[at];
  const ir::Op x = *only_reduction(form.program, before);
  before.name = y + ".p";
  rename_operands(before, {{x.name, x.args[0]}});
  form.program.ops[at] = communication("all_reduce", y, before.name, x.attrs, before.line);
  form.types[before.name] = ir::infer(form.program, before, form.types);
  form.program.ops.insert(form.program.ops.begin() + static_cast<ptrdiff_t>(at), before);
  canonicalize(form);
}

const Rewrite& commute_rewrite() {
  static const Commute rewrite;
  return rewrite;
}

}  // namespace weft::schedule
