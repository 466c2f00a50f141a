// One rule for all operations, from factors and linearity alone.
//
// CoCoNet keeps a table of operations by layouts, each entry written by hand, and gets some wrong (a bias is sliced
// though it has no such dimension, a norm of slices keeps the layout of its operand). Here an operation says which
// dimensions correspond; whether an operand is read in its part or whole, whether a result is sliced or a pending
// reduction, follows.
#include "weft/ir/layout_rule.h"

#include <algorithm>

#include "weft/ir/errors.h"

namespace weft::ir {
namespace {

struct Operand {
  const Name* name;
  const Type* type;
};

template <typename L>
bool is(const Operand& operand) {
  return std::holds_alternative<L>(operand.type->layout);
}

// L4: at most one kind of layout beside replicated, and one root.
void check_kinds(const Op& op, const std::vector<Operand>& operands) {
  const Operand* first = nullptr;
  for (const Operand& o : operands) {
    if (is<Replicated>(o)) continue;
    if (!first) first = &o;
    const bool same = o.type->layout.index() == first->type->layout.index() &&
                      (!is<Root>(o) || o.type->layout == first->type->layout);
    if (!same)
      fail_op(
          op, *o.name, "L4",
          fmt::format("{} is {}, {} is {}", *first->name, print(first->type->layout), *o.name, print(o.type->layout)),
          "bring one of them to replicated, or both to the same layout");
  }
}

// Integer division and truncation round each contribution: not linear, whatever the tree looks like.
bool rounds_integers(const Op& op, Dtype pending, Dtype result) {
  if (!op.value) return false;
  if (is_float(pending) && !is_float(result)) return true;
  bool divides = false;
  expr::visit(op.value, [&](const expr::Node& node) { divides |= node.op == expr::Op::div; });
  return divides && !is_float(pending);
}

// L7: only what is linear in all pending operands together may touch them.
Layout pending_result(const Op& op, const std::vector<Operand>& operands, Dtype result) {
  std::vector<Name> pending;
  const Operand* first = nullptr;
  bool mixed = false;
  for (const Operand& o : operands) {
    if (!is<Partial>(o)) continue;
    if (!first) first = &o;
    mixed |= o.type->layout != first->type->layout;
    pending.push_back(*o.name);
  }
  const ReduceOp reduce = std::get<Partial>(first->type->layout).op;
  const bool ok = !mixed && op.def->linear && op.def->linear(op, pending, reduce) &&
                  !rounds_integers(op, first->type->dtype, result);
  if (!ok)
    fail_op(op, *first->name, "L7",
            fmt::format("{} is a pending {}; this is not linear in it, so it would be done to each contribution",
                        *first->name, name(reduce)),
            fmt::format("finish it first: all_reduce({}, {})", name(reduce), *first->name));
  return first->type->layout;
}

int sliced_factor(const Op& op, const Operand& operand, const std::vector<int>& factors) {
  const int dim = std::get<Sliced>(operand.type->layout).dim;
  if (dim < 0 || dim >= static_cast<int>(factors.size()) || factors[static_cast<size_t>(dim)] < 0)
    fail_op(op, *operand.name, "L1",
            fmt::format("{} is sliced in dimension {}, which is of extent 1 here", *operand.name, dim),
            "slice a dimension that has elements to divide");
  return factors[static_cast<size_t>(dim)];
}

int dim_of_factor(const Factors& factors, size_t operand, int factor) {
  const std::vector<int>& f = factors.operand[operand];
  return static_cast<int>(std::find(f.begin(), f.end(), factor) - f.begin());
}

// L9: sliced operands agree on one factor. Returns it, or -1 where none is sliced.
int agreed_factor(const Op& op, const std::vector<Operand>& operands, const Factors& factors) {
  int factor = -1;
  size_t first = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!is<Sliced>(operands[i])) continue;
    const int f = sliced_factor(op, operands[i], factors.operand[i]);
    if (factor < 0) factor = f, first = i;
    if (f != factor)
      fail_op(op, *operands[i].name, "L9",
              fmt::format("{} is {} and {} is {}: not the same dimension of the result", *operands[first].name,
                          print(operands[first].type->layout), *operands[i].name, print(operands[i].type->layout)),
              "all_gather one, or all_to_all it to the other's dimension");
  }
  return factor;
}

int chosen_factor(const Op& op, const std::vector<Operand>& operands, const Factors& factors) {
  for (const Operand& o : operands)
    if (!is<Replicated>(o))
      fail_op(op, "cut", "L11",
              fmt::format("`cut {}`, but {} is {} already: that decides", *op.cut, *o.name, print(o.type->layout)),
              "leave `cut` away");
  const int d = *op.cut;
  const bool exists =
      d >= 0 && d < static_cast<int>(factors.kind.size()) && (op.value || d < static_cast<int>(factors.shape.size()));
  if (!exists || factors.size[static_cast<size_t>(d)] == Size{})
    fail_op(op, "cut", "L1",
            exists ? fmt::format("dimension {} to cut is of extent 1", d)
                   : fmt::format("there is no dimension {} to cut", d),
            "cut a dimension that has elements to divide");
  return d;
}

// L9 to L11: what a computation along one cut factor leaves.
Layout cut_result(const Op& op, const Factors& factors, int cut) {
  const FactorKind kind = factors.kind[static_cast<size_t>(cut)];
  if (kind == FactorKind::out)
    return Sliced{
        static_cast<int>(std::find(factors.result.begin(), factors.result.end(), cut) - factors.result.begin())};
  if (kind != FactorKind::whole) return Partial{reduce_of(kind)};
  size_t i = 0;
  while (i + 1 < op.args.size() && dim_of_factor(factors, i, cut) == static_cast<int>(factors.operand[i].size())) ++i;
  fail_op(op, op.args[i], "L10",
          fmt::format("{} needs its neighbours along dimension {}, which is cut", op.def->name,
                      dim_of_factor(factors, i, cut)),
          "slice batch or channels instead (halo exchange is not in the language)");
}

}  // namespace

Layout layout_rule(const Op& op, const Types& types, const Factors& factors, Dtype result) {
  std::vector<Operand> operands;
  operands.reserve(op.args.size());
  for (const Name& arg : op.args) {
    const auto found = types.find(arg);
    operands.push_back({&found->first, &found->second});
  }
  check_kinds(op, operands);
  const int cut = op.cut ? chosen_factor(op, operands, factors) : agreed_factor(op, operands, factors);
  if (cut >= 0) return cut_result(op, factors, cut);
  for (const Operand& o : operands) {
    if (is<Partial>(o)) return pending_result(op, operands, result);
    if (!is<Replicated>(o)) return o.type->layout;  // L2 local, L3 root(k)
  }
  return Replicated{};
}

int cut_factor(const Op& op, const Types& types, const Factors& factors) {
  for (size_t i = 0; i < op.args.size(); ++i) {
    const auto found = types.find(op.args[i]);
    if (const auto* sliced = std::get_if<Sliced>(&found->second.layout))
      return factors.operand[i][static_cast<size_t>(sliced->dim)];
  }
  return op.cut.value_or(-1);
}

}  // namespace weft::ir
