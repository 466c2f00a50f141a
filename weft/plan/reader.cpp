// Names and numbers in plan text: what may be named where, and how errors point at it.
#include "weft/plan/reader.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace weft::plan {
namespace {

struct Function {
  std::string_view name;
  size_t least, most;
};
constexpr std::array<Function, 6> functions = {{
    {"sel", 3, 3},
    {"min", 1, 99},
    {"max", 1, 99},
    {"abs", 1, 1},
    {"log2c", 1, 1},
    {"p2floor", 1, 1},
}};

bool taken(std::string_view name) {
  static constexpr std::array<std::string_view, 9> words = {"r", "n", "c", "none", "and", "or", "not", "inf", "nan"};
  const auto is = [&](const Function& f) { return f.name == name; };
  return std::find(words.begin(), words.end(), name) != words.end() ||
         std::any_of(functions.begin(), functions.end(), is);
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size()) return {};
  return value;
}

int Reader::column(Piece at) const {
  const char* begin = line_->text.data();
  const bool inside = at.data() >= begin && at.data() <= begin + line_->text.size();
  return inside ? static_cast<int>(at.data() - begin) : 0;
}

void Reader::refuse(Piece at, std::string_view message, std::string_view remedy) const {
  fail_at_column(ErrorKind::plan, *line_, column(at), static_cast<int>(at.size()), "V1", message, remedy);
}

Reader::Piece Reader::required(Piece text, Piece near, std::string_view what) const {
  if (text.empty()) refuse(near, fmt::format("{} is missing", what));
  return text;
}

void Reader::finished(Piece rest) const {
  rest = trim(rest);
  if (!rest.empty()) refuse(rest, fmt::format("`{}` is not expected here", rest), "the statement ends before it");
}

void Reader::expect_word(Piece& rest, Piece word, Piece near) const {
  const Piece found = scan::take_word(rest);
  if (found != word) refuse(found.empty() ? near : found, fmt::format("`{}` is expected here", word));
}

int64_t Reader::literal(Piece text, int64_t least, std::string_view what) const {
  const std::optional<int64_t> value = parse_integer(text);
  if (!value || *value < least)
    refuse(text, fmt::format("`{}` is not {}", text, what), fmt::format("an integer of at least {}", least));
  return *value;
}

const Param* Reader::find_param(Piece name) const {
  for (const Param& p : plan_.params)
    if (p.name == name) return &p;
  return nullptr;
}

bool Reader::known_number(const std::string& name, Scope scope) const {
  if (name == "n" || name == "none") return true;
  if (const Param* p = find_param(name)) return parse_integer(p->value).has_value();
  if (scope == Scope::instance) return false;
  const auto is_let = [&](const Let& let) { return let.name == name; };
  return name == "r" || name == "c" || std::count(variables_.begin(), variables_.end(), name) ||
         std::any_of(plan_.lets.begin(), plan_.lets.end(), is_let);
}

Expr Reader::expression(Piece text, Scope scope) {
  const Expr e = expr::parse(text, expr::Syntax::plan, *line_, column(text));
  check_names(e, text, scope);
  return e;
}

// Points at the name inside the expression, not at an equal word before it.
void Reader::refuse_name(Piece text, const std::string& name, std::string_view message, std::string_view remedy) const {
  for (size_t at = text.find(name); at != Piece::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool whole = (at == 0 || !scan::in_word(text[at - 1])) && (end == text.size() || !scan::in_word(text[end]));
    if (whole) refuse(text.substr(at, name.size()), message, remedy);
  }
  refuse(text, message, remedy);
}

void Reader::check_names(const Expr& e, Piece text, Scope scope) const {
  expr::visit(e, [&](const expr::Node& node) {
    if (node.op == expr::Op::call) check_call(node, text);
    if (node.op == expr::Op::number) refuse(text, "a plan's numbers are integers", "write an integer");
    const auto is_table = [&](const TableText& t) { return t.name == node.name; };
    if (node.op == expr::Op::index && std::none_of(plan_.tables.begin(), plan_.tables.end(), is_table))
      refuse_name(text, node.name, fmt::format("no table {}", node.name), "declare it above: table NAME[n] = 0 1 ...");
    if (node.op != expr::Op::name || known_number(node.name, scope)) return;
    const Param* p = find_param(node.name);
    const std::string why =
        p ? fmt::format("{} is {}, not an integer", node.name, p->value)
          : fmt::format("no number {}{}", node.name, scope == Scope::instance ? " that is the same on all ranks" : "");
    refuse_name(text, node.name, why,
                scope == Scope::instance ? "here only n and parameters can be named"
                                         : "declare it above with let, param or for; r, n, c are known");
  });
}

void Reader::check_call(const expr::Node& node, Piece text) const {
  for (const Function& f : functions) {
    if (f.name != node.name) continue;
    if (node.args.size() >= f.least && node.args.size() <= f.most) return;
    refuse(text, fmt::format("{} takes {} arguments, not {}", node.name, f.least, node.args.size()));
  }
  refuse_name(text, node.name, fmt::format("no function {}", node.name), "plans have sel min max abs log2c p2floor");
}

Id Reader::declare(Piece name, std::set<Id>& among, std::string_view what) {
  if (!scan::is_name(name))
    refuse(name, fmt::format("`{}` is not a name", name), "letters, digits and _, no digit first");
  if (taken(name))
    refuse(name, fmt::format("{} cannot name a {}", name, what), "r, n, c, none and the functions have their meaning");
  if (!among.insert(Id(name)).second)
    refuse(name, fmt::format("{} {} is declared twice", what, name), "rename one of them");
  return Id(name);
}

Id Reader::declare_number(Piece name) {
  if (std::count(variables_.begin(), variables_.end(), name))
    refuse(name, fmt::format("{} is already a variable around this place", name), "rename it");
  return declare(name, numbers_, "number");
}

Id Reader::declared(Piece name, int index, std::string_view what) const {
  if (index < 0) refuse(name, fmt::format("no {} {}", what, name), fmt::format("declare the {} first", what));
  return Id(name);
}

std::string Reader::dtype(Piece text) const {
  const Param* p = find_param(text);
  if (!parse_dtype(p ? Piece(p->value) : text))
    refuse(text,
           p ? fmt::format("parameter {} is {}, which is no dtype", text, p->value) : fmt::format("no dtype {}", text),
           "f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u64 u32 u16 u8 bool f64x2, or a parameter that names one");
  return std::string(text);
}

}  // namespace weft::plan
