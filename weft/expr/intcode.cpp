// Integer byte code: a plan's numbers, evaluated per rank, channel and loop index while a plan is loaded or walked.
//
// A stack machine whose instructions take their right operand from the stack, a slot or themselves, so that `r+n-1`
// is three instructions and `(r+1) % n` two and a push. sel, and, or are jumps: the branch not taken may divide by
// zero. Subtrees without names are folded while compiling.
#include <algorithm>
#include <iterator>

#include "weft/expr/expr.h"
#include "weft/expr/integers.h"

namespace weft::expr {
namespace {

enum Code : uint8_t {
  push,
  jump,
  jump_if_zero,
  truth,
  negate,
  invert,
  absolute,
  log2c,
  p2floor,
  table1,
  table2,
  add,
  sub,
  mul,
  div,
  mod,
  bit_and,
  bit_or,
  bit_xor,
  shl,
  shr,
  lt,
  gt,
  le,
  ge,
  eq,
  ne,
  minimum,
  maximum
};
constexpr uint8_t from_slot = 64, from_value = 128;  // where the right operand (or what is pushed) is; else the stack
constexpr uint8_t code_mask = 63;
constexpr int stack_depth = 64;

[[noreturn]] void refuse(const std::string& message, const std::string& remedy) {
  throw Error(ErrorKind::plan, message, remedy, "V1");
}

Code code_of(Op op) {
  switch (op) {
    case Op::add: return add;
    case Op::sub: return sub;
    case Op::mul: return mul;
    case Op::div: return div;
    case Op::mod: return mod;
    case Op::bit_and: return bit_and;
    case Op::bit_or: return bit_or;
    case Op::bit_xor: return bit_xor;
    case Op::shl: return shl;
    case Op::shr: return shr;
    case Op::lt: return lt;
    case Op::gt: return gt;
    case Op::le: return le;
    case Op::ge: return ge;
    case Op::eq: return eq;
    case Op::ne: return ne;
    default:
      refuse("`^` as a power, or a float, where a plan needs an integer",
             "in plans ^ is exclusive or; write 1<<k for a power of two");
  }
}

[[noreturn]] void by_zero(int64_t a, const char* op) {
  refuse(fmt::format("{} {} 0", a, op), "guard it: sel(k == 0, none, n / k)");
}
[[noreturn]] void negative_shift(int64_t b) { refuse(fmt::format("a shift by {}", b), "shifts go by 0 to 63"); }

inline int64_t arithmetic(uint8_t code, int64_t a, int64_t b) {
  switch (code) {
    case add: return integers::wrap_add(a, b);
    case sub: return integers::wrap_sub(a, b);
    case mul: return integers::wrap_mul(a, b);
    case div: return b == 0 ? by_zero(a, "/"), 0 : integers::floor_div(a, b);
    case mod: return b == 0 ? by_zero(a, "%"), 0 : integers::floor_mod(a, b);
    case bit_and: return a & b;
    case bit_or: return a | b;
    case bit_xor: return a ^ b;
    case shl: return b < 0 ? negative_shift(b), 0 : integers::shift_left(a, b);
    case shr: return b < 0 ? negative_shift(b), 0 : integers::shift_right(a, b);
    case minimum: return std::min(a, b);
    default: return std::max(a, b);
  }
}

inline int64_t apply2(uint8_t code, int64_t a, int64_t b) {
  switch (code) {
    case lt: return a < b;
    case gt: return a > b;
    case le: return a <= b;
    case ge: return a >= b;
    case eq: return a == b;
    case ne: return a != b;
    default: return a == none || b == none ? none : arithmetic(code, a, b);
  }
}

int64_t apply1(uint8_t code, int64_t a) {
  if (code == truth) return a != 0;
  if (code == invert) return a == 0;
  if (a == none) return none;
  if (code == negate) return integers::wrap_sub(0, a);
  if (code == absolute) return a < 0 ? integers::wrap_sub(0, a) : a;
  return code == log2c ? integers::log2c(a) : integers::p2floor(a);
}

int64_t look_up(const Table& table, int64_t i, int64_t j) {
  if (i == none || j == none) return none;
  const auto& row = table.rows[static_cast<size_t>(integers::floor_mod(i, std::ssize(table.rows)))];
  return row[static_cast<size_t>(integers::floor_mod(j, std::ssize(row)))];
}

}  // namespace

// Emits code for one expression; knows the depth of the stack it needs.
class IntCode::Compiler {
 public:
  Compiler(IntCode& code, const std::function<int(const std::string&)>& slot,
           const std::map<std::string, Table>& tables)
      : out_(code), slot_(slot), tables_(tables) {}

  void expression(const Expr& e) {
    const size_t begin = out_.code_.size();
    const int before = depth_;
    const bool closed = emit(*e);
    if (closed && out_.code_.size() - begin > 1) fold(begin);
    depth_ = before + 1;
    if (depth_ > stack_depth)
      refuse(fmt::format("`{}` nests too deeply", print(e, Syntax::plan)), "name the inner parts with let");
  }

 private:
  std::vector<Instruction>& code() { return out_.code_; }
  size_t put(uint8_t op, int32_t slot = 0, int64_t value = 0) {
    code().push_back({op, slot, value});
    return code().size() - 1;
  }

  // Replaces a subtree without names by its value; one that fails is left to fail when it runs.
  void fold(size_t begin) {
    IntCode part;
    part.code_.assign(code().begin() + static_cast<ptrdiff_t>(begin), code().end());
    for (Instruction& i : part.code_)
      if ((i.op & code_mask) == jump || (i.op & code_mask) == jump_if_zero) i.value -= static_cast<int64_t>(begin);
    try {
      const int64_t value = part.run(nullptr);
      code().resize(begin);
      put(push | from_value, 0, value);
    } catch (const Error&) {}
  }

  static bool closed(const Expr& e) {
    bool free = true;
    visit(e, [&](const Node& n) { free &= n.op != Op::index && (n.op != Op::name || n.name == "none"); });
    return free;
  }

  // All of these return whether the subtree is free of names and tables.
  bool emit(const Node& e) {
    switch (e.op) {
      case Op::integer: return put(push | from_value, 0, e.integer), true;
      case Op::number: refuse(fmt::format("{} is not an integer", shortest(e.number)), "plans compute with integers");
      case Op::name: return name(e.name);
      case Op::neg: return one(negate, e.args[0]);
      case Op::not_: return one(invert, e.args[0]);
      case Op::and_: return either(e, true);
      case Op::or_: return either(e, false);
      case Op::call: return function(e);
      case Op::index: return table(e);
      default: return two(code_of(e.op), e.args[0], e.args[1]);
    }
  }

  bool name(const std::string& text) {
    if (text == "none") return put(push | from_value, 0, none), true;
    put(push | from_slot, slot_of(text));
    return false;
  }

  int slot_of(const std::string& text) {
    const int slot = slot_(text);
    if (slot < 0) refuse(fmt::format("unknown name {}", text), "declare it before: param, let, for, or one of r n c");
    return slot;
  }

  bool one(Code op, const Expr& a) {
    expression(a);
    put(op);
    return closed(a);
  }

  bool two(Code op, const Expr& a, const Expr& b) {
    expression(a);
    if (b->op == Op::integer)
      put(op | from_value, 0, b->integer);
    else if (b->op == Op::name && b->name != "none")
      put(op | from_slot, slot_of(b->name));
    else
      expression(b), put(op);
    return closed(a) && closed(b);
  }

  // a and b: if a is 0 the answer is 0 and b is not evaluated; or likewise.
  bool either(const Node& e, bool conjunction) {
    expression(e.args[0]);
    if (!conjunction) put(invert);
    const size_t skip = put(jump_if_zero);
    --depth_;
    expression(e.args[1]);
    put(truth);
    const size_t end = put(jump);
    code()[skip].value = static_cast<int64_t>(code().size());
    put(push | from_value, 0, conjunction ? 0 : 1);
    code()[end].value = static_cast<int64_t>(code().size());
    return closed(e.args[0]) && closed(e.args[1]);
  }

  bool choose(const Node& e) {
    expression(e.args[0]);
    const size_t no = put(jump_if_zero);
    --depth_;
    expression(e.args[1]);
    const size_t end = put(jump);
    code()[no].value = static_cast<int64_t>(code().size());
    --depth_;
    expression(e.args[2]);
    code()[end].value = static_cast<int64_t>(code().size());
    return closed(e.args[0]) && closed(e.args[1]) && closed(e.args[2]);
  }

  bool function(const Node& e) {
    static const std::map<std::string, std::pair<Code, size_t>> known = {
        {"sel", {jump, 3}},     {"min", {minimum, 2}}, {"max", {maximum, 2}},
        {"abs", {absolute, 1}}, {"log2c", {log2c, 1}}, {"p2floor", {p2floor, 1}}};
    const auto it = known.find(e.name);
    if (it == known.end())
      refuse(fmt::format("unknown function {}", e.name), "plans have sel min max abs log2c p2floor");
    const auto [op, arity] = it->second;
    if (e.args.size() != arity)
      refuse(fmt::format("{} takes {} arguments, not {}", e.name, arity, e.args.size()),
             fmt::format("give it {}", arity));
    return arity == 3 ? choose(e) : arity == 2 ? two(op, e.args[0], e.args[1]) : one(op, e.args[0]);
  }

  bool table(const Node& e) {
    const auto it = tables_.find(e.name);
    if (it == tables_.end())
      refuse(fmt::format("unknown table {}", e.name), fmt::format("declare it: table {}[n] = ...", e.name));
    const Table& t = it->second;
    const bool hollow =
        t.rows.empty() || std::any_of(t.rows.begin(), t.rows.end(), [](const auto& row) { return row.empty(); });
    if (hollow) refuse(fmt::format("table {} is empty", e.name), "a table has a row, a row an entry");
    if (e.args.size() == 1 && t.rows.size() > 1)
      refuse(fmt::format("table {} has {} rows and gets one index", e.name, t.rows.size()),
             fmt::format("{}[row][column]", e.name));
    for (const Expr& a : e.args) expression(a);
    out_.tables_.push_back(&t);
    put(e.args.size() == 1 ? table1 : table2, static_cast<int32_t>(out_.tables_.size()) - 1);
    return false;
  }

  IntCode& out_;
  const std::function<int(const std::string&)>& slot_;
  const std::map<std::string, Table>& tables_;
  int depth_ = 0;
};

IntCode::IntCode(const Expr& e, const std::function<int(const std::string&)>& slot,
                 const std::map<std::string, Table>& tables) {
  Compiler(*this, slot, tables).expression(e);
}

// The last value lives in `top`, the others in `stack`.
int64_t IntCode::run(const int64_t* values) const {
  int64_t stack[stack_depth + 1];
  int64_t* under = stack;
  int64_t top = none;
  const Instruction *const begin = code_.data(), *const end = begin + code_.size();
  for (const Instruction* i = begin; i < end; ++i) {
    const uint8_t op = i->op & code_mask;
    const bool stacked = i->op == op;
    const int64_t given = i->op & from_value ? i->value : i->op & from_slot ? values[i->slot] : top;
    if (op >= add) {
      if (stacked) top = *--under;
      top = apply2(op, top, given);
    } else if (op == push) {
      *under++ = top;
      top = given;
    } else if (op == jump) {
      i = begin + i->value - 1;
    } else if (op == jump_if_zero) {
      if (top == 0) i = begin + i->value - 1;
      top = *--under;
    } else if (op == table1 || op == table2) {
      const int64_t row = op == table2 ? *--under : 0;
      top = look_up(*tables_[static_cast<size_t>(i->slot)], row, top);
    } else {
      top = apply1(op, top);
    }
  }
  return top;
}

bool IntCode::is_constant() const { return code_.empty() || (code_.size() == 1 && code_[0].op == (push | from_value)); }

}  // namespace weft::expr
