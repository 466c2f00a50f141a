// One node of the tree after the other, each over all elements, in f64 or 64-bit integers.
//
// The functions are those of the C library and not those of expr/: an oracle that shared the polynomials it is to
// check would agree with their mistakes. Integers wrap in their dtype; division floors, by zero it gives 0 and the
// remainder the dividend (the rules of expr/body.h, written here a second time).
#include "weft/ir/column.h"

#include <cmath>

#include "weft/expr/body.h"
#include "weft/expr/functions.h"
#include "weft/expr/philox.h"

namespace weft::ir {
namespace {

using expr::Expr;
using expr::Op;

uint64_t bits(int64_t x) { return static_cast<uint64_t>(x); }

template <typename F>
Column reals(const Column& a, const Column& b, F f) {
  Column out;
  out.uniform = a.uniform && b.uniform;
  const int64_t n = a.uniform ? b.size() : a.size();
  out.f.resize(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) out.f[static_cast<size_t>(k)] = f(a.real(k), b.real(k));
  return out;
}

template <typename F>
Column wholes(const Column& a, const Column& b, F f) {
  Column out;
  out.is_float = false;
  out.is_unsigned = a.is_unsigned || b.is_unsigned;
  out.uniform = a.uniform && b.uniform;
  const int64_t n = a.uniform ? b.size() : a.size();
  out.i.resize(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) out.i[static_cast<size_t>(k)] = static_cast<int64_t>(f(a.whole(k), b.whole(k)));
  return out;
}

template <typename F>
Column truths(const Column& a, const Column& b, F f) {
  Column out;
  out.is_float = false;
  out.uniform = a.uniform && b.uniform;
  const int64_t n = a.uniform ? b.size() : a.size();
  out.i.resize(static_cast<size_t>(n));
  const bool exact = !a.is_float && !b.is_float, no_sign = a.is_unsigned || b.is_unsigned;
  for (int64_t k = 0; k < n; ++k) {
    const bool holds = !exact    ? f(a.real(k), b.real(k))
                       : no_sign ? f(bits(a.whole(k)), bits(b.whole(k)))
                                 : f(a.whole(k), b.whole(k));
    out.i[static_cast<size_t>(k)] = holds;
  }
  return out;
}

int64_t floor_divide(int64_t a, int64_t b, bool no_sign) {
  if (b == 0) return 0;
  if (no_sign) return static_cast<int64_t>(bits(a) / bits(b));
  if (b == -1) return static_cast<int64_t>(0 - bits(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t integer_power(int64_t base, int64_t exponent, bool no_sign) {
  if (exponent < 0 && !no_sign) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, square = bits(base);
  for (uint64_t e = bits(exponent); e; e >>= 1, square *= square)
    if (e & 1) result *= square;
  return static_cast<int64_t>(result);
}

Column arithmetic(Op op, const Column& a, const Column& b) {
  const bool exact = !a.is_float && !b.is_float, no_sign = a.is_unsigned || b.is_unsigned;
  switch (op) {
    case Op::add:
      return exact ? wholes(a, b, [](int64_t x, int64_t y) { return bits(x) + bits(y); })
                   : reals(a, b, [](double x, double y) { return x + y; });
    case Op::sub:
      return exact ? wholes(a, b, [](int64_t x, int64_t y) { return bits(x) - bits(y); })
                   : reals(a, b, [](double x, double y) { return x - y; });
    case Op::mul:
      return exact ? wholes(a, b, [](int64_t x, int64_t y) { return bits(x) * bits(y); })
                   : reals(a, b, [](double x, double y) { return x * y; });
    case Op::div:
      return exact ? wholes(a, b, [=](int64_t x, int64_t y) { return floor_divide(x, y, no_sign); })
                   : reals(a, b, [](double x, double y) { return x / y; });
    case Op::pow:
      return exact ? wholes(a, b, [=](int64_t x, int64_t y) { return integer_power(x, y, no_sign); })
                   : reals(a, b, [](double x, double y) { return std::pow(x, y); });
    case Op::mod:
      if (exact)
        return wholes(a, b, [=](int64_t x, int64_t y) {
          return static_cast<int64_t>(bits(x) - bits(y) * bits(floor_divide(x, y, no_sign)));
        });
      return reals(a, b, [](double x, double y) { return x - y * std::floor(x / y); });
    default: break;
  }
  WEFT_CHECK(false, "operator {} is not one of programs", static_cast<int>(op));
  return {};
}

Column comparison(Op op, const Column& a, const Column& b) {
  switch (op) {
    case Op::lt: return truths(a, b, [](auto x, auto y) { return x < y; });
    case Op::gt: return truths(a, b, [](auto x, auto y) { return x > y; });
    case Op::le: return truths(a, b, [](auto x, auto y) { return x <= y; });
    case Op::ge: return truths(a, b, [](auto x, auto y) { return x >= y; });
    case Op::eq: return truths(a, b, [](auto x, auto y) { return x == y; });
    case Op::ne: return truths(a, b, [](auto x, auto y) { return x != y; });
    case Op::and_: return truths(a, b, [](auto x, auto y) { return x != 0 && y != 0; });
    default: return truths(a, b, [](auto x, auto y) { return x != 0 || y != 0; });
  }
}

struct RealFunction {
  const char* name;
  double (*f)(double);
};
const RealFunction real_functions[] = {
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"tanh", [](double x) { return std::tanh(x); }},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"relu", [](double x) { return x > 0 ? x : (std::isnan(x) ? x : 0.0); }},
    {"gelu", [](double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }},
    {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
    {"abs", [](double x) { return std::fabs(x); }},
};

Column larger(const Column& a, const Column& b, bool want_larger) {
  const bool no_sign = a.is_unsigned || b.is_unsigned;
  if (!a.is_float && !b.is_float)
    return wholes(a, b,
                  [=](int64_t x, int64_t y) { return ((no_sign ? bits(x) > bits(y) : x > y) == want_larger) ? x : y; });
  return reals(a, b, [=](double x, double y) {
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) ? x : y;
    return (x > y) == want_larger ? x : y;
  });
}

Column chosen(const Column& c, const Column& a, const Column& b) {
  Column out;
  out.is_float = a.is_float || b.is_float;
  out.is_unsigned = a.is_unsigned || b.is_unsigned;
  out.uniform = c.uniform && a.uniform && b.uniform;
  const int64_t n = !c.uniform ? c.size() : !a.uniform ? a.size() : b.size();
  for (int64_t k = 0; k < n; ++k) {
    const Column& from = c.real(k) != 0 ? a : b;
    if (out.is_float)
      out.f.push_back(from.real(k));
    else
      out.i.push_back(from.whole(k));
  }
  return out;
}

Column cast(Dtype dtype, const Column& a, bool round) {
  Column out;
  out.uniform = a.uniform;
  out.is_float = is_float(dtype);
  out.is_unsigned = is_integer(dtype) && !is_signed(dtype);
  for (int64_t k = 0; k < a.size(); ++k) {
    if (out.is_float)
      out.f.push_back(round ? round_to(dtype, a.real(k)) : a.real(k));
    else if (dtype == Dtype::boolean)
      out.i.push_back(a.real(k) != 0);
    else
      out.i.push_back(a.is_float ? truncate_to(dtype, a.f[static_cast<size_t>(k)])
                                 : wrap_to(dtype, a.i[static_cast<size_t>(k)]));
  }
  return out;
}

// Integers wrap in the dtype that their context wants; floats narrower than f64 are f32 between names, where steps round.
Column settled(Column column, Dtype dtype, bool round_steps) {
  if (column.is_float && is_float(dtype) && dtype != Dtype::f64 && round_steps)
    for (double& value : column.f) value = static_cast<double>(static_cast<float>(value));
  if (column.is_float || !is_integer(dtype)) return column;
  column.is_unsigned = !is_signed(dtype);
  for (int64_t& value : column.i) value = wrap_to(dtype, value);
  return column;
}

Column as_real(Column column) {
  if (column.is_float) return column;
  for (int64_t k = 0; k < column.size(); ++k) column.f.push_back(column.real(k));
  column.is_float = true;
  column.i.clear();
  return column;
}

// Expressions are evaluated for the dtype that their context wants (D2): positions and weak numbers take the dtype of
// what they meet, integers wrap in it.
class Evaluator {
 public:
  explicit Evaluator(const Leaves& leaves) : leaves_(leaves) {}

  Column value(const Expr& e, Dtype want) const {
    if (scalar_only(e)) return known_at_launch(e, want);
    return by_element(e, want);
  }

 private:
  Column by_element(const Expr& e, Dtype want) const {
    switch (e->op) {
      case Op::integer: return uniform_column({true, e->integer, 0});
      case Op::number: return uniform_column({false, 0, e->number});
      case Op::name: return leaves_.operand(e->name);
      case Op::neg: return settle(negated(value(e->args[0], want)), want);
      case Op::not_: return comparison(Op::eq, value(e->args[0], Dtype::boolean), uniform_column({true, 0, 0}));
      case Op::call: return function(e, want);
      default: break;
    }
    const bool compares = e->op >= Op::lt && e->op <= Op::or_;
    const Dtype of_args = compares ? context(e->args) : want;
    const Column a = value(e->args[0], of_args), b = value(e->args[1], of_args);
    return compares ? comparison(e->op, a, b) : settle(arithmetic(e->op, a, b), want);
  }

  Column settle(Column column, Dtype want) const { return settled(std::move(column), want, leaves_.round_steps); }

  static Column negated(const Column& a) {
    if (!a.is_float) return arithmetic(Op::sub, uniform_column({true, 0, 0}), a);
    return reals(a, a, [](double x, double) { return -x; });
  }

  // Computed once, in f64 or i64, and then of the dtype that it meets. Integers by the one definition of launch
  // scalars, which refuses a division by zero; floats by the C library's functions.
  Column known_at_launch(const Expr& e, Dtype want) const {
    const expr::ScalarEnv env = [&](const std::string& name) {
      const Column leaf = leaves_.operand(name);
      return leaf.is_float ? expr::ScalarValue{false, 0, leaf.f[0]} : expr::ScalarValue{true, leaf.i[0], 0};
    };
    if (e->op == Op::call && e->name == "select" && e->args.size() == 3) {  // only the chosen branch is computed
      const expr::ScalarValue condition = expr::evaluate_scalar(e->args[0], env);
      return known_at_launch(e->args[condition.as_f64() != 0 ? 1 : 2], want);
    }
    const expr::ScalarValue value = expr::evaluate_scalar(e, env);
    Column out = value.is_integer ? uniform_column(value) : by_element(e, Dtype::f64);
    if (!value.is_integer && !out.is_float) out = uniform_column({false, 0, value.number});  // 2 ^ -1
    const bool kept = is_float(want) || (want == Dtype::i64 && !out.is_float);
    return kept ? settle(out, want) : cast(want, out, false);
  }

  bool scalar_only(const Expr& e) const {
    bool only = true;
    expr::visit(e, [&](const expr::Node& node) {
      only = only && (node.op != Op::name || !leaves_.dtype(node.name));
      only = only && (node.op != Op::call || (node.name != "rand" && node.name != "index"));
    });
    return only;
  }

  // The dtype in which operands of a comparison or a cast are computed.
  Dtype context(const std::vector<Expr>& args) const {
    bool whole = true;
    for (const Expr& a : args) {
      if (const auto strong = expr::infer_dtype(a, leaves_.dtype, leaves_.weak)) return *strong;
      whole = whole && expr::weak_dtype(a, leaves_.weak) == Dtype::i64;
    }
    return whole ? Dtype::i64 : Dtype::f64;
  }

  Column function(const Expr& e, Dtype want) const {
    if (e->name == "rand") return random(e);
    if (e->name == "index") {
      const Column positions = leaves_.index(e->args.at(0)->integer);
      return is_float(want) ? as_real(positions) : settle(positions, want);
    }
    if (const auto dtype = parse_dtype(e->name); dtype && e->args.size() == 1)
      return cast(*dtype, value(e->args[0], context(e->args)), leaves_.round_steps);
    std::vector<Column> a;
    for (size_t i = 0; i < e->args.size(); ++i)
      a.push_back(value(e->args[i], i == 0 && e->name == "select" ? Dtype::boolean : want));
    return settle(known(e, a), want);
  }

  static Column known(const Expr& e, const std::vector<Column>& a) {
    if (e->name == "select" && a.size() == 3) return chosen(a[0], a[1], a[2]);
    if ((e->name == "min" || e->name == "max") && a.size() == 2) return larger(a[0], a[1], e->name == "max");
    if (e->name == "pow" && a.size() == 2) return arithmetic(Op::pow, a[0], a[1]);
    if (a.size() == 1 && !a[0].is_float && e->name == "abs")
      return a[0].is_unsigned ? a[0] : larger(a[0], negated(a[0]), true);
    if (a.size() == 1 && !a[0].is_float && e->name == "relu") return larger(a[0], uniform_column({true, 0, 0}), true);
    for (const RealFunction& function : real_functions)
      if (a.size() == 1 && e->name == function.name)
        return reals(a[0], a[0], [&](double x, double) { return function.f(x); });
    throw Error(ErrorKind::unsupported,
                fmt::format("the reference evaluator does not know {} of {} operands", e->name, a.size()),
                "functions are listed by `weft ops`");
  }

  Column random(const Expr& e) const {
    const Column seed = value(e->args.at(0), Dtype::i64), stream = value(e->args.at(1), Dtype::i64),
                 at = leaves_.positions();
    WEFT_CHECK(!seed.is_float && seed.uniform && !stream.is_float && stream.uniform,
               "rand takes integers that are known at launch");
    Column out;
    for (const int64_t position : at.i)
      out.f.push_back(expr::uniform(bits(seed.i[0]), static_cast<uint32_t>(stream.i[0]), bits(position)));
    return out;
  }

  const Leaves& leaves_;
};

}  // namespace

double Column::real(int64_t at) const {
  const auto k = static_cast<size_t>(uniform ? 0 : at);
  if (is_float) return f[k];
  return is_unsigned ? static_cast<double>(bits(i[k])) : static_cast<double>(i[k]);
}

int64_t Column::whole(int64_t at) const { return i[static_cast<size_t>(uniform ? 0 : at)]; }

Column uniform_column(const expr::ScalarValue& value) {
  Column out;
  out.uniform = true;
  out.is_float = !value.is_integer;
  if (value.is_integer)
    out.i = {value.integer};
  else
    out.f = {value.number};
  return out;
}

Column column_of(const Tensor& tensor) {
  Column out;
  out.is_float = is_float(tensor.dtype);
  out.is_unsigned = is_integer(tensor.dtype) && !is_signed(tensor.dtype);
  out.f = tensor.f;
  out.i = tensor.i;
  return out;
}

Tensor tensor_of(const Column& column, Dtype dtype, std::vector<int64_t> shape) {
  Tensor out;
  out.dtype = dtype;
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  out.shape = std::move(shape);
  for (int64_t k = 0; k < n; ++k) {
    if (is_float(dtype))
      out.f.push_back(column.real(k));
    else if (dtype == Dtype::boolean)
      out.i.push_back(column.real(k) != 0);
    else
      out.i.push_back(column.is_float ? truncate_to(dtype, column.real(k)) : wrap_to(dtype, column.whole(k)));
  }
  return out;
}

double round_to(Dtype dtype, double value) {
  if (dtype == Dtype::f64) return value;
  unsigned char memory[16] = {};
  store_f64(dtype, memory, value);
  return load_f64(dtype, memory);
}

int64_t wrap_to(Dtype dtype, int64_t value) {
  if (size_bytes(dtype) == 8) return value;
  unsigned char memory[16] = {};
  store_i64(dtype, memory, value);
  return load_i64(dtype, memory);
}

// Toward zero, NaN to 0, to the nearest end of -2^63 .. 2^63 - 1 (of u64: 2^64 - 1); then it wraps in its dtype.
int64_t truncate_to(Dtype dtype, double value) {
  if (dtype == Dtype::boolean) return value != 0;
  if (std::isnan(value)) return 0;
  const double whole = std::trunc(value);
  if (whole < -0x1p63) return wrap_to(dtype, INT64_MIN);
  if (dtype == Dtype::u64 && whole >= 0x1p63)
    return static_cast<int64_t>(whole >= 0x1p64 ? UINT64_MAX : static_cast<uint64_t>(whole));
  return wrap_to(dtype, whole >= 0x1p63 ? INT64_MAX : static_cast<int64_t>(whole));
}

Column evaluate_expression(const Expr& e, const Leaves& leaves) { return Evaluator(leaves).value(e, leaves.result); }

}  // namespace weft::ir
