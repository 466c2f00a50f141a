// Reading expressions: precedence climbing over the token table of syntax.h.
//
// Hand-written, because messages matter more than the grammar's size: each error points at its column and says what
// was expected. Nesting and size are bounded, so a hostile text is an error and not a stack overflow.
#include <cctype>
#include <charconv>
#include <cmath>

#include "weft/expr/syntax.h"

namespace weft::expr {
namespace {

using namespace syntax;

constexpr int deepest = 200, largest = 20000;

bool starts_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

class Parser {
 public:
  Parser(std::string_view text, Syntax syntax, const SourceLine& line, int column)
      : text_(text), syntax_(syntax), line_(line), column_(column) {
    if (line_.text.empty()) line_.text = std::string(text), column_ = 0;
  }

  Expr whole() {
    const Expr e = expression(level_or);
    skip();
    if (at_ < text_.size())
      refuse(at_, 1, fmt::format("`{}` does not continue the expression", text_.substr(at_)),
             "an operator is missing, or a parenthesis too many");
    return e;
  }

 private:
  [[noreturn]] void refuse(size_t at, size_t width, std::string_view message, std::string_view remedy = "") const {
    const bool program = syntax_ == Syntax::program;
    fail_at_column(program ? ErrorKind::user : ErrorKind::plan, line_, column_ + static_cast<int>(at),
                   static_cast<int>(width), program ? "F1" : "V1", message, remedy);
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  bool take(char c) {
    skip();
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  void expect(char c, size_t opened) {
    if (take(c)) return;
    refuse(opened, 1, fmt::format("`{}` is not closed", text_[opened]), fmt::format("add `{}`", c));
  }

  bool next_is(std::string_view token) const {
    if (text_.substr(at_, token.size()) != token) return false;
    return !starts_word(token[0]) || !in_word(peek(token.size()));
  }

  const Infix* next_infix() {
    skip();
    for (const Infix& i : infixes) {
      if (!next_is(i.text)) continue;
      if (in(i, syntax_)) return &i;
      if (i.op != Op::pow && i.op != Op::bit_xor)
        refuse(at_, i.text.size(), fmt::format("`{}` is an operator of plans", i.text),
               "programs have + - * / % ^, comparisons, and, or, not");
    }
    return nullptr;
  }

  void count(size_t at) {
    if (++nodes_ > largest)
      refuse(at, 1, fmt::format("an expression of more than {} terms", largest), "name parts of it");
  }

  // Left-associative operators of at least `loosest`; power and unary operators are the operands' affair.
  Expr expression(Level loosest) {
    const size_t begin = at_;
    if (++depth_ > deepest) refuse(begin, 1, fmt::format("nested deeper than {}", deepest), "name the inner parts");
    Expr left = operand(loosest);
    bool compared = false;
    for (const Infix* i = next_infix(); i && i->level >= loosest && i->level < level_power; i = next_infix()) {
      if (i->level == level_compare && compared)
        refuse(at_, i->text.size(), "comparisons do not chain", "write `a < b and b < c`");
      count(at_);
      at_ += i->text.size();
      left = binary(i->op, left, expression(static_cast<Level>(i->level + 1)));
      if (i->level == level_compare)
        compared = true;
      else if (i->level < level_compare)
        compared = false;
    }
    --depth_;
    return left;
  }

  Expr operand(Level loosest) {
    skip();
    if (next_is("not")) {
      if (loosest > level_not) refuse(at_, 3, "`not` here needs parentheses", "write (not ...)");
      at_ += 3;
      return unary(Op::not_, expression(level_not));
    }
    return minus();
  }

  Expr minus() {
    skip();
    if (peek() != '-') return power();
    const size_t begin = at_++;
    if (++depth_ > deepest) refuse(begin, 1, fmt::format("nested deeper than {}", deepest), "name the inner parts");
    const Expr e = unary(Op::neg, minus());
    --depth_;
    return e;
  }

  Expr power() {
    const Expr base = atom();
    const Infix* i = next_infix();
    if (!i || i->level != level_power) return base;
    count(at_);
    ++at_;
    return binary(Op::pow, base, minus());
  }

  Expr atom() {
    skip();
    count(at_);
    const char c = peek();
    if (c == '(') {
      const size_t opened = at_++;
      const Expr e = expression(level_or);
      expect(')', opened);
      return e;
    }
    if (is_digit(c)) return literal();
    if (starts_word(c)) return word();
    if (at_ >= text_.size()) refuse(text_.size(), 1, "the expression ends too early", "an operand is missing");
    refuse(at_, 1, fmt::format("`{}` cannot begin an operand", c),
           c == '.' ? "write 0.5, not .5" : "a name, a number or ( is expected");
  }

  // digits [. digits] [e [+-] digits]; whole numbers are integers. Plans have integers only.
  Expr literal() {
    const size_t begin = at_;
    bool whole = true;
    while (is_digit(peek())) ++at_;
    if (peek() == '.' && is_digit(peek(1))) {
      whole = false;
      for (++at_; is_digit(peek());) ++at_;
    }
    if (peek() == 'e' && (is_digit(peek(1)) || ((peek(1) == '-' || peek(1) == '+') && is_digit(peek(2))))) {
      whole = false;
      for (at_ += 2; is_digit(peek());) ++at_;
    }
    const std::string_view digits = text_.substr(begin, at_ - begin);
    if (starts_word(peek()))
      refuse(begin, digits.size() + 1, fmt::format("`{}` runs into a name", digits), "write a * between them");
    if (!whole && syntax_ == Syntax::plan)
      refuse(begin, digits.size(), fmt::format("{} is not an integer", digits), "plans compute with integers");
    return whole ? whole_number(digits, begin) : real_number(digits, begin);
  }

  Expr whole_number(std::string_view digits, size_t begin) const {
    int64_t value = 0;
    const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (r.ec != std::errc())
      refuse(begin, digits.size(), fmt::format("{} does not fit 64 bits", digits), "write it as a float: 1e20");
    return integer(value);
  }

  Expr real_number(std::string_view digits, size_t begin) const {
    double value = 0;
    const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (r.ec != std::errc())
      refuse(begin, digits.size(), fmt::format("{} is no f64", digits),
             "f64 goes from 5e-324 to 1.8e308; beyond it is inf");
    return number(value);
  }

  std::string identifier() {
    const size_t begin = at_;
    while (in_word(peek()) || (peek() == '.' && in_word(peek(1)))) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  Expr word() {
    const size_t begin = at_;
    std::string text = identifier();
    if (syntax_ == Syntax::program && (text == "inf" || text == "nan")) return number(text == "inf" ? HUGE_VAL : NAN);
    if (reserved(text))
      refuse(begin, text.size(), fmt::format("`{}` cannot begin an operand", text),
             "a name, a number or ( is expected");
    if (peek() == '(') return call(std::move(text), arguments());
    if (peek() == '[') return table(std::move(text), begin);
    return name(std::move(text));
  }

  std::vector<Expr> arguments() {
    const size_t opened = at_++;
    std::vector<Expr> args;
    if (take(')')) return args;
    do args.push_back(expression(level_or));
    while (take(','));
    expect(')', opened);
    return args;
  }

  Expr table(std::string text, size_t begin) {
    if (syntax_ == Syntax::program)
      refuse(begin, text.size(), fmt::format("{}[...]: elements of a tensor cannot be named", text),
             "index(d) gives positions; tables belong to plans");
    std::vector<Expr> args;
    while (peek() == '[' && args.size() < 2) {
      const size_t opened = at_++;
      args.push_back(expression(level_or));
      expect(']', opened);
    }
    if (peek() == '[')
      refuse(at_, 1, fmt::format("table {} has at most two indices", text),
             fmt::format("{}[i] or {}[i][j]", text, text));
    return index(std::move(text), std::move(args));
  }

  std::string_view text_;
  Syntax syntax_;
  SourceLine line_;
  int column_;
  size_t at_ = 0;
  int depth_ = 0, nodes_ = 0;
};

}  // namespace

Expr parse(std::string_view text, Syntax syntax, const SourceLine& line, int column) {
  return Parser(text, syntax, line, column).whole();
}

}  // namespace weft::expr
