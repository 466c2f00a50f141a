// The canonical text: header as written, tensors, statements and blocks in canonical order, updates, outputs.
#include "weft/ir/ops.h"

namespace weft::ir {
namespace {

std::string text_of(const expr::Expr& e) { return expr::print(e, expr::Syntax::program); }

struct HeaderPrinter {
  std::string operator()(const DimDecl& d) const { return "dim " + join(d.names, " "); }
  std::string operator()(const RequireDecl& d) const { return "require " + text_of(d.condition); }
  std::string operator()(const TensorsDecl& d) const { return "tensors " + d.name; }
  std::string operator()(const RaggedDecl& d) const { return "ragged " + d.name + " by " + d.counts; }
  std::string operator()(const GroupDecl& d) const {
    return "group " + d.name + " = " + d.of + (d.across ? ".across" : ".split(" + text_of(d.parts) + ")");
  }
  std::string operator()(const ScalarDecl& d) const { return "scalar " + d.name + " " + std::string(name(d.dtype)); }
  std::string operator()(const LetDecl& d) const { return "let " + d.name + " = " + text_of(d.value); }
};

std::string fold_text(const Op& op) {
  std::string text(op.def->name);
  text += '(';
  text += text_of(op.value);
  if (!op.attrs.by.empty()) text += " by " + op.attrs.by;
  for (const int dim : op.attrs.dims) text += ", " + std::to_string(dim);
  return text + ")";
}

std::string call_text(const Op& op) {
  std::string text(op.def->name);
  text += "(";
  size_t tensor = 0;
  bool first = true;
  const auto add = [&](std::string_view part) {
    if (!first) text += ", ";
    first = false;
    text += part;
  };
  for (const char c : op.def->form) {
    if (c == 't') add(tensor < op.args.size() ? op.args[tensor++] : Name("?"));
    if (c == 'r') add(op.attrs.reduce ? name(*op.attrs.reduce) : "?");
    if (c == 'd' || (c == 'D' && op.attrs.dim)) add(op.attrs.dim ? std::to_string(*op.attrs.dim) : "?");
    if (c == 'k' || (c == 'K' && !op.attrs.root.empty())) add(op.attrs.root);
    if (c == 'h') add(std::to_string(op.attrs.hops));
  }
  return text + ")";
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  std::string whole() {
    text_ = "program " + std::to_string(program_version) + " " + program_.name + "\n";
    for (const HeaderDecl& decl : program_.header) text_ += std::visit(HeaderPrinter{}, decl) + "\n";
    for (const TensorDecl& decl : program_.tensors)
      text_ += (decl.state ? "state " : "in ") + decl.name + " " + print(decl.type) + "\n";
    for (const Unit& unit : units(program_)) add_unit(unit);
    for (const Update& update : program_.updates) text_ += "update " + update.state + " = " + update.value + "\n";
    for (const Out& out : program_.outs) text_ += "out " + out.value + "\n";
    return std::move(text_);
  }

 private:
  void add_unit(const Unit& unit) {
    if (unit.block && unit.block->kind == Block::Kind::overlap) {
      text_ += "overlap " + unit.block->name + ":\n";
      for (const Unit& inner : units(program_, unit)) add_plain(inner, "  ");
    } else {
      add_plain(unit, "");
    }
  }

  void add_plain(const Unit& unit, const std::string& indent) {
    if (unit.block) text_ += indent + "fuse " + unit.block->name + ":\n";
    for (const Op* op : unit.ops) text_ += indent + (unit.block ? "  " : "") + print(*op) + "\n";
  }

  const Program& program_;
  std::string text_;
};

}  // namespace

std::string print(const Op& op) {
  WEFT_CHECK(op.def, "statement {} has no operation", op.name);
  std::string text = op.name + " = ";
  if (op.def->op_class == OpClass::map)
    text += text_of(op.value);
  else if (op.def->op_class == OpClass::fold)
    text += fold_text(op);
  else
    text += call_text(op);
  if (op.cut) text += " cut " + std::to_string(*op.cut);
  return text;
}

std::string print(const Program& program) { return Printer(program).whole(); }

bool equal(const Program& a, const Program& b) { return print(a) == print(b); }

}  // namespace weft::ir
