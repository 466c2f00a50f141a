// Dividing a computation: what reorder and cut share.
//
// All conditions that CoCoNet lists for its reorder (no local operand, a dimension that exists, an operation that can be
// sliced) are inference's: the statement is written as it would be, and R4 is whatever inference says about it. A fold
// over the cut dimension leaves a pending value, which an all_reduce finishes: the norm of a sliced tensor needs no code.
#include "weft/base/error.h"
#include "weft/schedule/form.h"

namespace weft::schedule {
namespace {

std::optional<Refusal> check_divisible(const Form& form, const ir::Op* op, const ir::Name& y) {
  if (op == nullptr) return no_statement(form, "R1", y, y);
  if (!is_computation(*op) && !is_op(*op, "send"))
    return Refusal{"R1",
                   y,
                   fmt::format("{} is {}, not a computation or a send", y, op->def->name),
                   is_op(*op, "all_reduce") ? fmt::format("split {}", y) : fmt::format("leave {} out", y),
                   {y}};
  if (is_derived_name(y))
    return Refusal{"R1", y, fmt::format("{} is cut already", y), fmt::format("leave {} out", y), {y}};
  if (op->cut)
    return Refusal{"R1",
                   y,
                   fmt::format("{} says `cut {}` itself", y, *op->cut),
                   "leave it out, or take the cut out of the program",
                   {y}};
  for (const char* suffix : {".s", ".p"})
    if (ir::find_op(form.program, y + suffix) != nullptr)
      return Refusal{"R1", y, fmt::format("there is an {}{} already", y, suffix), fmt::format("leave {} out", y), {y}};
  if (const ir::Block* block = block_of(form.program, y))
    return Refusal{"R1", y, fmt::format("{} is in the block {}", y, block->name), "reorder before fusing", {y}};
  const ir::Type& type = form.types.at(y);
  if (!is_replicated(type))
    return Refusal{
        "R2",
        y,
        fmt::format("{} is {}; only what every rank computes alike can be divided", y, ir::print(type.layout)),
        fmt::format("leave {} out: its work is spread over the ranks already", y),
        {y}};
  return {};
}

std::map<ir::Name, ir::Name> slices_of_operands(const Form& form, const ir::Op& op) {
  std::map<ir::Name, ir::Name> to;
  for (const ir::Name& arg : op.args)
    if (const ir::Op* gather = gather_of_slice(form.program, arg)) to[arg] = gather->args[0];
  return to;
}

// R4: what inference says about the statement as it would be.
std::optional<Refusal> infer_divided(const Form& form, const ir::Name& y, Divided& divided) {
  try {
    divided.type = ir::infer(form.program, divided.op, form.types);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;
    return Refusal{"R4",
                   y,
                   fmt::format("{} cannot be computed on slices ({}: {})", y, error.rule(), error.message()),
                   error.remedy(),
                   {y}};
  }
  if (!holds_cut(divided.type) && !std::holds_alternative<ir::Partial>(divided.type.layout))
    return Refusal{"R5",
                   y,
                   fmt::format("{} has nothing to divide there: it stays {}", y, ir::print(divided.type.layout)),
                   fmt::format("leave {} out, or cut a dimension that it has", y),
                   {y}};
  return {};
}

}  // namespace

std::optional<Refusal> divide(const Form& form, const ir::Name& y, std::optional<int> dim, Divided* result) {
  const ir::Op* op = ir::find_op(form.program, y);
  if (std::optional<Refusal> refusal = check_divisible(form, op, y)) return refusal;
  Divided divided{*op, {}};
  divided.op.name = y + ".s";
  if (dim) {
    if (!is_computation(*op))
      return Refusal{"R1",
                     y,
                     fmt::format("{} is {}: only a computation can be cut", y, op->def->name),
                     fmt::format("reorder {} past a gather instead", y),
                     {y}};
    divided.op.cut = dim;
  } else {
    std::map<ir::Name, ir::Name> to = slices_of_operands(form, *op);
    if (to.empty())
      return Refusal{"R3",
                     y,
                     fmt::format("no operand of {} comes from a gather", y),
                     fmt::format("reorder what lies between first, or divide it all the same: `cut {} 0`", y),
                     {y}};
    rename_operands(divided.op, to);
  }
  if (std::optional<Refusal> refusal = infer_divided(form, y, divided)) return refusal;
  if (std::holds_alternative<ir::Partial>(divided.type.layout)) divided.op.name = y + ".p";
  if (result != nullptr) *result = std::move(divided);
  return {};
}

void apply_divided(Form& form, const ir::Name& y, Divided divided) {
  size_t at = position(form.program, y);
  const ir::Name part = divided.op.name;
  std::string_view whole = std::holds_alternative<ir::Root>(divided.type.layout) ? "broadcast" : "all_gather";
  ir::Attrs attrs;
  if (const auto* pending = std::get_if<ir::Partial>(&divided.type.layout)) {
    whole = "all_reduce";
    attrs.reduce = pending->op;
  }
  ir::Op join = communication(whole, y, part, attrs, divided.op.line);
  form.types[part] = std::move(divided.type);
  form.program.ops[at] = std::move(join);
  form.program.ops.insert(form.program.ops.begin() + static_cast<ptrdiff_t>(at), std::move(divided.op));
  canonicalize(form);
}

Bits bits_of_divided(const Form&, const Divided& divided) {
  ir::OpClass op_class = divided.op.def->op_class;
  if (op_class == ir::OpClass::whole) return Bits::tolerance;  // a library may choose another order of sums
  const auto* pending = std::get_if<ir::Partial>(&divided.type.layout);
  if (op_class != ir::OpClass::fold || pending == nullptr) return Bits::kept;
  bool exact = pending->op == ir::ReduceOp::max || pending->op == ir::ReduceOp::min || !is_float(divided.type.dtype);
  return exact ? Bits::kept : Bits::tolerance;
}

}  // namespace weft::schedule
