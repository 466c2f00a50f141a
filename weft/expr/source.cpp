// A body as C++ for one element: one line per assignment, the program's own names, the operations of the evaluator in
// the same order. Parentheses only where C++ needs them, so that a person can compare line and program.
#include <cmath>
#include <map>

#include "weft/expr/functions.h"
#include "weft/expr/typed.h"

namespace weft::expr {
namespace {

std::string c_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return "double";
    case Dtype::f32: return "float";
    case Dtype::boolean: return "bool";
    default: return fmt::format("{}int{}_t", is_signed(dtype) ? "" : "u", 8 * size_bytes(dtype));
  }
}

std::string decimal(double value, Dtype dtype) {
  std::string text = dtype == Dtype::f32 ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return dtype == Dtype::f32 ? text + "f" : text;
}

std::string integer_literal(Dtype dtype, const void* memory) {
  const int64_t v = load_i64(dtype, memory);
  if (dtype == Dtype::u64) return fmt::format("uint64_t{{{}u}}", static_cast<uint64_t>(v));
  if (v == INT64_MIN) return "INT64_MIN";
  return dtype == Dtype::i32 ? fmt::format("{}", v == INT32_MIN ? "INT32_MIN" : fmt::format("{}", v))
                             : fmt::format("{}{{{}}}", c_type(dtype), v);
}

// A constant in the dtype of its register, exactly.
std::string literal(const ScalarValue& v, Dtype dtype) {
  alignas(16) unsigned char memory[16];
  if (v.is_integer)
    store_i64(dtype, memory, v.integer);
  else
    store_f64(dtype, memory, v.number);
  if (dtype == Dtype::boolean) return load_i64(dtype, memory) ? "true" : "false";
  if (!is_float(dtype)) return integer_literal(dtype, memory);
  const double value = load_f64(dtype, memory);
  if (std::isfinite(value)) return decimal(value, dtype);
  const std::string special = std::isnan(value) ? "wm::not_a_number()"
                              : value < 0       ? "-wm::infinity()"
                                                : "wm::infinity()";
  return dtype == Dtype::f32 ? fmt::format("static_cast<float>({})", special) : special;
}

// Precedence in C++, loosest first; && and || stand in parentheses of their own for the compiler's warnings.
enum Level { level_or, level_and, level_equal, level_order, level_sum, level_product, level_unary, level_atom };
struct Piece {
  std::string text;
  Level level = level_atom;
};

struct Sign {
  Code code;
  const char* text;
  Level level;
  const char* integer;
};
constexpr Sign signs[] = {{Code::add, "+", level_sum, "add"},           {Code::sub, "-", level_sum, "sub"},
                          {Code::mul, "*", level_product, "mul"},       {Code::div, "/", level_product, "floor_div"},
                          {Code::mod, "%", level_product, "floor_mod"}, {Code::lt, "<", level_order, nullptr},
                          {Code::gt, ">", level_order, nullptr},        {Code::le, "<=", level_order, nullptr},
                          {Code::ge, ">=", level_order, nullptr},       {Code::eq, "==", level_equal, nullptr},
                          {Code::ne, "!=", level_equal, nullptr},       {Code::and_, "&&", level_and, nullptr},
                          {Code::or_, "||", level_or, nullptr}};

class Printer {
 public:
  explicit Printer(const TypedBody& body) : body_(body) {
    for (size_t i = 0; i < body.values.size(); ++i) names_.push_back(unique(body.values[i].name));
    int next = 0;
    for (const HoistedValue& h : body.hoisted)
      hoisted_.push_back(h.literal ? literal(h.constant, h.dtype) : fmt::format("h{}", next++));
  }

  BodySource print() const {
    BodySource out;
    for (size_t i = 0; i < body_.hoisted.size(); ++i)
      if (!body_.hoisted[i].literal)
        out.hoisted.push_back({hoisted_[i], body_.hoisted[i].value, body_.hoisted[i].dtype});
    for (size_t i = body_.inputs; i < body_.values.size(); ++i) {
      const auto& v = body_.values[i];
      out.lines.push_back(
          fmt::format("const {} {} = {};", c_type(compute_dtype(v.dtype)), names_[i], piece(*v.term).text));
    }
    for (int o : body_.outputs) out.outputs.push_back(names_[static_cast<size_t>(o)]);
    return out;
  }

 private:
  std::string unique(const std::string& name) {
    const std::string base = c_name(name);
    std::string text = base;
    for (int n = 2; used_.count(text); ++n) text = fmt::format("{}_{}", base, n);
    used_[text] = true;
    return text;
  }

  std::string within(const Term& t, int at_least) const {
    const Piece p = piece(t);
    return p.level >= at_least ? p.text : fmt::format("({})", p.text);
  }

  Piece call(const std::string& function, const Term& t) const {
    std::string args;
    for (const TermPtr& a : t.args) args += (args.empty() ? "" : ", ") + piece(*a).text;
    return {fmt::format("{}({})", function, args)};
  }

  Piece piece(const Term& t) const {
    switch (t.code) {
      case Code::hoisted: return leaf(hoisted_[static_cast<size_t>(t.index)]);
      case Code::value: return {names_[static_cast<size_t>(t.index)]};
      case Code::neg:
        return is_float(t.dtype) ? Piece{fmt::format("-{}", within(*t.args[0], level_atom)), level_unary}
                                 : call("wm::neg", t);
      case Code::not_: return {fmt::format("!{}", within(*t.args[0], level_atom)), level_unary};
      case Code::square: return square(t);
      case Code::convert: return {convert(t.args[0]->dtype, t.dtype, piece(*t.args[0]).text)};
      case Code::round:
        return {
            fmt::format("wm::round_{}({})", weft::name(t.narrow), widest(t.args[0]->dtype, piece(*t.args[0]).text))};
      case Code::uniform: return uniform(t);
      case Code::position: return {"static_cast<int64_t>(pos)"};
      case Code::position_of:
        return {fmt::format("wm::floor_mod(wm::floor_div(static_cast<int64_t>(pos), {}), {})", piece(*t.args[0]).text,
                            piece(*t.args[1]).text)};
      case Code::abs: return call(is_float(t.dtype) ? "wm::abs" : "wm::int_abs", t);
      case Code::pow: return call(is_float(t.dtype) ? "wm::pow" : "wm::int_pow", t);
      default: break;
    }
    if (const char* function = function_name(t.code)) return call(fmt::format("wm::{}", function), t);
    return infix(t);
  }

  static Piece leaf(const std::string& text) { return {text, text[0] == '-' ? level_unary : level_atom}; }

  Piece infix(const Term& t) const {
    for (const Sign& s : signs) {
      if (s.code != t.code) continue;
      if (s.integer && !is_float(t.dtype)) return call(fmt::format("wm::{}", s.integer), t);
      const bool logical = s.level <= level_and, compare = s.level == level_order || s.level == level_equal;
      const int left = logical ? level_unary : compare ? level_sum : s.level;
      return {fmt::format("{} {} {}", within(*t.args[0], left), s.text,
                          within(*t.args[1], logical   ? level_unary
                                             : compare ? level_sum
                                                       : s.level + 1)),
              s.level};
    }
    internal_failure(__FILE__, __LINE__, "an operation has a text", fmt::format("{}", static_cast<int>(t.code)));
  }

  // A name is multiplied by itself; a longer operand is computed once.
  Piece square(const Term& t) const {
    const Piece a = piece(*t.args[0]);
    const bool plain = t.args[0]->code == Code::value || t.args[0]->code == Code::hoisted;
    if (!plain) return {fmt::format("wm::square({})", a.text)};
    if (!is_float(t.dtype)) return {fmt::format("wm::mul({0}, {0})", a.text)};
    const std::string factor = within(*t.args[0], level_unary);
    return {fmt::format("{} * {}", factor, factor), level_product};
  }

  Piece uniform(const Term& t) const {
    return {fmt::format("wm::uniform(static_cast<uint64_t>({}), static_cast<uint32_t>({}), static_cast<uint64_t>(pos))",
                        piece(*t.args[0]).text, piece(*t.args[1]).text)};
  }

  static std::string convert(Dtype from, Dtype to, const std::string& text) {
    if (to == Dtype::boolean)
      return fmt::format("static_cast<bool>({} != 0)",
                         text.find(' ') == std::string::npos ? text : fmt::format("({})", text));
    if (is_float(from) && to == Dtype::u64) return fmt::format("wm::to_u64({})", text);
    if (is_float(from) && !is_float(to)) return fmt::format("static_cast<{}>(wm::to_i64({}))", c_type(to), text);
    return fmt::format("static_cast<{}>({})", c_type(to), text);
  }

  // The f32 that says what a narrower type needs to know.
  static std::string widest(Dtype from, const std::string& text) {
    if (from == Dtype::f32) return text;
    if (from == Dtype::f64 || from == Dtype::u64) return fmt::format("wm::sticky({})", text);
    return fmt::format("wm::sticky(static_cast<int64_t>({}))", text);
  }

  const TypedBody& body_;
  std::map<std::string, bool> used_;
  std::vector<std::string> names_, hoisted_;
};

int64_t flops_of(const Term& t) {
  int64_t total = 0;
  for (const TermPtr& a : t.args) total += flops_of(*a);
  switch (t.code) {
    case Code::hoisted:
    case Code::value:
    case Code::convert:
    case Code::round:
    case Code::position: return total;
    case Code::uniform: return total + 60;  // ten rounds of six integer operations
    case Code::position_of: return total + 2;
    default: break;
  }
  const char* function = function_name(t.code);
  return total + (function ? find_function(function)->flops : 1);
}

}  // namespace

std::string c_name(const std::string& name) {
  std::string out = name;
  for (char& c : out)
    if (c == '.') c = '_';
  return out;
}

BodySource source(const Body& body) {
  const TypedBody typed = type_body(body);
  return Printer(typed).print();
}

int64_t flops(const Body& body) {
  const TypedBody typed = type_body(body);
  int64_t total = 0;
  for (const auto& v : typed.values)
    if (v.term) total += flops_of(*v.term);
  return total;
}

}  // namespace weft::expr
