// Typing a body: each expression is walked once with the register dtype its context wants.
#include "weft/expr/typed.h"

#include <map>

#include "weft/expr/functions.h"
#include "weft/expr/weak.h"

namespace weft::expr {
namespace {

using Found = std::optional<Dtype>;

constexpr std::pair<Code, const char*> function_codes[] = {
    {Code::abs, "abs"},       {Code::min, "min"},   {Code::max, "max"},         {Code::relu, "relu"},
    {Code::select, "select"}, {Code::sqrt, "sqrt"}, {Code::rsqrt, "rsqrt"},     {Code::exp, "exp"},
    {Code::log, "log"},       {Code::tanh, "tanh"}, {Code::sigmoid, "sigmoid"}, {Code::silu, "silu"},
    {Code::gelu, "gelu"},     {Code::pow, "pow"}};

Code code_of(Op op) {
  switch (op) {
    case Op::add: return Code::add;
    case Op::sub: return Code::sub;
    case Op::mul: return Code::mul;
    case Op::div: return Code::div;
    case Op::mod: return Code::mod;
    case Op::pow: return Code::pow;
    case Op::neg: return Code::neg;
    case Op::lt: return Code::lt;
    case Op::gt: return Code::gt;
    case Op::le: return Code::le;
    case Op::ge: return Code::ge;
    case Op::eq: return Code::eq;
    case Op::ne: return Code::ne;
    case Op::and_: return Code::and_;
    case Op::or_: return Code::or_;
    case Op::not_: return Code::not_;
    default:
      internal_failure(__FILE__, __LINE__, "operator of programs", fmt::format("operator {}", static_cast<int>(op)));
  }
}

TermPtr make(Code code, Dtype dtype, std::vector<TermPtr> args = {}, int index = 0, Dtype narrow = Dtype::f32) {
  return std::make_shared<const Term>(Term{code, dtype, index, narrow, std::move(args)});
}

bool is_narrow(Dtype d) { return compute_dtype(d) != d; }

class Typing {
 public:
  explicit Typing(const Body& body) {
    for (const Value& s : body.scalars) scalars_[s.name] = s.dtype;
    for (const Value& i : body.inputs) define(i.name, i.dtype, nullptr);
    out_.inputs = body.inputs.size();
    for (const Assignment& a : body.assignments) assign(a);
    for (const std::string& name : body.outputs) {
      WEFT_CHECK(values_.count(name), "output {} of a body is not defined", name);
      out_.outputs.push_back(values_.at(name));
    }
  }

  TypedBody take() { return std::move(out_); }

 private:
  void define(const std::string& name, Dtype dtype, TermPtr term) {
    values_[name] = static_cast<int>(out_.values.size());
    out_.values.push_back({name, dtype, std::move(term)});
  }

  void assign(const Assignment& a) {
    const Found found = strong(a.value);
    if (found && *found != a.dtype)
      throw Error(ErrorKind::user,
                  fmt::format("{} is {}, what it is given is {}", a.name, weft::name(a.dtype), weft::name(*found)),
                  fmt::format("cast it: {}(...)", weft::name(a.dtype)), "D1");
    TermPtr term = lower(a.value, compute_dtype(a.dtype));
    if (is_narrow(a.dtype) && !is_rounded(*term, a.dtype)) term = make(Code::round, Dtype::f32, {term}, 0, a.dtype);
    define(a.name, a.dtype, term);
  }

  bool is_rounded(const Term& t, Dtype narrow) const {
    if (t.code == Code::round) return t.narrow == narrow;
    return t.code == Code::value && out_.values[static_cast<size_t>(t.index)].dtype == narrow;
  }

  Found type_of(const std::string& name) const {
    if (const auto it = values_.find(name); it != values_.end())
      return out_.values[static_cast<size_t>(it->second)].dtype;
    if (!scalars_.count(name))
      throw Error(ErrorKind::user, fmt::format("{} is not defined", name), "declare it before its use", "F3");
    return std::nullopt;
  }
  Found strong(const Expr& e) const {
    return infer_dtype(e, [&](const std::string& n) { return type_of(n); });
  }

  bool scalar_only(const Expr& e) const {
    bool only = true;
    visit(e, [&](const Node& n) {
      only &= n.op != Op::name || !values_.count(n.name);
      only &= n.op != Op::call || (n.name != "rand" && n.name != "index");
    });
    return only;
  }

  // A weak expression by itself, such as `index() < 5` or `rand(s, 1) < p`: i64 while all is integer, else f64,
  // in which a random number and the bound it is compared with are exact.
  Dtype weak_dtype(const Expr& e) const {
    return expr::weak_dtype(e, [&](const std::string& name) {
      const auto s = scalars_.find(name);
      return s != scalars_.end() && is_integer(s->second) ? Dtype::i64 : Dtype::f64;
    });
  }
  Dtype context(const std::vector<Expr>& args) const {
    Dtype weak = Dtype::i64;
    for (const Expr& a : args) {
      if (const Found t = strong(a)) return compute_dtype(*t);
      if (weak_dtype(a) == Dtype::f64) weak = Dtype::f64;
    }
    return weak;
  }

  TermPtr hoist(const Expr& e, Dtype dtype) {
    for (size_t i = 0; i < out_.hoisted.size(); ++i)
      if (out_.hoisted[i].dtype == dtype && equal(out_.hoisted[i].value, e))
        return make(Code::hoisted, dtype, {}, static_cast<int>(i));
    HoistedValue h{e, dtype, names(e).empty(), {}};
    if (h.literal) h.constant = evaluate_scalar(e, [](const std::string&) { return ScalarValue{}; });
    out_.hoisted.push_back(std::move(h));
    return make(Code::hoisted, dtype, {}, static_cast<int>(out_.hoisted.size()) - 1);
  }

  TermPtr convert(TermPtr t, Dtype to) const { return t->dtype == to ? t : make(Code::convert, to, {t}); }

  // The value of `e` in a register of dtype `wanted`.
  TermPtr lower(const Expr& e, Dtype wanted) {
    if (scalar_only(e)) return hoist(e, wanted);
    switch (e->op) {
      case Op::name: {
        const int at = values_.at(e->name);
        return exact(make(Code::value, compute_dtype(out_.values[static_cast<size_t>(at)].dtype), {}, at), wanted);
      }
      case Op::lt:
      case Op::gt:
      case Op::le:
      case Op::ge:
      case Op::eq:
      case Op::ne: return exact(make(code_of(e->op), Dtype::boolean, all(e->args, context(e->args))), wanted);
      case Op::and_:
      case Op::or_:
      case Op::not_: return exact(make(code_of(e->op), Dtype::boolean, all(e->args, Dtype::boolean)), wanted);
      case Op::call: return call(e, wanted);
      case Op::pow:
        if (e->args[1]->op == Op::integer && e->args[1]->integer == 2)
          return make(Code::square, wanted, {lower(e->args[0], wanted)});
        [[fallthrough]];
      default: return make(code_of(e->op), wanted, all(e->args, wanted));
    }
  }

  static TermPtr exact(TermPtr t, Dtype wanted) {
    WEFT_CHECK(t->dtype == wanted, "a {} register where {} is wanted", weft::name(t->dtype), weft::name(wanted));
    return t;
  }

  std::vector<TermPtr> all(const std::vector<Expr>& args, Dtype dtype) {
    std::vector<TermPtr> out;
    for (const Expr& a : args) out.push_back(lower(a, dtype));
    return out;
  }

  TermPtr call(const Expr& e, Dtype wanted) {
    if (e->name == "rand") return convert(make(Code::uniform, Dtype::f32, all(e->args, Dtype::i64)), wanted);
    if (e->name == "index") return index(e, wanted);
    if (const auto dtype = parse_dtype(e->name)) return exact(cast(e->args[0], *dtype), wanted);
    if (e->name == "select")
      return make(Code::select, wanted,
                  {lower(e->args[0], Dtype::boolean), lower(e->args[1], wanted), lower(e->args[2], wanted)});
    for (const auto& [code, text] : function_codes)
      if (e->name == text) return make(code, wanted, all(e->args, wanted));
    internal_failure(__FILE__, __LINE__, "a function of the table has a code", e->name);
  }

  // Lowering lets index(0) through for values of one dimension only, where it is the position.
  TermPtr index(const Expr& e, Dtype wanted) {
    const bool flat = e->args.empty() || (e->args.size() == 1 && e->args[0]->op == Op::integer &&
                                          (e->args[0]->integer == 0 || e->args[0]->integer == -1));
    if (e->args.size() == 1 && !flat)
      throw Error(
          ErrorKind::unsupported, fmt::format("{}: a body knows positions, not shapes", print(e, Syntax::program)),
          "write index(inner, extent): the sizes behind and of dimension d; or hand the indices in as a tensor");
    if (flat) return convert(make(Code::position, Dtype::i64), wanted);
    return convert(make(Code::position_of, Dtype::i64, all(e->args, Dtype::i64)), wanted);
  }

  TermPtr cast(const Expr& e, Dtype to) {
    const TermPtr inner = lower(e, context({e}));
    if (!is_narrow(to)) return convert(inner, to);
    return is_rounded(*inner, to) ? inner : make(Code::round, Dtype::f32, {inner}, 0, to);
  }

  TypedBody out_;
  std::map<std::string, int> values_;
  std::map<std::string, Dtype> scalars_;
};

}  // namespace

TypedBody type_body(const Body& body) { return Typing(body).take(); }

const char* function_name(Code code) {
  for (const auto& [c, text] : function_codes)
    if (c == code) return text;
  return nullptr;
}

Dtype output_dtype(const Body& body, size_t output) {
  WEFT_CHECK(output < body.outputs.size(), "output {} of {}", output, body.outputs.size());
  const std::string& name = body.outputs[output];
  for (size_t i = body.assignments.size(); i-- > 0;)
    if (body.assignments[i].name == name) return body.assignments[i].dtype;
  for (const Value& input : body.inputs)
    if (input.name == name) return input.dtype;
  internal_failure(__FILE__, __LINE__, "an output is defined", name);
}

}  // namespace weft::expr
