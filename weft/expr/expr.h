// Scalar expressions: the one tree behind programs, kernels and the numbers of a plan.
//
// Programs compute with floats and tensors (`b1 * m + (1 - b1) * a`), plans with integers (`(r+n-1) % n`). Two trees
// would need two printers, two simplifiers and two sets of bugs; one tree with two *syntaxes* needs a token table each.
// The syntaxes differ in `^` (power / exclusive or), in division (`/` is exact / floor) and in the function names.
// Nodes are immutable and shared. An expression is kept as written: nothing is re-associated, ever (program.md, 2).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::expr {

enum class Op : uint8_t {
  integer,
  number,
  name,  // leaves: int64 value, f64 value, name
  neg,
  not_,  // unary
  add,
  sub,
  mul,
  div,
  mod,
  pow,  // program: div is exact for floats, floor for integers; plan: floor
  bit_and,
  bit_or,
  bit_xor,
  shl,
  shr,  // plan only
  lt,
  gt,
  le,
  ge,
  eq,
  ne,
  and_,
  or_,    // value 0 or 1 (dtype bool)
  call,   // name(args...): functions, casts (name is a dtype), rand, index, select
  index,  // plan only: name[args[0]] or name[args[0]][args[1]], a table
};

struct Node;
using Expr = std::shared_ptr<const Node>;  // never null except where stated

struct Node {
  Op op;
  std::string name;  // name, call, index
  int64_t integer = 0;
  double number = 0;
  std::vector<Expr> args;
};

// A literal carries its sign: neg of a literal is the negated literal, so that print and parse agree. integer(none)
// is the name `none`.
Expr integer(int64_t value);
Expr number(double value);
Expr name(std::string text);
Expr unary(Op op, Expr a);
Expr binary(Op op, Expr a, Expr b);
Expr call(std::string function, std::vector<Expr> args);
Expr index(std::string table, std::vector<Expr> args);

enum class Syntax { program, plan };

// Reads all of `text`. Errors are fail_at(kind, line, ...) with rule F1 (program) or V1 (plan); `column` is where text
// begins in line.text. Precedence, loosest first: or, and, comparisons, | , xor(^ in plans), &, << >>, + -, * / %,
// unary -, ^ (power, right to left, program). `not` binds like a comparison's operand in Python.
Expr parse(std::string_view text, Syntax syntax, const SourceLine& line = {}, int column = 0);
// Canonical: spaces around every binary operator (program) or around all but those below * in plans as in plan.md
// (`(r+n-1) % n`: no spaces around + and -; see print.cpp); parentheses only where the tree needs them.
std::string print(const Expr& e, Syntax syntax);

bool equal(const Expr& a, const Expr& b);
std::vector<std::string> names(const Expr& e);  // distinct, in order of appearance; functions and tables not included
Expr substitute(const Expr& e, const std::map<std::string, Expr>& by);
Expr rename(const Expr& e, const std::function<std::string(const std::string&)>& to);
// Every node, parents first.
void visit(const Expr& e, const std::function<void(const Node&)>& f);

// ---- linearity (L7): may this be done to each pending contribution of the names together?
enum class Linearity { absent, linear, nonlinear };
Linearity linearity(const Expr& e, const std::vector<std::string>& pending);
// The same for another pending reduction: sum, avg; max and min let only max(p, q), min(p, q) pass; prod only p itself.
Linearity linearity(const Expr& e, const std::vector<std::string>& pending, std::string_view reduction);

// ---- scalar evaluation (launch scalars, lets, require): f64, integers exact while both sides are integers.
struct ScalarValue {
  bool is_integer = false;
  int64_t integer = 0;
  double number = 0;
  double as_f64() const;
};
using ScalarEnv = std::function<ScalarValue(const std::string&)>;
ScalarValue evaluate_scalar(const Expr& e, const ScalarEnv& env);

// ---- integer byte code (plans): 2 to 20 ns an evaluation, no allocation. `none` is a value of its own: arithmetic,
// min, max and tables with none give none, == and != compare with it, it is less than every number. Division floors.
// Functions: sel(c, a, b) (only the chosen branch is evaluated) min max abs log2c p2floor. and, or, sel stop early.
// What cannot be computed (division by zero, a negative shift) is Error(plan, V1).
constexpr int64_t none = INT64_MIN;
struct Table {
  std::vector<std::vector<int64_t>> rows;
};  // indices wrap
class IntCode {
 public:
  IntCode() = default;
  // slot(name) gives the index into `values` or -1 (then V1 error "unknown name").
  IntCode(const Expr& e, const std::function<int(const std::string&)>& slot,
          const std::map<std::string, Table>& tables);
  int64_t run(const int64_t* values) const;  // a default-constructed code gives none
  bool is_constant() const;

 private:
  class Compiler;
  struct Instruction {
    uint8_t op;
    int32_t slot;
    int64_t value;
  };
  std::vector<Instruction> code_;
  std::vector<const Table*> tables_;  // owned by the caller, must outlive the code
};

}  // namespace weft::expr
