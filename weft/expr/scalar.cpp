// Launch scalars, lets and require lines: one value at a time, f64, and exact integers while both sides are integers.
//
// Division of two integers floors (7 / 2 = 3, -7 / 2 = -4), as for integer tensors; a float on either side makes it
// exact. A power of integers with an exponent of at least 0 is an integer. What does not fit 64 bits or divides by
// zero is an error here, where it can still be named, and wraps only in tensors.
#include <cmath>

#include "weft/expr/expr.h"
#include "weft/expr/integers.h"
#include "weft/expr/scalar_functions.h"

namespace weft::expr {
namespace {

ScalarValue whole(int64_t value) { return {true, value, 0}; }
ScalarValue real(double value) { return {false, 0, value}; }

[[noreturn]] void refuse(const Expr& e, const std::string& why, const std::string& remedy, const char* rule = "") {
  throw Error(ErrorKind::user, fmt::format("{}: {}", print(e, Syntax::program), why), remedy, rule);
}

bool is_true(const ScalarValue& v) { return v.is_integer ? v.integer != 0 : v.number != 0; }

bool compare(Op op, auto a, auto b) {
  switch (op) {
    case Op::lt: return a < b;
    case Op::gt: return a > b;
    case Op::le: return a <= b;
    case Op::ge: return a >= b;
    case Op::eq: return a == b;
    default: return a != b;
  }
}

bool is_compare(Op op) { return op >= Op::lt && op <= Op::ne; }

int64_t integer_power(const Expr& e, int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
      refuse(e, "does not fit 64 bits", "make one side a float");
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
      refuse(e, "does not fit 64 bits", "make one side a float");
  }
  return result;
}

ScalarValue integer_infix(const Expr& e, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (e->op) {
    case Op::add: overflow = __builtin_add_overflow(a, b, &result); break;
    case Op::sub: overflow = __builtin_sub_overflow(a, b, &result); break;
    case Op::mul: overflow = __builtin_mul_overflow(a, b, &result); break;
    case Op::div:
    case Op::mod:
      if (b == 0) refuse(e, "division by zero", "guard it: select(b == 0, 0, a / b)");
      result = e->op == Op::div ? integers::floor_div(a, b) : integers::floor_mod(a, b);
      break;
    case Op::pow:
      return b < 0 ? real(scalar_power(static_cast<double>(a), static_cast<double>(b))) : whole(integer_power(e, a, b));
    case Op::bit_and: result = a & b; break;
    case Op::bit_or: result = a | b; break;
    case Op::bit_xor: result = a ^ b; break;
    case Op::shl:
    case Op::shr:
      if (b < 0) refuse(e, "a negative shift", "shifts go by 0 to 63");
      result = e->op == Op::shl ? integers::shift_left(a, b) : integers::shift_right(a, b);
      break;
    default: refuse(e, "not an operator of numbers", "programs have + - * / % ^, comparisons, and, or, not");
  }
  if (overflow) refuse(e, "does not fit 64 bits", "make one side a float");
  return whole(result);
}

ScalarValue float_infix(const Expr& e, double a, double b) {
  switch (e->op) {
    case Op::add: return real(a + b);
    case Op::sub: return real(a - b);
    case Op::mul: return real(a * b);
    case Op::div: return real(a / b);
    case Op::pow: return real(scalar_power(a, b));
    default: refuse(e, "needs integers", "cast: i64(x)", "D1");
  }
}

class Evaluator {
 public:
  explicit Evaluator(const ScalarEnv& env) : env_(env) {}

  ScalarValue value(const Expr& e) const {
    switch (e->op) {
      case Op::integer: return whole(e->integer);
      case Op::number: return real(e->number);
      case Op::name: return env_(e->name);
      case Op::neg: return negated(e);
      case Op::not_: return whole(!is_true(value(e->args[0])));
      case Op::and_: return whole(is_true(value(e->args[0])) && is_true(value(e->args[1])));
      case Op::or_: return whole(is_true(value(e->args[0])) || is_true(value(e->args[1])));
      case Op::call: return function(e);
      case Op::index: refuse(e, "tables belong to plans", "write the number, or hand in a tensor", "F1");
      default: return infix(e);
    }
  }

 private:
  ScalarValue negated(const Expr& e) const {
    const ScalarValue a = value(e->args[0]);
    return a.is_integer ? whole(integers::wrap_sub(0, a.integer)) : real(-a.number);
  }

  ScalarValue infix(const Expr& e) const {
    const ScalarValue a = value(e->args[0]), b = value(e->args[1]);
    const bool integers = a.is_integer && b.is_integer;
    if (is_compare(e->op))
      return whole(integers ? compare(e->op, a.integer, b.integer) : compare(e->op, a.as_f64(), b.as_f64()));
    return integers ? integer_infix(e, a.integer, b.integer) : float_infix(e, a.as_f64(), b.as_f64());
  }

  ScalarValue function(const Expr& e) const {
    if ((e->name == "select" || e->name == "sel") && e->args.size() == 3)
      return value(e->args[is_true(value(e->args[0])) ? 1 : 2]);
    std::vector<ScalarValue> a;
    for (const Expr& arg : e->args) a.push_back(value(arg));
    if (a.size() == 1) {
      if (const auto dtype = parse_dtype(e->name)) return cast(*dtype, a[0]);
    }
    const bool integers = !a.empty() && a[0].is_integer && (a.size() < 2 || a[1].is_integer);
    if (a.size() == 2 && integers && e->name == "min") return whole(std::min(a[0].integer, a[1].integer));
    if (a.size() == 2 && integers && e->name == "max") return whole(std::max(a[0].integer, a[1].integer));
    if (a.size() == 1 && integers && e->name == "abs")
      return whole(a[0].integer < 0 ? integers::wrap_sub(0, a[0].integer) : a[0].integer);
    if (a.size() == 1 && integers && e->name == "relu") return whole(std::max<int64_t>(a[0].integer, 0));
    if (a.size() == 1 && integers && e->name == "log2c") return whole(integers::log2c(a[0].integer));
    if (a.size() == 1 && integers && e->name == "p2floor") return whole(integers::p2floor(a[0].integer));
    return known(e, a);
  }

  static ScalarValue known(const Expr& e, const std::vector<ScalarValue>& a) {
    std::vector<double> numbers;
    for (const ScalarValue& v : a) numbers.push_back(v.as_f64());
    const std::optional<double> result = scalar_function(e->name, numbers);
    if (!result)
      refuse(e, fmt::format("{} of {} scalars is not a scalar function", e->name, a.size()),
             "rand and index need elements; sqrt exp log ... min max select and casts work on scalars", "F4");
    return real(*result);
  }

  static ScalarValue cast(Dtype dtype, const ScalarValue& v) {
    alignas(16) unsigned char memory[16] = {};
    if (v.is_integer)
      store_i64(dtype, memory, v.integer);
    else
      store_f64(dtype, memory, v.number);
    return is_float(dtype) ? real(load_f64(dtype, memory)) : whole(load_i64(dtype, memory));
  }

  const ScalarEnv& env_;
};

}  // namespace

double ScalarValue::as_f64() const { return is_integer ? static_cast<double>(integer) : number; }

ScalarValue evaluate_scalar(const Expr& e, const ScalarEnv& env) { return Evaluator(env).value(e); }

}  // namespace weft::expr
