// Reading the text form: one line at a time, each checked against what stands above it, so that the first wrong line is
// the one the error shows. Expressions are read by expr; operations inside them become statements in statements.cpp.
#include <charconv>

#include "weft/ir/layout_rule.h"
#include "weft/ir/names.h"
#include "weft/ir/statements.h"

namespace weft::ir {
namespace {

using Words = std::vector<std::string>;

[[noreturn]] void refuse(const SourceLine& line, std::string_view token, std::string_view rule,
                         std::string_view message, std::string_view remedy = "") {
  fail_at(ErrorKind::user, line, token, rule, message, remedy);
}

bool plain_name(std::string_view text) { return is_identifier(text) && text.find('.') == std::string_view::npos; }

std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) return {};
  return value;
}

expr::Expr expression(const SourceLine& line, size_t column, size_t end = std::string::npos) {
  const std::string_view text =
      std::string_view(line.text).substr(column, end == std::string::npos ? end : end - column);
  return expr::parse(text, expr::Syntax::program, line, static_cast<int>(column));
}

// `x by P` as an argument that expr can read, at the same columns: `x,by.P` (statements.h).
bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
std::string with_by_arguments(std::string_view text) {
  std::string out(text);
  for (size_t at = out.find(" by "); at != std::string::npos; at = out.find(" by ", at + 4)) {
    size_t before = at, after = at + 4;
    while (before > 0 && out[before - 1] == ' ') --before;
    while (after < out.size() && out[after] == ' ') ++after;
    const bool operand_before = before > 0 && (in_name(out[before - 1]) || out[before - 1] == ')');
    if (!operand_before || after >= out.size() ||
        !(std::isalpha(static_cast<unsigned char>(out[after])) || out[after] == '_'))
      continue;
    std::string by = std::string(after - before - 4, ' ');
    by.insert(by.begin(), ',');
    out.replace(before, after - before, by + "by.");
  }
  return out;
}

class Parser {
 public:
  Program whole(std::string_view text) {
    const std::vector<SourceLine> lines = source_lines(text);
    if (lines.empty()) throw Error(ErrorKind::user, "an empty program", "it begins with `program 1 NAME`", "F1");
    first_line(lines[0]);
    for (size_t i = 1; i < lines.size(); ++i) add_line(lines[i]);
    check_blocks_closed();
    for (const auto& [counts, line] : counts_)
      if (!find_tensor(program_, counts))
        refuse(line, counts, "F3", fmt::format("the counts {} are not declared", counts),
               fmt::format("add: in {} i64[R] local", counts));
    return std::move(program_);
  }

 private:
  void first_line(const SourceLine& line) {
    const Words w = words(line.text);
    if (w[0] != "program" || w.size() != 3 || !is_identifier(w[2]))
      refuse(line, w[0], "F1", "a program begins with `program 1 NAME`", "add that line");
    if (w[1] != std::to_string(program_version))
      refuse(line, w[1], "F0", fmt::format("program form {}; this build reads {}", w[1], program_version),
             "use the build that wrote it, or write it in this form");
    program_.name = w[2];
  }

  void add_line(const SourceLine& line) {
    close_blocks(line);
    const Words w = words(line.text);
    const bool statement = w.size() > 1 && w[1] == "=";
    if (statement) return add_statement(line);
    if (line.indent > 0 && w[0] != "fuse")
      refuse(line, w[0], "F1", fmt::format("`{}` inside a block", w[0]),
             "blocks hold statements; an overlap may hold fuse blocks");
    if ((w[0] == "fuse" || w[0] == "overlap") && line.text.back() == ':') return open_block(line, w);
    if (w[0] == "in" || w[0] == "state") return add_tensor(line, w);
    if (w[0] == "update") return add_update(line, w);
    if (w[0] == "out") return add_out(line, w);
    if (!add_header(line, w)) unreadable(line, w);
  }

  [[noreturn]] void unreadable(const SourceLine& line, const Words& w) const {
    for (const char* word : {"for", "if", "while", "else", "def", "return"})
      if (w[0] == word)
        refuse(line, w[0], "F1", fmt::format("`{}`: control flow is not in the language", word),
               "unroll it in the builder, or select(condition, a, b)");
    if (w[0] == "program") refuse(line, w[0], "F1", "a second program in one text", "one program a file");
    refuse(line, w[0], "F1", "cannot read this line",
           "NAME = EXPRESSION, or in state update out, or a header line: dim require tensors ragged group scalar let");
  }

  // ---- header
  bool add_header(const SourceLine& line, const Words& w) {
    if (w[0] == "dim")
      add_dim(line, w);
    else if (w[0] == "require")
      add_require(line);
    else if (w[0] == "tensors")
      add_tensors(line, w);
    else if (w[0] == "ragged")
      add_ragged(line, w);
    else if (w[0] == "group")
      add_group(line, w);
    else if (w[0] == "scalar")
      add_scalar(line, w);
    else if (w[0] == "let")
      add_let(line, w);
    else
      return false;
    return true;
  }

  void need(bool holds, const SourceLine& line, const Words& w, std::string_view form) const {
    if (!holds) refuse(line, w[0], "F1", fmt::format("cannot read this `{}` line", w[0]), form);
  }

  void add_dim(const SourceLine& line, const Words& w) {
    need(w.size() > 1, line, w, "dim B S H");
    DimDecl decl;
    for (size_t i = 1; i < w.size(); ++i) {
      need(plain_name(w[i]), line, w, "dim B S H");
      statements_.declare(w[i], true, line);
      decl.names.push_back(w[i]);
    }
    program_.header.emplace_back(std::move(decl));
  }

  void add_require(const SourceLine& line) {
    RequireDecl decl{expression(line, std::string_view("require").size())};
    check_requirement(decl.condition, line);
    program_.header.emplace_back(std::move(decl));
  }

  // `ranks` and `ranks(group)` are the only calls a requirement needs beside the scalar functions.
  void check_requirement(const expr::Expr& e, const SourceLine& line) const {
    if (e->op == expr::Op::call && e->name == "ranks") {
      const bool group = e->args.size() == 1 && e->args[0]->op == expr::Op::name;
      if (!group) refuse(line, "ranks", "F5", "ranks of something other than a group", "ranks, ranks(GROUP)");
      if (!find_group(e->args[0]->name))
        refuse(line, e->args[0]->name, "F3", fmt::format("group {} is not declared", e->args[0]->name),
               fmt::format("add: group {} = world.split(k)", e->args[0]->name));
      return;
    }
    if (e->op == expr::Op::name) statements_.check_weak(e, line);
    for (const expr::Expr& arg : e->args) check_requirement(arg, line);
  }

  void add_tensors(const SourceLine& line, const Words& w) {
    need(w.size() == 2 && plain_name(w[1]), line, w, "tensors P");
    statements_.declare(w[1], true, line);
    program_.header.emplace_back(TensorsDecl{w[1]});
  }

  void add_ragged(const SourceLine& line, const Words& w) {
    need(w.size() == 4 && plain_name(w[1]) && w[2] == "by" && plain_name(w[3]), line, w, "ragged T by c");
    statements_.declare(w[1], true, line);
    counts_.emplace_back(w[3], line);
    program_.header.emplace_back(RaggedDecl{w[1], w[3]});
  }

  void add_group(const SourceLine& line, const Words& w) {
    constexpr std::string_view form = "group stage = world.split(4), or group col = stage.across";
    need(w.size() >= 4 && plain_name(w[1]) && w[2] == "=", line, w, form);
    const size_t at = line.text.find('=') + 1;
    const expr::Expr e = expression(line, at);
    GroupDecl decl;
    decl.name = w[1];
    if (e->op == expr::Op::call && e->name == "world.split" && e->args.size() == 1) {
      decl.of = "world";
      decl.parts = e->args[0];
      statements_.check_weak(decl.parts, line);
    } else {
      need(e->op == expr::Op::name && e->name.ends_with(".across"), line, w, form);
      decl.of = e->name.substr(0, e->name.size() - std::string_view(".across").size());
      decl.across = true;
      const GroupDecl* of = find_group(decl.of);
      if (!of)
        refuse(line, e->name, "F3", fmt::format("group {} is not declared", decl.of),
               fmt::format("add: group {} = world.split(k)", decl.of));
      need(!of->across, line, w, "across is taken of a split: group stage = world.split(4)");
    }
    statements_.declare(w[1], false, line);
    program_.header.emplace_back(std::move(decl));
  }

  void add_scalar(const SourceLine& line, const Words& w) {
    need(w.size() == 3 && plain_name(w[1]), line, w, "scalar lr f64");
    const std::optional<Dtype> dtype = parse_dtype(w[2]);
    if (dtype != Dtype::f64 && dtype != Dtype::i64)
      refuse(line, w[2], "D0", fmt::format("scalar {} of dtype {}", w[1], w[2]),
             "scalars are f64 or i64; they take the dtype of the tensor they meet");
    statements_.declare(w[1], true, line);
    program_.header.emplace_back(ScalarDecl{w[1], *dtype});
  }

  void add_let(const SourceLine& line, const Words& w) {
    need(w.size() >= 4 && plain_name(w[1]) && w[2] == "=", line, w, "let b1 = 0.9");
    LetDecl decl{w[1], expression(line, line.text.find('=') + 1)};
    statements_.check_weak(decl.value, line);
    statements_.declare(w[1], true, line);
    program_.header.emplace_back(std::move(decl));
  }

  const GroupDecl* find_group(std::string_view name) const {
    for (const HeaderDecl& decl : program_.header)
      if (const auto* group = std::get_if<GroupDecl>(&decl); group && group->name == name) return group;
    return nullptr;
  }

  // ---- in and state: NAME DTYPE[SIZES] LAYOUT [on GROUP]
  void add_tensor(const SourceLine& line, const Words& w) {
    constexpr std::string_view form = "in x f16[B, S] sliced(0) on stage";
    const std::string_view text = line.text;
    const size_t open = text.find('['), close = text.find(']');
    need(
        w.size() >= 4 && is_identifier(w[1]) && open != std::string::npos && close != std::string::npos && open < close,
        line, w, form);
    const Words head = words(text.substr(0, open)), tail = words(text.substr(close + 1));
    need(head.size() == 3 && (tail.size() == 1 || (tail.size() == 3 && tail[1] == "on")), line, w, form);
    TensorDecl decl;
    decl.state = w[0] == "state";
    decl.name = head[1];
    decl.line = line;
    const std::optional<Dtype> dtype = parse_dtype(head[2]);
    if (!dtype || *dtype == Dtype::f64x2)
      refuse(line, head[2], "D0", fmt::format("{} is not a dtype", head[2]),
             "f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u64 u32 u16 u8 bool");
    decl.type.dtype = *dtype;
    for (const std::string& size : split(text.substr(open + 1, close - open - 1), ','))
      decl.type.shape.push_back(read_size(line, size));
    decl.type.layout = read_layout(line, tail[0], decl);
    if (tail.size() == 3) decl.type.group = tail[2];
    if (decl.type.group != "world" && !find_group(decl.type.group))
      refuse(line, decl.type.group, "F3", fmt::format("group {} is not declared", decl.type.group),
             fmt::format("add: group {} = world.split(k)", decl.type.group));
    statements_.declare_tensor(decl);
    program_.tensors.push_back(std::move(decl));
  }

  Size read_size(const SourceLine& line, const std::string& text) const {
    if (const std::optional<int64_t> value = integer(text)) {
      if (*value < 0) refuse(line, text, "S1", fmt::format("a size of {}", text), "sizes are not negative");
      return {"", *value, false};
    }
    if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos)
      refuse(line, text, "S1", fmt::format("too many elements: {} does not fit 64 bits", text), "take a smaller size");
    const bool per_tensor = !text.empty() && text[0] == '#';
    const std::string name = per_tensor ? text.substr(1) : text;
    const std::string base = name.ends_with(".t") ? name.substr(0, name.size() - 2) : name;
    if (!declared_size(base, per_tensor, base != name))
      refuse(line, text, "F3", fmt::format("size {} is not declared", text),
             did_you_mean(name, dims(program_)) +
                 (per_tensor ? fmt::format("add above: tensors {}", name) : fmt::format("add above: dim {}", name)));
    return {name, 1, per_tensor};
  }

  bool declared_size(const std::string& name, bool per_tensor, bool transposed) const {
    for (const HeaderDecl& decl : program_.header) {
      if (const auto* tensors = std::get_if<TensorsDecl>(&decl); tensors && tensors->name == name) return !transposed;
      if (per_tensor) continue;
      if (const auto* ragged = std::get_if<RaggedDecl>(&decl); ragged && ragged->name == name) return true;
      if (const auto* dim = std::get_if<DimDecl>(&decl); dim && !transposed)
        for (const std::string& n : dim->names)
          if (n == name) return true;
    }
    return false;
  }

  Layout read_layout(const SourceLine& line, const std::string& text, const TensorDecl& decl) const {
    if (text == "replicated") return Replicated{};
    if (text == "local") return Local{};
    const size_t open = text.find('(');
    const std::string kind = text.substr(0, open);
    const std::string inner =
        open != std::string::npos && text.back() == ')' ? text.substr(open + 1, text.size() - open - 2) : "";
    const std::optional<int64_t> value = integer(inner);
    if (kind == "sliced" && value) return sliced(line, text, *value, decl);
    if (kind == "root" && ((value && *value >= 0) || (plain_name(inner) && statements_.weak(inner))))
      return Root{inner};
    const std::optional<ReduceOp> op = parse_reduce_op(inner);
    if (kind == "partial" && op && *op != ReduceOp::avg) {
      if (decl.state)
        refuse(line, text, "L8", fmt::format("state {} would be {}: nobody finished it", decl.name, text),
               "keep finished values in states");
      return Partial{*op};
    }
    refuse(line, text, "F1", fmt::format("{} is not a layout", text),
           "replicated, sliced(d), local, partial(op), root(k)");
  }

  Layout sliced(const SourceLine& line, const std::string& text, int64_t dim, const TensorDecl& decl) const {
    const Shape& shape = decl.type.shape;
    if (dim < 0 || dim >= static_cast<int64_t>(shape.size()))
      refuse(line, text, "L1", fmt::format("{} of a tensor with {} dimensions", text, shape.size()),
             "dimensions count from 0");
    if (shape[static_cast<size_t>(dim)] == Size{})
      refuse(line, text, "L1", fmt::format("{} is of extent 1", text), "slice a dimension that has elements to divide");
    return Sliced{static_cast<int>(dim)};
  }

  // ---- statements
  void add_statement(const SourceLine& line) {
    const std::string_view text = line.text;
    const size_t equals = text.find('=');
    const Name name(trim(text.substr(0, equals)));
    if (!is_identifier(name))
      refuse(line, name, "F1", fmt::format("{} is not a name", name), "letters, digits, _ and inner dots");
    std::optional<int> cut;
    const size_t end = cut_suffix(line, equals, cut);
    const std::string readable = with_by_arguments(text.substr(0, end));
    const expr::Expr e = expr::parse(std::string_view(readable).substr(equals + 1), expr::Syntax::program, line,
                                     static_cast<int>(equals) + 1);
    const size_t before = program_.ops.size();
    statements_.add(name, e, cut, line);
    if (!open_.empty())
      for (size_t i = before; i < program_.ops.size(); ++i)
        program_.blocks[open_.back()].members.push_back(program_.ops[i].name);
  }

  // The end of the expression, and d of a ` cut d` behind it.
  size_t cut_suffix(const SourceLine& line, size_t from, std::optional<int>& cut) const {
    const size_t at = line.text.rfind(" cut ");
    if (at == std::string::npos || at < from) return line.text.size();
    const std::optional<int64_t> dim = integer(trim(std::string_view(line.text).substr(at + 5)));
    if (!dim || *dim < 0 || *dim > 1000) refuse(line, "cut", "F1", "cannot read this cut", "EXPRESSION cut 0");
    cut = static_cast<int>(*dim);
    return at;
  }

  void add_update(const SourceLine& line, const Words& w) {
    need(w.size() == 4 && w[2] == "=" && is_identifier(w[3]), line, w, "update m = m1");
    program_.updates.push_back({w[1], w[3], line});
    check_effects(program_, statements_.types(), program_.updates.size() - 1, program_.outs.size());
  }

  void add_out(const SourceLine& line, const Words& w) {
    need(w.size() == 2, line, w, "out y");
    program_.outs.push_back({w[1], line});
    check_effects(program_, statements_.types(), program_.updates.size(), program_.outs.size() - 1);
  }

  // ---- blocks
  void open_block(const SourceLine& line, const Words& w) {
    need(w.size() == 2 && w[1].size() > 1, line, w, "fuse f:, or overlap o:");
    Block block;
    block.kind = w[0] == "fuse" ? Block::Kind::fuse : Block::Kind::overlap;
    block.name = w[1].substr(0, w[1].size() - 1);
    need(plain_name(block.name), line, w, "fuse f:, or overlap o:");
    if (line.indent > 0 && (open_.empty() || program_.blocks[open_.back()].kind == Block::Kind::fuse ||
                            block.kind == Block::Kind::overlap))
      refuse(line, w[0], "F1", fmt::format("a {} block in this place", w[0]),
             "fuse blocks may stand in an overlap; nothing else nests");
    statements_.declare(block.name, false, line);
    if (!open_.empty()) program_.blocks[open_.back()].members.push_back(block.name);
    open_.push_back(program_.blocks.size());
    opened_.push_back(line);
    program_.blocks.push_back(std::move(block));
  }

  void close_blocks(const SourceLine& line) {
    while (!open_.empty() && line.indent <= opened_.back().indent) {
      check_filled();
      open_.pop_back();
      opened_.pop_back();
    }
    if (line.indent != 2 * static_cast<int>(open_.size()))
      refuse(line, "", "F1", fmt::format("indented by {} outside a block", line.indent),
             "two spaces for each block around the line");
  }

  void check_filled() const { check_filled(open_.size() - 1); }

  void check_blocks_closed() const {
    for (size_t i = 0; i < open_.size(); ++i) check_filled(i);
  }

  // K1, O1: a block of one is the statement alone, and would be lost in printing.
  void check_filled(size_t at) const {
    const Block& block = program_.blocks[open_[at]];
    if (block.members.empty())
      refuse(opened_[at], block.name, "F1", "an empty block", "put statements into it, two spaces deeper");
    if (block.members.size() > 1) return;
    const bool fuse = block.kind == Block::Kind::fuse;
    refuse(opened_[at], block.name, fuse ? "K1" : "O1",
           fmt::format("the block {} has one member, {}", block.name, block.members[0]),
           fuse ? "a fuse block joins two statements or more: add one, or write the statement without it"
                : "an overlap runs two or more at once: add one, or write it without the block");
  }

  Program program_;
  Statements statements_{program_};
  std::vector<size_t> open_;  // blocks around the current line, outermost first
  std::vector<SourceLine> opened_;
  std::vector<std::pair<std::string, SourceLine>> counts_;  // of ragged lines
};

}  // namespace

Program parse(std::string_view text) { return Parser().whole(text); }

}  // namespace weft::ir
