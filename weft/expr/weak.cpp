// The kinds of weak values, node by node. It mirrors scalar.cpp: integers stay integers under + - * / %, a power of them
// may become a float, comparisons and logic give 0 or 1.
#include "weft/expr/weak.h"

#include <algorithm>

#include "weft/expr/body.h"

namespace weft::expr {
namespace {

bool all_whole(const std::vector<Expr>& args, size_t from, const WeakDtype& weak_of) {
  return std::all_of(args.begin() + static_cast<ptrdiff_t>(from), args.end(),
                     [&](const Expr& a) { return weak_dtype(a, weak_of) == Dtype::i64; });
}

bool whole_call(const Expr& e, const WeakDtype& weak_of) {
  if (const auto dtype = parse_dtype(e->name)) return !is_float(*dtype);
  if (e->name == "index") return true;
  if (e->name == "select") return !e->args.empty() && all_whole(e->args, 1, weak_of);
  for (const char* name : {"min", "max", "abs", "relu"})
    if (e->name == name) return all_whole(e->args, 0, weak_of);
  return false;
}

bool is_whole(const Expr& e, const WeakDtype& weak_of) {
  switch (e->op) {
    case Op::integer: return true;
    case Op::number: return false;
    case Op::name: return weak_of(e->name) == Dtype::i64;
    case Op::call: return whole_call(e, weak_of);
    case Op::pow: return e->args[1]->op == Op::integer && e->args[1]->integer >= 0 && all_whole(e->args, 0, weak_of);
    case Op::neg:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::mod: return all_whole(e->args, 0, weak_of);
    default: return true;  // comparisons and logic; tables and shifts belong to plans
  }
}

}  // namespace

Dtype weak_dtype(const Expr& e, const WeakDtype& weak_of) { return is_whole(e, weak_of) ? Dtype::i64 : Dtype::f64; }

}  // namespace weft::expr
