// Printing expressions, canonically: one text per tree, parentheses only where the tree needs them.
//
// Programs have a space on both sides of every binary operator. Plans are denser, `(r+n-1) % n`, and plan.md spaces
// them by feel; the rule that makes its complete texts canonical is:
//   + - * / are tight when neither operand shows a space outside parentheses, brackets and calls;
//   every other operator, and a + - * / next to such a space, has a space on both sides.
// So `(n-1-s)/(2*s)+1`, `sel(n > 1, (r+1) % n, none)`, `q*k + (i+1) % k`, `v ^ b | 2*b`.
#include "weft/expr/syntax.h"

namespace weft::expr {
namespace {

using namespace syntax;

struct Piece {
  std::string text;
  Level level = level_atom;
  bool spaced = false;  // shows a space outside parentheses
};

class Printer {
 public:
  explicit Printer(Syntax syntax) : syntax_(syntax) {}

  Piece print(const Node& e) const {
    switch (e.op) {
      case Op::integer: return {fmt::format("{}", e.integer), e.integer < 0 ? level_minus : level_atom};
      case Op::number: return {shortest(e.number), shortest(e.number)[0] == '-' ? level_minus : level_atom};
      case Op::name: return {e.name};
      case Op::neg: return minus(e);
      case Op::not_: return {fmt::format("not {}", within(e.args[0], level_not).text), level_not, true};
      case Op::call: return {fmt::format("{}({})", e.name, list(e.args))};
      case Op::index: return table(e);
      default: return infix(e);
    }
  }

 private:
  Piece within(const Expr& e, int at_least) const {
    Piece p = print(*e);
    if (p.level >= at_least) return p;
    return {fmt::format("({})", p.text)};
  }

  std::string list(const std::vector<Expr>& args) const {
    std::string out;
    for (const Expr& a : args) out += (out.empty() ? "" : ", ") + print(*a).text;
    return out;
  }

  // The operand of a sign is no literal (expr.cpp), so `-(3)` needs no text of its own.
  Piece minus(const Node& e) const {
    const Piece a = within(e.args[0], level_minus);
    return {fmt::format("-{}", a.text), level_minus, a.spaced};
  }

  Piece table(const Node& e) const {
    std::string out = e.name;
    for (const Expr& a : e.args) out += fmt::format("[{}]", print(*a).text);
    return {out};
  }

  Piece infix(const Node& e) const {
    const Infix& i = *find(e.op);
    if (!in(i, syntax_))
      throw Error(ErrorKind::internal, fmt::format("`{}` has no text in the syntax of {}", i.text,
                                                   syntax_ == Syntax::program ? "programs" : "plans"));
    const bool power = i.level == level_power, compare = i.level == level_compare;
    const Piece a = within(e.args[0], i.level + (power || compare ? 1 : 0));
    const Piece b = within(e.args[1], power ? level_minus : i.level + 1);
    const bool tight = syntax_ == Syntax::plan &&
                       (i.level == level_sum || (i.level == level_product && e.op != Op::mod)) && !a.spaced &&
                       !b.spaced;
    const std::string_view gap = tight ? "" : " ";
    return {fmt::format("{}{}{}{}{}", a.text, gap, i.text, gap, b.text), i.level, !tight};
  }

  Syntax syntax_;
};

}  // namespace

std::string print(const Expr& e, Syntax syntax) { return Printer(syntax).print(*e).text; }

}  // namespace weft::expr
