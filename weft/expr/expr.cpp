// Building and walking expression trees.
//
// One thing is normalised while building, so that the text form reads back to the same tree: a literal carries its
// sign. neg(3) *is* the integer -3, and `-3` reads as that; so there is no pair of trees with one text.
#include "weft/expr/expr.h"

#include <bit>
#include <cmath>
#include <limits>

#include "weft/expr/syntax.h"

namespace weft::expr {
namespace {

Expr make(Op op, std::string name, std::vector<Expr> args) {
  auto node = std::make_shared<Node>();
  node->op = op;
  node->name = std::move(name);
  node->args = std::move(args);
  for (const Expr& a : node->args) WEFT_CHECK(a, "an operand of an expression is absent");
  return node;
}

bool same_number(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

void collect(const Expr& e, std::vector<std::string>& out) {
  if (e->op == Op::name) {
    for (const std::string& seen : out)
      if (seen == e->name) return;
    out.push_back(e->name);
  }
  for (const Expr& a : e->args) collect(a, out);
}

// The tree with `leaf` applied to every name; subtrees that do not change are shared.
Expr map_names(const Expr& e, const std::function<Expr(const Expr&)>& leaf) {
  if (e->op == Op::name) return leaf(e);
  std::vector<Expr> args;
  bool changed = false;
  for (const Expr& a : e->args) {
    args.push_back(map_names(a, leaf));
    changed |= args.back() != a;
  }
  if (!changed) return e;
  if (e->op == Op::neg) return unary(Op::neg, args[0]);  // the operand may have become a literal
  return make(e->op, e->name, std::move(args));
}

}  // namespace

Expr integer(int64_t value) {
  if (value == none) return name("none");
  auto node = std::make_shared<Node>();
  node->op = Op::integer;
  node->integer = value;
  return node;
}

Expr number(double value) {
  auto node = std::make_shared<Node>();
  node->op = Op::number;
  node->number = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
  return node;
}

Expr name(std::string text) {
  if (!is_identifier(text) || syntax::reserved(text))
    throw Error(ErrorKind::user, fmt::format("`{}` is not a name", text),
                "letters, digits, _ and inner dots; not and, or, not, inf, nan", "F1");
  return make(Op::name, std::move(text), {});
}

Expr unary(Op op, Expr a) {
  WEFT_CHECK(op == Op::neg || op == Op::not_, "operator {} is not unary", static_cast<int>(op));
  WEFT_CHECK(a, "an operand of an expression is absent");
  if (op == Op::neg && a->op == Op::integer) return integer(-a->integer);
  if (op == Op::neg && a->op == Op::number) return number(-a->number);
  return make(op, "", {std::move(a)});
}

Expr binary(Op op, Expr a, Expr b) {
  WEFT_CHECK(syntax::find(op), "operator {} is not binary", static_cast<int>(op));
  return make(op, "", {std::move(a), std::move(b)});
}

Expr call(std::string function, std::vector<Expr> args) { return make(Op::call, std::move(function), std::move(args)); }

Expr index(std::string table, std::vector<Expr> args) {
  WEFT_CHECK(args.size() == 1 || args.size() == 2, "table {} with {} indices", table, args.size());
  return make(Op::index, std::move(table), std::move(args));
}

bool equal(const Expr& a, const Expr& b) {
  if (a == b) return true;
  if (!a || !b || a->op != b->op || a->name != b->name || a->integer != b->integer) return false;
  if (!same_number(a->number, b->number) || a->args.size() != b->args.size()) return false;
  for (size_t i = 0; i < a->args.size(); ++i)
    if (!equal(a->args[i], b->args[i])) return false;
  return true;
}

std::vector<std::string> names(const Expr& e) {
  std::vector<std::string> out;
  collect(e, out);
  return out;
}

Expr substitute(const Expr& e, const std::map<std::string, Expr>& by) {
  return map_names(e, [&](const Expr& leaf) {
    const auto it = by.find(leaf->name);
    return it == by.end() ? leaf : it->second;
  });
}

Expr rename(const Expr& e, const std::function<std::string(const std::string&)>& to) {
  return map_names(e, [&](const Expr& leaf) {
    const std::string renamed = to(leaf->name);
    return renamed == leaf->name ? leaf : name(renamed);
  });
}

void visit(const Expr& e, const std::function<void(const Node&)>& f) {
  f(*e);
  for (const Expr& a : e->args) visit(a, f);
}

}  // namespace weft::expr
