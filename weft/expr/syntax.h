// The token table of the two syntaxes, shared by parser and printer so that they cannot disagree. Internal to expr.
#pragma once

#include <array>
#include <string_view>

#include "weft/expr/expr.h"

namespace weft::expr::syntax {

// Levels of precedence, loosest first. Comparisons do not chain; the program's ^ groups to the right.
enum Level {
  level_or = 1,
  level_and,
  level_not,
  level_compare,
  level_bit_or,
  level_bit_xor,
  level_bit_and,
  level_shift,
  level_sum,
  level_product,
  level_minus,
  level_power,
  level_atom
};

struct Infix {
  std::string_view text;
  Op op;
  Level level;
  bool program, plan;
};

// Longer tokens stand before their prefixes.
inline constexpr std::array<Infix, 19> infixes = {{
    {"or", Op::or_, level_or, true, true},          {"and", Op::and_, level_and, true, true},
    {"<<", Op::shl, level_shift, false, true},      {">>", Op::shr, level_shift, false, true},
    {"<=", Op::le, level_compare, true, true},      {">=", Op::ge, level_compare, true, true},
    {"==", Op::eq, level_compare, true, true},      {"!=", Op::ne, level_compare, true, true},
    {"<", Op::lt, level_compare, true, true},       {">", Op::gt, level_compare, true, true},
    {"|", Op::bit_or, level_bit_or, false, true},   {"^", Op::bit_xor, level_bit_xor, false, true},
    {"&", Op::bit_and, level_bit_and, false, true}, {"+", Op::add, level_sum, true, true},
    {"-", Op::sub, level_sum, true, true},          {"*", Op::mul, level_product, true, true},
    {"/", Op::div, level_product, true, true},      {"%", Op::mod, level_product, true, true},
    {"^", Op::pow, level_power, true, false},
}};

inline const Infix* find(Op op) {
  for (const Infix& i : infixes)
    if (i.op == op) return &i;
  return nullptr;
}

inline bool in(const Infix& i, Syntax s) { return s == Syntax::program ? i.program : i.plan; }

// Words that cannot be names.
inline bool reserved(std::string_view word) {
  return word == "and" || word == "or" || word == "not" || word == "inf" || word == "nan";
}

}  // namespace weft::expr::syntax
