// Rules D1, D2, D5 for one pointwise expression: which dtype it has, or why it has none.
//
// Tensors are strong, scalars and literals weak. Strong operands that meet must agree; a cast is strong whatever it
// casts; a comparison of elements is bool. rand and index differ per element and are weak all the same: they take the
// dtype of what they meet.
#include <cmath>

#include "weft/expr/body.h"
#include "weft/expr/functions.h"

namespace weft::expr {
namespace {

using TypeOf = std::function<std::optional<Dtype>(const std::string&)>;
using Found = std::optional<Dtype>;

[[noreturn]] void refuse(const char* rule, const std::string& message, const std::string& remedy = "") {
  throw Error(ErrorKind::user, message, remedy, rule);
}

std::string text(const Expr& e) { return print(e, Syntax::program); }

bool is_random(const Expr& e) {  // outside of casts
  if (e->op == Op::call && e->name == "rand") return true;
  if (e->op == Op::call && parse_dtype(e->name)) return false;
  for (const Expr& a : e->args)
    if (is_random(a)) return true;
  return false;
}

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

std::string known_functions() {
  std::vector<std::string> list;
  for (const Function& f : functions()) list.emplace_back(f.name);
  return fmt::format("there are {}, rand, index; casts are named after dtypes", join(list, ", "));
}

class Inference {
 public:
  explicit Inference(const TypeOf& type_of) : type_of_(type_of) {}

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
    if (common && is_integer(*common))
      for (const Expr& a : args) fits(a, *common);
    return common;
  }

  // D2: a weak operand that would lose what it says by becoming an integer of the tensor's dtype.
  void fits(const Expr& weak, Dtype dtype) const {
    const bool fraction = weak->op == Op::number && weak->number != std::floor(weak->number);
    if (fraction || (!of(weak) && is_random(weak)))
      refuse("D2", fmt::format("{} meets {} and is no integer", text(weak), weft::name(dtype)),
             "cast the tensor: f32(...)");
    if (weak->op == Op::integer && !holds(dtype, weak->integer))
      refuse("D2", fmt::format("{} does not fit {}", weak->integer, weft::name(dtype)),
             "cast the tensor to a wider integer: i64(...)");
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
    return number(e, t);
  }

  Found logical(const Expr& e) const {
    bool elements = is_positional(e);
    for (const Expr& a : e->args) {
      const Found t = of(a);
      if (t && *t != Dtype::boolean)
        refuse("D1", fmt::format("{} is {}, not bool", text(a), weft::name(*t)), "compare it: x != 0");
      elements |= t.has_value();
    }
    return elements ? Found(Dtype::boolean) : std::nullopt;
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
             "compare it: x != 0");
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
    return std::nullopt;
  }

  void arity(const Expr& e, size_t wanted) const {
    if (e->args.size() != wanted)
      refuse("F5",
             fmt::format("{} takes {} operand{}, not {}", e->name, wanted, wanted == 1 ? "" : "s", e->args.size()));
  }

  const TypeOf& type_of_;
};

}  // namespace

std::optional<Dtype> infer_dtype(const Expr& e, const TypeOf& type_of) { return Inference(type_of).of(e); }

}  // namespace weft::expr
