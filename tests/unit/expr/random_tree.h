// Seeded random expression trees, for round trips and for comparing evaluators.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "weft/expr/expr.h"

namespace weft::expr::random {

class RandomTree {
 public:
  RandomTree(uint32_t seed, Syntax syntax) : random_(seed), syntax_(syntax) {}

  Expr tree(int depth) {
    if (depth == 0 || pick(6) == 0) return leaf();
    switch (pick(8)) {
      case 0: return unary(Op::neg, tree(depth - 1));
      case 1: return unary(Op::not_, tree(depth - 1));
      case 2: return function(depth);
      default: return infix(depth);
    }
  }

  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

 private:
  bool plan() const { return syntax_ == Syntax::plan; }

  Expr leaf() {
    static const std::vector<std::string> plan_names = {"r", "n", "c", "none", "k"},
                                          program_names = {"m", "x.s", "b1", "z.h1", "step"};
    const int kind = pick(4);
    if (kind == 0) return integer(pick(9) - 2);
    if (kind == 1 && !plan()) return number((pick(2000) - 1000) / 128.0 * (pick(3) ? 1 : 1e-12));
    const auto& names = plan() ? plan_names : program_names;
    return name(names[static_cast<size_t>(pick(5))]);
  }

  Expr infix(int depth) {
    static const std::vector<Op> common = {Op::add, Op::sub, Op::mul, Op::div, Op::mod,  Op::lt, Op::gt,
                                           Op::le,  Op::ge,  Op::eq,  Op::ne,  Op::and_, Op::or_};
    static const std::vector<Op> of_plans = {Op::bit_and, Op::bit_or, Op::bit_xor, Op::shl, Op::shr};
    Op op = common[static_cast<size_t>(pick(13))];
    if (pick(4) == 0) op = plan() ? of_plans[static_cast<size_t>(pick(5))] : Op::pow;
    Expr a = tree(depth - 1);
    return binary(op, a, tree(depth - 1));
  }

  Expr function(int depth) {
    if (plan() && pick(4) == 0)
      return pick(2) ? index("ring", {tree(depth - 1)}) : index("mesh", {tree(depth - 1), tree(depth - 1)});
    static const std::vector<std::pair<std::string, int>> plan_functions = {{"sel", 3},   {"min", 2},     {"max", 2},
                                                                            {"log2c", 1}, {"p2floor", 1}, {"abs", 1}};
    static const std::vector<std::pair<std::string, int>> program_functions = {{"select", 3}, {"min", 2},  {"f16", 1},
                                                                               {"sqrt", 1},   {"rand", 2}, {"gelu", 1}};
    const auto& [text, arity] = (plan() ? plan_functions : program_functions)[static_cast<size_t>(pick(6))];
    std::vector<Expr> args;
    for (int i = 0; i < arity; ++i) args.push_back(tree(depth - 1));
    return call(text, args);
  }

  std::mt19937 random_;
  Syntax syntax_;
};

}  // namespace weft::expr::random
