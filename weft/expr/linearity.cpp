// L7: may an operation be done to each pending contribution, before the reduction is finished?
//
// For a pending sum: f(sum of p_i) = sum of f(p_i), in the pending names *together* (p + q is linear in both, p + c is
// not: the c would be added once per rank). For max and min: the operation must let the reduction pass, max(p, q).
#include <algorithm>

#include "weft/base/dtype.h"
#include "weft/expr/expr.h"

namespace weft::expr {
namespace {

using L = Linearity;

bool is_zero(const Node& e) { return (e.op == Op::integer && e.integer == 0) || (e.op == Op::number && e.number == 0); }

L both(L a, L b) { return a == L::linear && b == L::linear ? L::linear : L::nonlinear; }

// select(c, p, 0), select(c, p, q): the condition is free of pending names, each branch is linear or zero.
L of_select(const Node& e, const std::vector<L>& a) {
  if (e.args.size() != 3 || a[0] != L::absent) return L::nonlinear;
  for (size_t i : {1, 2})
    if (a[i] != L::linear && !is_zero(*e.args[i])) return L::nonlinear;
  return L::linear;
}

L of_sum(const Node& e, const std::vector<L>& a) {
  switch (e.op) {
    case Op::neg: return L::linear;
    case Op::add:
    case Op::sub: return both(a[0], a[1]);
    case Op::mul: return a[0] != a[1] ? L::linear : L::nonlinear;
    case Op::div: return a[1] == L::absent ? L::linear : L::nonlinear;
    case Op::call:
      if (e.args.size() == 1 && parse_dtype(e.name)) return L::linear;
      return e.name == "select" ? of_select(e, a) : L::nonlinear;
    default: return L::nonlinear;
  }
}

L classify(const Expr& e, const std::vector<std::string>& pending, std::string_view reduction) {
  if (e->op == Op::name)
    return std::find(pending.begin(), pending.end(), e->name) != pending.end() ? L::linear : L::absent;
  std::vector<L> a;
  for (const Expr& arg : e->args) a.push_back(classify(arg, pending, reduction));
  if (std::all_of(a.begin(), a.end(), [](L l) { return l == L::absent; })) return L::absent;
  if (std::find(a.begin(), a.end(), L::nonlinear) != a.end()) return L::nonlinear;
  if (reduction == "sum" || reduction == "avg") return of_sum(*e, a);
  const bool passes =
      e->op == Op::call && e->name == reduction && (reduction == "max" || reduction == "min") && a.size() == 2;
  return passes ? both(a[0], a[1]) : L::nonlinear;
}

}  // namespace

Linearity linearity(const Expr& e, const std::vector<std::string>& pending) { return classify(e, pending, "sum"); }
Linearity linearity(const Expr& e, const std::vector<std::string>& pending, std::string_view reduction) {
  return classify(e, pending, reduction);
}

}  // namespace weft::expr
