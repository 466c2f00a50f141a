// The builder: trees in, statements out, by the parser's own hands.
#include "weft/ir/builder.h"

#include <charconv>

#include "weft/ir/layout_rule.h"
#include "weft/ir/statements.h"

namespace weft::ir {
namespace {

using expr::Expr;
using Kind = expr::Op;

Term infix(Kind op, const Term& a, const Term& b) { return expr::binary(op, a.value, b.value); }
Expr reduction(ReduceOp op) { return expr::name(std::string(name(op))); }

Expr rank_expr(const std::string& text) {
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = result.ec == std::errc() && result.ptr == text.data() + text.size();
  return number ? expr::integer(value) : expr::name(text);
}

const std::string& name_of(const Term& term, const char* what) {
  if (term.value->op != Kind::name)
    throw Error(ErrorKind::user,
                fmt::format("{} {} is an expression", what, expr::print(term.value, expr::Syntax::program)),
                "give it a name first: p(\"y\", ...)", "F1");
  return term.value->name;
}

SourceLine line(std::string text) {
  SourceLine out;
  out.text = std::move(text);
  return out;
}

// What a statement would look like in text, for errors.
SourceLine statement_line(const Name& name, const Expr& e) {
  std::string text = name + " = " + expr::print(e, expr::Syntax::program);
  for (size_t at = text.find(", by."); at != std::string::npos; at = text.find(", by.", at))
    text.replace(at, 5, " by ");
  return line(std::move(text));
}

}  // namespace

Term::Term(double number) : value(expr::number(number)) {}
Term::Term(int number) : value(expr::integer(number)) {}
Term::Term(int64_t number) : value(expr::integer(number)) {}
Term::Term(Expr e) : value(std::move(e)) { WEFT_CHECK(value, "a term without an expression"); }
Term::Term(const Size& size) : value(size.name.empty() ? expr::integer(size.value) : expr::name(size.name)) {}

Term operator+(const Term& a, const Term& b) { return infix(Kind::add, a, b); }
Term operator-(const Term& a, const Term& b) { return infix(Kind::sub, a, b); }
Term operator*(const Term& a, const Term& b) { return infix(Kind::mul, a, b); }
Term operator/(const Term& a, const Term& b) { return infix(Kind::div, a, b); }
Term operator%(const Term& a, const Term& b) { return infix(Kind::mod, a, b); }
Term operator-(const Term& a) { return expr::unary(Kind::neg, a.value); }
Term operator<(const Term& a, const Term& b) { return infix(Kind::lt, a, b); }
Term operator>(const Term& a, const Term& b) { return infix(Kind::gt, a, b); }
Term operator<=(const Term& a, const Term& b) { return infix(Kind::le, a, b); }
Term operator>=(const Term& a, const Term& b) { return infix(Kind::ge, a, b); }
Term operator&&(const Term& a, const Term& b) { return infix(Kind::and_, a, b); }
Term operator||(const Term& a, const Term& b) { return infix(Kind::or_, a, b); }
Term operator!(const Term& a) { return expr::unary(Kind::not_, a.value); }
Term equals(const Term& a, const Term& b) { return infix(Kind::eq, a, b); }
Term differs(const Term& a, const Term& b) { return infix(Kind::ne, a, b); }
Term pow(const Term& a, const Term& b) { return infix(Kind::pow, a, b); }

Term call(std::string function, std::vector<Term> args) {
  std::vector<Expr> values;
  for (const Term& arg : args) values.push_back(arg.value);
  return expr::call(std::move(function), std::move(values));
}

Term all_reduce(ReduceOp op, const Term& x) { return call("all_reduce", {reduction(op), x}); }
Term reduce_scatter(ReduceOp op, const Term& x, int dim) { return call("reduce_scatter", {reduction(op), x, dim}); }
Term all_gather(const Term& x) { return call("all_gather", {x}); }
Term reduce(ReduceOp op, const Term& x, std::string root) {
  return call("reduce", {reduction(op), x, rank_expr(root)});
}
Term gather(const Term& x, std::string root) { return call("gather", {x, rank_expr(root)}); }
Term broadcast(const Term& x, std::string root) {
  return root.empty() ? call("broadcast", {x}) : call("broadcast", {x, rank_expr(root)});
}
Term scatter(const Term& x, int dim) { return call("scatter", {x, dim}); }
Term all_to_all(const Term& x) { return call("all_to_all", {x}); }
Term all_to_all(const Term& x, int dim) { return call("all_to_all", {x, dim}); }
Term send(const Term& x, int hops) { return call("send", {x, hops}); }
Term matmul(const Term& a, const Term& b) { return call("matmul", {a, b}); }
Term conv2d(const Term& a, const Term& w) { return call("conv2d", {a, w}); }
Term index(int dim) { return call("index", {dim}); }
Term rand(const Term& seed, int k) { return call("rand", {seed, k}); }
Term sum(const Term& x, std::vector<int> dims) { return fold("sum", x, std::move(dims)); }
Term sum_by(const Term& x, std::string tensors) { return fold("sum", x, {}, std::move(tensors)); }

Term fold(std::string function, const Term& x, std::vector<int> dims, std::string by) {
  std::vector<Term> args = {x};
  for (const int dim : dims) args.emplace_back(dim);
  if (!by.empty()) args.emplace_back(expr::name(std::string(by_prefix) + by));
  return call(std::move(function), std::move(args));
}

Term dropout(const Term& x, double p, const Term& seed, int k) { return call("dropout", {x, p, seed, k}); }

struct Builder::Impl {
  Program program;
  Statements statements{program};
  std::vector<size_t> open;  // blocks around the current statement, outermost first

  Term declare(const std::string& name, HeaderDecl decl, bool weak, std::string text) {
    if (!is_identifier(name))
      throw Error(ErrorKind::user, fmt::format("{} is not a name", name), "letters, digits and _, no digit first",
                  "F1");
    statements.declare(name, weak, line(std::move(text)));
    program.header.push_back(std::move(decl));
    return expr::name(name);
  }
};

Builder::Builder(std::string name) : impl_(std::make_unique<Impl>()) { impl_->program.name = std::move(name); }
Builder::~Builder() = default;
Builder::Builder(Builder&&) noexcept = default;
Builder& Builder::operator=(Builder&&) noexcept = default;

Size Builder::dim(std::string name) {
  declare_dims({name});
  return {std::move(name), 1, false};
}

void Builder::declare_dims(std::vector<std::string> names) {
  DimDecl decl;
  for (const std::string& name : names) {
    if (!is_identifier(name))
      throw Error(ErrorKind::user, fmt::format("{} is not a name", name), "letters, digits and _, no digit first",
                  "F1");
    impl_->statements.declare(name, true, line("dim " + join(names, " ")));
  }
  decl.names = std::move(names);
  impl_->program.header.emplace_back(std::move(decl));
}

Size Builder::tensors(std::string name) {
  impl_->declare(name, TensorsDecl{name}, true, "tensors " + name);
  return {std::move(name), 1, false};
}

Size Builder::per_tensor(Size tensors) {
  tensors.per_tensor = true;
  return tensors;
}

Size Builder::transposed(Size ragged) {
  ragged.name += ".t";
  return ragged;
}

Size Builder::ragged(std::string name, std::string counts) {
  impl_->declare(name, RaggedDecl{name, counts}, true, "ragged " + name + " by " + counts);
  return {std::move(name), 1, false};
}

std::string Builder::group(std::string name, const Term& parts) {
  impl_->declare(name, GroupDecl{name, "world", parts.value, false}, false, "group " + name + " = world.split(...)");
  return name;
}

std::string Builder::across(std::string name, std::string of) {
  impl_->declare(name, GroupDecl{name, of, nullptr, true}, false, "group " + name + " = " + of + ".across");
  return name;
}

Term Builder::scalar(std::string name, Dtype dtype) {
  if (dtype != Dtype::f64 && dtype != Dtype::i64)
    throw Error(ErrorKind::user, fmt::format("scalar {} of dtype {}", name, weft::name(dtype)),
                "scalars are f64 or i64; they take the dtype of the tensor they meet", "D0");
  return impl_->declare(name, ScalarDecl{name, dtype}, true, "scalar " + name);
}

Term Builder::let(std::string name, const Term& value) {
  const SourceLine shown = line("let " + name + " = " + expr::print(value.value, expr::Syntax::program));
  impl_->statements.check_weak(value.value, shown);
  return impl_->declare(name, LetDecl{name, value.value}, true, shown.text);
}

void Builder::require(const Term& condition) { impl_->program.header.emplace_back(RequireDecl{condition.value}); }

Term Builder::in(Name name, Dtype dtype, Shape shape, Layout layout, std::string group) {
  return tensor(false, std::move(name), dtype, std::move(shape), std::move(layout), std::move(group));
}
Term Builder::state(Name name, Dtype dtype, Shape shape, Layout layout, std::string group) {
  return tensor(true, std::move(name), dtype, std::move(shape), std::move(layout), std::move(group));
}

Term Builder::tensor(bool state, Name name, Dtype dtype, Shape shape, Layout layout, std::string group) {
  TensorDecl decl;
  decl.state = state;
  decl.name = name;
  decl.type = {dtype, std::move(shape), std::move(layout), std::move(group), {}};
  decl.line = line((state ? "state " : "in ") + name + " " + print(decl.type));
  impl_->statements.declare_tensor(decl);
  impl_->program.tensors.push_back(std::move(decl));
  return expr::name(std::move(name));
}

Term Builder::operator()(Name name, const Term& value, std::optional<int> cut) {
  const size_t before = impl_->program.ops.size();
  impl_->statements.add(name, value.value, cut, statement_line(name, value.value));
  if (!impl_->open.empty())
    for (size_t i = before; i < impl_->program.ops.size(); ++i)
      impl_->program.blocks[impl_->open.back()].members.push_back(impl_->program.ops[i].name);
  return expr::name(std::move(name));
}

void Builder::fuse(std::string name, const std::function<void()>& body) {
  block(Block::Kind::fuse, std::move(name), body);
}
void Builder::overlap(std::string name, const std::function<void()>& body) {
  block(Block::Kind::overlap, std::move(name), body);
}

// As in the text: blocks are counted by the parser, nesting and names are refused here.
void Builder::block(Block::Kind kind, std::string name, const std::function<void()>& body) {
  std::vector<Block>& blocks = impl_->program.blocks;
  const bool fuse = kind == Block::Kind::fuse;
  const SourceLine shown = line((fuse ? "fuse " : "overlap ") + name + ":");
  if (!impl_->open.empty() && (!fuse || blocks[impl_->open.back()].kind == Block::Kind::fuse))
    fail_at(ErrorKind::user, shown, name, "F1",
            fmt::format("the block {} in the block {}", name, blocks[impl_->open.back()].name),
            "fuse blocks may stand in an overlap; nothing else nests");
  impl_->statements.declare(name, false, shown);
  if (!impl_->open.empty()) blocks[impl_->open.back()].members.push_back(name);
  const size_t at = blocks.size();
  blocks.push_back({kind, name, {}});
  impl_->open.push_back(at);
  body();
  impl_->open.pop_back();
  if (blocks[at].members.empty())
    fail_at(ErrorKind::user, shown, name, "F1", "an empty block", "make its statements in the function that is given");
}

void Builder::update(const Term& state, const Term& value) {
  const std::string &s = name_of(state, "state"), &v = name_of(value, "new content");
  impl_->program.updates.push_back({s, v, line("update " + s + " = " + v)});
}

void Builder::out(const Term& value) {
  const std::string& v = name_of(value, "output");
  impl_->program.outs.push_back({v, line("out " + v)});
}

// Through the text, so that what the builder lets pass and the text form does not is refused here: a size or group that
// was never declared, a name that cannot be written.
Program Builder::build() const { return parse(print(impl_->program)); }

}  // namespace weft::ir
