// Rules D1, D2, D5 for one pointwise expression: which dtype it has, or why it has none.
//
// Tensors are strong, scalars and literals weak. Strong operands that meet must agree; a cast is strong whatever it
// casts; a comparison of elements is bool. rand and index differ per element and are weak all the same: they take the
// dtype of what they meet. What a weak value loses by that is refused here, so that evaluators need not agree about it:
// a fraction that meets an integer (weak.h decides what may have one), a number that meets a truth.
#include <cmath>

#include "weft/expr/body.h"
#include "weft/expr/functions.h"
#include "weft/expr/weak.h"

namespace weft::expr {
namespace {

using TypeOf = std::function<std::optional<Dtype>(const std::string&)>;
using Found = std::optional<Dtype>;

[[noreturn]] void refuse(const char* rule, const std::string& message, const std::string& remedy) {
  throw Error(ErrorKind::user, message, remedy, rule);
}

std::string text(const Expr& e) { return print(e, Syntax::program); }

bool is_positional(const Expr& e) {
  bool found = false;
  visit(e, [&](const Node& n) { found |= n.op == Op::call && (n.name == "rand" || n.name == "index"); });
  return found;
}

bool holds(Dtype dtype, int64_t value) {
  unsigned char memory[16];
  store_i64(dtype, memory, value);
  return load_i64(dtype, memory) == value && (is_signed(dtype) || value >= 0);
}

// A % per element outside of casts: it would be done in the dtype that the number meets.
bool has_remainder(const Expr& e) {
  if (!is_positional(e) || (e->op == Op::call && parse_dtype(e->name))) return false;
  if (e->op == Op::mod) return true;
  for (const Expr& a : e->args)
    if (has_remainder(a)) return true;
  return false;
}

bool holds(Dtype dtype, double value) {  // a whole number
  const bool no_sign = !is_signed(dtype);
  const int bits = 8 * static_cast<int>(size_bytes(dtype)) - (no_sign ? 0 : 1);
  return value < std::ldexp(1, bits) && value >= (no_sign ? 0 : -std::ldexp(1, bits));
}

// Something that is 0 or 1 by what it is, not by the value it happens to have.
bool is_truth(const Expr& e) {
  if (e->op == Op::not_ || (e->op >= Op::lt && e->op <= Op::or_)) return true;
  if (e->op == Op::integer) return e->integer == 0 || e->integer == 1;
  if (e->op != Op::call) return false;
  if (e->name == "select") return e->args.size() == 3 && is_truth(e->args[1]) && is_truth(e->args[2]);
  return e->name == "bool";
}

std::string known_functions() {
  std::vector<std::string> list;
  for (const Function& f : functions()) list.emplace_back(f.name);
  return fmt::format("there are {}, rand, index; casts are named after dtypes", join(list, ", "));
}

class Inference {
 public:
  Inference(const TypeOf& type_of, const WeakDtype& weak_of) : type_of_(type_of), weak_of_(weak_of) {}

  Found of(const Expr& e) const {
    switch (e->op) {
      case Op::integer:
      case Op::number: return std::nullopt;
      case Op::name: return type_of_(e->name);
      case Op::neg: return number(e, meet(e->args));
      case Op::not_:
      case Op::and_:
      case Op::or_: return logical(e);
      case Op::call: return call(e);
      case Op::bit_and:
      case Op::bit_or:
      case Op::bit_xor:
      case Op::shl:
      case Op::shr:
      case Op::index:
        refuse("F4", fmt::format("{}: an operation of plans", text_of_plan(e)),
               "programs have + - * / % ^, comparisons, and, or, not");
      default: return infix(e);
    }
  }

 private:
  static std::string text_of_plan(const Expr& e) { return print(e, Syntax::plan); }

  // D1: the dtype of operands that meet; weak ones must be able to take it.
  Found meet(const std::vector<Expr>& args) const {
    Found common;
    const Expr* first = nullptr;
    for (const Expr& a : args) {
      const Found t = of(a);
      if (t && common && *t != *common)
        refuse("D1",
               fmt::format("{} and {} meet: {} and {}", weft::name(*common), weft::name(*t), text(*first), text(a)),
               fmt::format("cast one: {}(...) or {}(...)", weft::name(*common), weft::name(*t)));
      if (t && !common) common = t, first = &a;
    }
    for (const Expr& a : args)
      if (common && !of(a)) fits(a, *common);
    return common;
  }

  bool is_whole(const Expr& weak) const {
    return weak_dtype(weak, [&](const std::string& n) { return weak_of_ ? weak_of_(n) : Dtype::i64; }) == Dtype::i64;
  }

  // D2: a weak operand that would lose what it says by becoming what it meets.
  void fits(const Expr& weak, Dtype dtype) const {
    if (dtype == Dtype::boolean && !is_truth(weak))
      refuse("D2", fmt::format("{} is a number and meets bool", text(weak)),
             fmt::format("compare it: {} != 0, or cast the tensor: i32(...)", text(weak)));
    const std::string_view name = weft::name(dtype);
    if (is_float(dtype) && has_remainder(weak))
      refuse("D2", fmt::format("{} meets {}, and % is for integers", text(weak), name),
             fmt::format("cast the number: {}({})", name, text(weak)));
    if (!is_integer(dtype)) return;
    if (weak->op == Op::integer && !holds(dtype, weak->integer))
      refuse("D2", fmt::format("{} does not fit {}", weak->integer, name),
             "cast the tensor to a wider integer: i64(...)");
    if (weak->op == Op::number && weak->number == std::floor(weak->number)) {
      if (!holds(dtype, weak->number))
        refuse("D2", fmt::format("{} does not fit {}", text(weak), name),
               "cast the tensor to a wider integer or a float: i64(...), f32(...)");
    } else if (!is_whole(weak)) {
      refuse("D2", fmt::format("{} meets {} and is not an integer for sure", text(weak), name),
             fmt::format("cast the tensor: f32(...), or the number: {}({})", name, text(weak)));
    }
  }

  Found number(const Expr& e, Found t) const {
    if (t == Dtype::boolean)
      refuse("D1", fmt::format("arithmetic on bool: {}", text(e)), "cast it: f32(...), or select(c, a, b)");
    return t;
  }

  Found infix(const Expr& e) const {
    const Found t = meet(e->args);
    if (e->op >= Op::lt && e->op <= Op::ne) return t || is_positional(e) ? Found(Dtype::boolean) : std::nullopt;
    if (e->op == Op::mod && t && is_float(*t))
      refuse("F4", fmt::format("{}: % is for integers, not for {}", text(e), weft::name(*t)), "cast: i64(...)");
    if (e->op == Op::mod && !t)
      for (const Expr& a : e->args)
        if (!is_whole(a))
          refuse("D2", fmt::format("{}: % is for integers, {} is not one for sure", text(e), text(a)),
                 fmt::format("cast: i64({})", text(a)));
    return number(e, t);
  }

  Found logical(const Expr& e) const {
    bool elements = is_positional(e);
    for (const Expr& a : e->args) {
      const Found t = of(a);
      if (t && *t != Dtype::boolean)
        refuse("D1", fmt::format("{} is {}, not bool", text(a), weft::name(*t)),
               fmt::format("compare it: {} != 0", text(a)));
      truth_by_element(a, t);
      elements |= t.has_value();
    }
    return elements ? Found(Dtype::boolean) : std::nullopt;
  }

  // A random number or an index is no truth: there is no operation on elements that would make one of it.
  static void truth_by_element(const Expr& a, Found t) {
    if (!t && is_positional(a))
      refuse("D1", fmt::format("{} is a number, not bool", text(a)), fmt::format("compare it: {} != 0", text(a)));
  }

  Found call(const Expr& e) const {
    if (e->name == "rand" || e->name == "index") return positional(e);
    if (const auto dtype = parse_dtype(e->name)) {
      arity(e, 1);
      if (*dtype == Dtype::f64x2) refuse("F4", "f64x2 exists in plans only", "use f64");
      of(e->args[0]);
      return dtype;
    }
    const Function* function = find_function(e->name);
    if (!function) refuse("F4", fmt::format("unknown function {}", e->name), known_functions());
    arity(e, static_cast<size_t>(function->arity));
    if (e->name == "select") return select(e);
    const Found t = meet(e->args);
    if (t && function->float_only && !is_float(*t))
      refuse("D1", fmt::format("{} is for floats: {} is {}", e->name, text(e->args[0]), weft::name(*t)),
             "cast: f32(...)");
    return number(e, t);
  }

  Found select(const Expr& e) const {
    const Found c = of(e->args[0]), t = meet({e->args[1], e->args[2]});
    if (c && *c != Dtype::boolean)
      refuse("D1", fmt::format("the condition {} is {}, not bool", text(e->args[0]), weft::name(*c)),
             fmt::format("compare it: {} != 0", text(e->args[0])));
    truth_by_element(e->args[0], c);
    return t;
  }

  // rand(seed, stream); index(d) in programs; index() and index(inner, extent) in bodies (body.h).
  Found positional(const Expr& e) const {
    if (e->name == "rand") arity(e, 2);
    if (e->name == "index" && e->args.size() > 2) arity(e, 1);
    for (const Expr& a : e->args)
      if (of(a) || is_positional(a))
        refuse("D2", fmt::format("{}: {} differs between elements", text(e), text(a)),
               "rand and index take numbers that are known at launch");
      else if (!is_whole(a))
        refuse("D2", fmt::format("{}: {} is not an integer for sure", text(e), text(a)),
               "rand takes integers, such as a scalar of dtype i64; index a dimension");
    return std::nullopt;
  }

  void arity(const Expr& e, size_t wanted) const {
    if (e->args.size() != wanted)
      refuse("F5",
             fmt::format("{} takes {} operand{}, not {}", e->name, wanted, wanted == 1 ? "" : "s", e->args.size()),
             fmt::format("give it {}; `weft ops` lists the functions", wanted));
  }

  const TypeOf& type_of_;
  const WeakDtype& weak_of_;  // may be empty
};

}  // namespace

std::optional<Dtype> infer_dtype(const Expr& e, const TypeOf& type_of, const WeakDtype& weak_of) {
  return Inference(type_of, weak_of).of(e);
}
std::optional<Dtype> infer_dtype(const Expr& e, const TypeOf& type_of) { return infer_dtype(e, type_of, {}); }

}  // namespace weft::expr
