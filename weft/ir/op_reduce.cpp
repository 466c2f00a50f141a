// all_reduce reduce_scatter reduce: local or pending contributions become one value, held whole, in parts, or by one.
#include "weft/ir/errors.h"
#include "weft/ir/op_defs.h"

namespace weft::ir {
namespace {

// What was probably meant by a reduction of a replicated value.
std::string instead(const Op& op) {
  const std::string use =
      op.attrs.dim ? fmt::format("take its slice: {} cut {}", op.args[0], *op.attrs.dim) : std::string("drop it");
  if (*op.attrs.reduce == ReduceOp::sum) return use + "; to multiply by the number of ranks say so: x * ranks";
  return *op.attrs.reduce == ReduceOp::prod ? use + "; to raise it to the number of ranks say so: x ^ ranks" : use;
}

// L5, L6, D3: what all three demand of their operand.
const Type& contributions(const Op& op, const Types& types) {
  const Type& t = types.find(op.args[0])->second;
  const Name& x = op.args[0];
  const ReduceOp reduce = *op.attrs.reduce;
  if (std::holds_alternative<Replicated>(t.layout))
    fail_op(op, x, "L5",
            fmt::format(
                "{} of {}, which is replicated: its ranks hold one value already, the {} would count it once per rank",
                op.def->name, x, name(reduce)),
            instead(op));
  const auto* pending = std::get_if<Partial>(&t.layout);
  if (!pending && !std::holds_alternative<Local>(t.layout))
    fail_op(
        op, x, "L5",
        fmt::format("{} of {}, which is {}: its ranks hold parts, not contributions", op.def->name, x, print(t.layout)),
        "drop it, or all_gather");
  if (pending && pending->op != reduce)
    fail_op(op, name(reduce), "L6",
            fmt::format("{} is a pending {}, {} asks for {}", x, name(pending->op), op.def->name, name(reduce)),
            fmt::format("{}({}, {})", op.def->name, name(pending->op), x));
  if (reduce == ReduceOp::avg && !is_float(t.dtype))
    fail_op(op, "avg", "D3", fmt::format("avg of {}, which is {}", x, name(t.dtype)),
            "sum, then divide as you mean it");
  return t;
}

Type all_reduce_type(const Program&, const Op& op, const Types& types) {
  Type t = contributions(op, types);
  t.layout = Replicated{};
  return t;
}

Type reduce_scatter_type(const Program&, const Op& op, const Types& types) {
  Type t = contributions(op, types);
  const int d = *op.attrs.dim;
  if (d < 0 || d >= static_cast<int>(t.shape.size()) || t.shape[static_cast<size_t>(d)] == Size{})
    fail_op(op, std::to_string(d), "L1", fmt::format("no dimension {} to scatter in {}", d, print(t)),
            "scatter a dimension that exists and is not of extent 1");
  t.layout = Sliced{d};
  return t;
}

Type reduce_type(const Program&, const Op& op, const Types& types) {
  Type t = contributions(op, types);
  t.layout = Root{op.attrs.root};
  return t;
}

}  // namespace

const OpDef all_reduce_def = {"all_reduce",
                              OpClass::communication,
                              1,
                              "rt",
                              "all_reduce(op, x)",
                              "local or partial -> replicated",
                              nullptr,
                              all_reduce_type,
                              nullptr,
                              evaluate_reduction};
const OpDef reduce_scatter_def = {"reduce_scatter",
                                  OpClass::communication,
                                  1,
                                  "rtd",
                                  "reduce_scatter(op, x, d)",
                                  "local or partial -> sliced(d)",
                                  nullptr,
                                  reduce_scatter_type,
                                  nullptr,
                                  evaluate_reduction};
const OpDef reduce_def = {
    "reduce", OpClass::communication, 1, "rtk", "reduce(op, x, k)", "local or partial -> root(k)", nullptr, reduce_type,
    nullptr,  evaluate_reduction};

}  // namespace weft::ir
