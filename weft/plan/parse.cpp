// Plan text -> Plan: declarations. One function a statement; posts and lanes are in parse_step.cpp.
//
// Written by hand over views of the line: the grammar is one statement a line, and what a user of a plan needs is a
// caret under the word that is wrong and what to write instead.
#include <algorithm>
#include <array>

#include "weft/plan/reader.h"

namespace weft::plan {
namespace {

using scan::Piece;

std::vector<SourceLine> plan_lines(std::string_view text) {
  try {
    return source_lines(text);
  } catch (const Error& e) {  // tabs and odd indentation, which the shared reader calls F1
    throw Error(ErrorKind::plan, e.message(), e.remedy(), "V1");
  }
}

template <typename T, size_t N>
const T* find_word(const std::array<std::pair<std::string_view, T>, N>& words, Piece word) {
  for (const auto& [text, value] : words)
    if (text == word) return &value;
  return nullptr;
}

}  // namespace

Plan parse(std::string_view text) { return Reader(text).read(); }

Reader::Reader(std::string_view text) : lines_(plan_lines(text)) {
  if (lines_.empty()) throw Error(ErrorKind::plan, "the plan is empty", "a plan begins with: plan 1 NAME", "V1");
}

Plan Reader::read() {
  first_line();
  std::vector<size_t> posts, lanes;
  for (at_ = 1; at_ < lines_.size();) {
    line_ = &lines_[at_];
    Piece rest = line_->text;
    const Piece word = scan::take_word(rest);
    if (line_->indent)
      refuse(word, "an indented line outside a block",
             "lanes and kernels have blocks; other statements begin at the margin");
    if (word == "post") posts.push_back(at_);
    if (word == "lane") lanes.push_back(at_);
    if (word == "lane")
      at_ = lane_end(at_);
    else if (word == "kernel")
      kernel();
    else if (word == "post")
      ++at_;
    else
      declaration(), ++at_;
  }
  resolve_givens();
  if (!plan_.channels) plan_.channels = expr::integer(1);
  for (const size_t at : posts) {
    line_ = &lines_[at];
    post(Piece(line_->text).substr(4));
  }
  for (const size_t at : lanes) {  // names first: steps await lanes that come later
    line_ = &lines_[at];
    Piece name = trim(Piece(line_->text).substr(4));
    if (!name.empty() && name.back() == ':') name.remove_suffix(1);
    plan_.lanes.push_back({declare(name, lanes_, "lane"), {}});
  }
  for (size_t i = 0; i < lanes.size(); ++i) {
    at_ = lanes[i];
    lane_ = plan_.lanes[i].name;
    lane();
  }
  return std::move(plan_);
}

void Reader::first_line() {
  line_ = &lines_[0];
  Piece rest = line_->text;
  if (line_->indent || scan::take_word(rest) != "plan")
    refuse(line_->text, "a plan begins with its form and name", "plan 1 NAME");
  const Piece version = scan::take_word(rest), name = scan::take_word(rest);
  const std::optional<int64_t> number = parse_integer(version);
  if (!number)
    refuse(required(version, line_->text, "the version of the form"), fmt::format("`{}` is not a version", version),
           "plan 1 NAME");
  if (*number != plan_version)
    refuse(version, fmt::format("this plan is written in form {}, this program reads form {}", *number, plan_version),
           "print it anew with the program that wrote it");
  if (!scan::is_name(required(name, line_->text, "the plan's name")))
    refuse(name, fmt::format("`{}` is not a name", name), "letters, digits and _");
  plan_.name = Id(name);
  finished(rest);
}

void Reader::declaration() {
  using Rule = void (Reader::*)(Piece);
  static constexpr std::array<std::pair<std::string_view, Rule>, 8> rules = {{
      {"order", &Reader::order},
      {"round", &Reader::round},
      {"param", &Reader::param},
      {"table", &Reader::table},
      {"let", &Reader::let},
      {"space", &Reader::space},
      {"buffer", &Reader::buffer},
      {"link", &Reader::family},
  }};
  Piece rest = line_->text;
  const Piece word = scan::take_word(rest);
  rest = trim(rest);
  if (const Rule* rule = find_word(rules, word)) {
    (this->**rule)(required(rest, word, "what it declares"));
  } else if (word == "require") {
    plan_.requirements.push_back(expression(required(rest, word, "the condition"), Scope::instance));
  } else if (word == "channels") {
    once(word);
    plan_.channels = expression(required(rest, word, "the number of channels"), Scope::instance);
  } else {
    refuse(word, fmt::format("no statement `{}`", word),
           "plan order round param require table let channels space buffer link post kernel lane");
  }
}

void Reader::once(Piece statement) {
  if (!once_.insert(Id(statement)).second)
    refuse(statement, fmt::format("{} is stated twice", statement), "keep one of them");
}

void Reader::order(Piece rest) {
  static constexpr std::array<std::pair<std::string_view, Order>, 3> words = {
      {{"rank", Order::rank}, {"fixed", Order::fixed}, {"any", Order::any}}};
  once("order");
  const Order* found = find_word(words, rest);
  if (!found) refuse(rest, fmt::format("no order {}", rest), "rank, fixed or any");
  plan_.order = *found;
}

void Reader::round(Piece rest) {
  once("round");
  if (rest != "once" && rest != "hops") refuse(rest, fmt::format("no rounding {}", rest), "once or hops");
  plan_.round = rest == "once" ? Round::once : Round::hops;
}

void Reader::param(Piece rest) {
  const size_t equals = std::min(rest.find('='), rest.size());
  const Id name = declare_number(trim(rest.substr(0, equals)));
  const Piece value = required(trim(rest.substr(std::min(equals + 1, rest.size()))), rest, "the value");
  if (!parse_integer(value) && !parse_dtype(value) && !kernel::parse_reduction(value))
    refuse(value, fmt::format("`{}` is no value of a parameter", value), "an integer, a dtype or a reduction");
  plan_.params.push_back({name, Id(value)});
}

void Reader::table(Piece rest) {
  const size_t equals = rest.find('=');
  if (equals == Piece::npos) refuse(rest, "a table without rows", "table NAME[n] = 0 1 2 ; 2 1 0");
  TableText table;
  table_sizes(table, trim(rest.substr(0, equals)));
  for (const Piece row : scan::split_pieces(rest.substr(equals + 1), ";")) {
    std::vector<int64_t> values;
    for (Piece left = row; !trim(left).empty();)
      values.push_back(literal(scan::take_word(left), INT64_MIN + 1, "a number of a table"));
    if (values.empty() || (!table.rows.empty() && values.size() != table.rows[0].size()))
      refuse(row.empty() ? rest : row, "rows of different lengths", "every row has as many numbers");
    table.rows.push_back(std::move(values));
  }
  if (table.rows.empty()) refuse(rest, "a table without rows", "table NAME[n] = 0 1 2 ; 2 1 0");
  plan_.tables.push_back(std::move(table));
}

void Reader::table_sizes(TableText& table, Piece head) {
  const size_t bracket = std::min(head.find('['), head.size());
  table.name = declare_number(trim(head.substr(0, bracket)));
  for (head.remove_prefix(bracket); !head.empty();) {
    const size_t end = head[0] == '[' ? scan::closing(head, 0) : Piece::npos;
    if (end == Piece::npos || table.dims.size() == 2)
      refuse(head, "a table has one or two sizes", "table NAME[n] = ... or NAME[2][n] = ... ; ...");
    table.dims.push_back(expression(trim(head.substr(1, end - 1)), Scope::instance));
    head = trim(head.substr(end + 1));
  }
}

void Reader::let(Piece rest) {
  const size_t equals = rest.find('=');
  if (equals == Piece::npos) refuse(rest, "a let without a value", "let NAME = EXPRESSION");
  const Piece name = trim(rest.substr(0, equals));
  const Expr value = expression(required(trim(rest.substr(equals + 1)), name, "the value"));
  plan_.lets.push_back({declare_number(name), value});
}

void Reader::space(Piece rest) {
  Space space;
  const Piece name = scan::take_word(rest);
  space.name = declare(name, spaces_, "space");
  expect_word(rest, "parts", name);
  const Piece parts = scan::take_until(rest, {"even", "equal", "given", "fixed"});
  if (rest.empty())
    refuse(parts.empty() ? name : parts, "a space is even, equal, given or fixed", "space s parts n even");
  space.parts = expression(required(parts, name, "the number of parts"), Scope::instance);
  space_kind(space, rest);
  for (Piece word = scan::take_word(rest); !word.empty(); word = scan::take_word(rest)) {
    if (word == "of")
      derived(space, rest);
    else if (word == "grain")
      space.grain = literal(required(scan::take_word(rest), word, "the grain"), 1, "a grain in elements");
    else
      refuse(word, fmt::format("`{}` is not expected here", word),
             "space NAME parts E even | equal [like S] | given [by BUFFER] | fixed [COUNT] [of S by ...] [grain G]");
  }
  plan_.spaces.push_back(std::move(space));
}

void Reader::space_kind(Space& space, Piece& rest) {
  static constexpr std::array<std::pair<std::string_view, Space::Kind>, 4> kinds = {{{"even", Space::Kind::even},
                                                                                     {"equal", Space::Kind::equal},
                                                                                     {"given", Space::Kind::given},
                                                                                     {"fixed", Space::Kind::fixed}}};
  const Piece word = scan::take_word(rest);
  const auto kind = find_word(kinds, word);
  if (!kind) refuse(word, fmt::format("`{}` is no kind of space", word), "even, equal, given or fixed, then a space");
  space.kind = *kind;
  rest = trim(rest);
  if (space.kind == Space::Kind::fixed) {
    const Piece count = scan::take_until(rest, {"of", "grain"});
    const bool size = scan::is_name(count) && !known_number(Id(count), Scope::rank) && !find_param(count);
    if (!count.empty()) space.count = size ? expr::name(Id(count)) : expression(count, Scope::instance);
  } else if (space.kind == Space::Kind::equal && scan::find_top(rest, "like") == 0) {
    scan::take_word(rest);
    const Piece like = scan::take_word(rest);
    space.like = declared(required(like, word, "the space it is like"), find_space(plan_, Id(like)), "space");
  } else if (space.kind == Space::Kind::given && scan::find_top(rest, "by") == 0) {
    scan::take_word(rest);
    space.by_buffer = Id(required(scan::take_word(rest), word, "the buffer that gives the counts"));
    given_lines_[space.name] = at_;
  } else if (space.kind == Space::Kind::given && scan::find_top(rest, "from") == 0) {
    scan::take_word(rest);
    const Piece from = scan::take_word(rest);
    space.from =
        declared(required(from, word, "the space that its senders count"), find_space(plan_, Id(from)), "space");
  }
}

void Reader::derived(Space& space, Piece& rest) {
  static constexpr std::array<std::pair<std::string_view, Space::Derived>, 4> ways = {
      {{"segment", Space::Derived::segment},
       {"row", Space::Derived::row},
       {"column", Space::Derived::column},
       {"block", Space::Derived::block}}};
  const Piece of = scan::take_word(rest);
  space.of = declared(required(of, line_->text, "the space it is derived from"), find_space(plan_, Id(of)), "space");
  expect_word(rest, "by", of);
  const Piece word = scan::take_word(rest);
  const Space::Derived* way = find_word(ways, word);
  if (!way) refuse(word.empty() ? of : word, "a space is derived by segment, row, column or block", "of s by segment");
  space.derived = *way;
  if (space.derived != Space::Derived::block) return;
  const Piece block = scan::take_until(rest, {"grain"});
  space.block = expression(required(block, word, "the elements of a block"), Scope::instance);
}

void Reader::resolve_givens() {
  for (const auto& [name, at] : given_lines_) {
    line_ = &lines_[at];
    const Id& buffer = plan_.spaces[static_cast<size_t>(find_space(plan_, name))].by_buffer;
    if (find_buffer(plan_, buffer) < 0)
      fail_at(ErrorKind::plan, *line_, buffer, "V1", fmt::format("no buffer {}", buffer),
              "declare the buffer that gives the counts");
  }
}

void Reader::buffer(Piece rest) {
  static constexpr std::array<std::pair<std::string_view, Buffer::Role>, 5> roles = {
      {{"in", Buffer::Role::in},
       {"out", Buffer::Role::out},
       {"inout", Buffer::Role::inout},
       {"state", Buffer::Role::state},
       {"scratch", Buffer::Role::scratch}}};
  Buffer buffer;
  const Piece name = scan::take_word(rest);
  buffer.name = declare(name, buffers_, "buffer");
  const Piece space = required(scan::take_word(rest), name, "the buffer's space");
  buffer.space = declared(space, find_space(plan_, Id(space)), "space");
  buffer.dtype = dtype(required(scan::take_word(rest), name, "the buffer's dtype"));
  const Piece word = required(scan::take_word(rest), name, "the buffer's role");
  const Buffer::Role* role = find_word(roles, word);
  if (!role) refuse(word, fmt::format("no role {}", word), "in, out, inout, state or scratch");
  buffer.role = *role;
  for (Piece option = scan::take_word(rest); !option.empty(); option = scan::take_word(rest))
    buffer_option(buffer, option, rest);
  plan_.buffers.push_back(std::move(buffer));
}

void Reader::buffer_option(Buffer& buffer, Piece word, Piece& rest) {
  if (word == "mapped") {
    buffer.mapped = true;
  } else if (word == "repl") {
    buffer.repl = true;
    const Piece of = trim(scan::take_until(rest, {"mapped", "own", "depth", "alias"}));
    if (!of.empty()) buffer.repl_of = expression(of);
  } else if (word == "own") {
    buffer.own = expression(
        required(scan::take_until(rest, {"mapped", "repl", "depth", "alias"}), word, "the part that exists here"));
  } else if (word == "depth") {
    buffer.depth = static_cast<int>(
        literal(required(scan::take_word(rest), word, "the number of chunks it holds"), 1, "a number of chunks"));
  } else if (word == "alias") {
    const Piece other = required(scan::take_word(rest), word, "the buffer whose memory this is");
    buffer.alias = declared(other, find_buffer(plan_, Id(other)), "buffer");
  } else {
    refuse(word, fmt::format("`{}` is not expected here", word),
           "buffer NAME SPACE DTYPE ROLE [mapped] [own E] [repl [E]] [depth D] [alias B]");
  }
}

void Reader::family(Piece rest) {
  static constexpr std::array<std::pair<std::string_view, Protocol>, 3> protocols = {
      {{"simple", Protocol::simple}, {"ll", Protocol::ll}, {"ll128", Protocol::ll128}}};
  Family family;
  const Piece name = scan::take_word(rest);
  family.name = declare(name, families_, "link");
  const Piece word = required(scan::take_word(rest), name, "the protocol");
  const Protocol* protocol = find_word(protocols, word);
  if (!protocol) refuse(word, fmt::format("no protocol {}", word), "simple, ll or ll128");
  family.protocol = *protocol;
  expect_word(rest, "slots", name);
  family.slots =
      static_cast<int>(literal(required(scan::take_word(rest), name, "the number of slots"), 1, "a number of slots"));
  const Piece wire = scan::take_word(rest);
  if (!wire.empty() && wire != "wire")
    refuse(wire, fmt::format("`{}` is not expected here", wire), "link NAME PROTOCOL slots K [wire DTYPE]");
  if (!wire.empty()) family.wire = dtype(required(scan::take_word(rest), wire, "the dtype on the wire"));
  finished(rest);
  plan_.families.push_back(std::move(family));
}

void Reader::kernel() {
  const size_t header = at_;
  kernel::Kernel kernel = kernel::parse_header(*line_);
  for (++at_; at_ < lines_.size() && lines_[at_].indent > 0; ++at_)
    kernel.body.push_back(kernel::parse_assignment(lines_[at_]));
  line_ = &lines_[header];
  try {
    kernel::check(kernel);
  } catch (const Error& e) { fail_at(ErrorKind::plan, *line_, kernel.name, "V1", e.message(), e.remedy()); }
  if (kernel::parse_reduction(kernel.name))
    fail_at(ErrorKind::plan, *line_, kernel.name, "V1",
            fmt::format("{} is a reduction and cannot name a kernel", kernel.name), "rename it");
  if (!kernels_.insert(kernel.name).second)
    fail_at(ErrorKind::plan, *line_, kernel.name, "V1", fmt::format("kernel {} is declared twice", kernel.name),
            "rename one of them");
  plan_.kernels.push_back(std::move(kernel));
}

size_t Reader::lane_end(size_t at) const {
  for (++at; at < lines_.size() && lines_[at].indent > 0;) ++at;
  return at;
}

}  // namespace weft::plan
