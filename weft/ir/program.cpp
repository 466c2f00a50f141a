// Look-ups over a Program and the small prints. All are linear scans: a program is tens of lines, and nothing cached can
// go stale when a rewrite edits the structs.
#include "weft/ir/program.h"

#include <algorithm>

#include "weft/ir/ops.h"

namespace weft::ir {

std::string print(const Size& size) {
  if (size.name.empty()) return std::to_string(size.value);
  return size.per_tensor ? "#" + size.name : size.name;
}

std::string print(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + print(shape[i]);
  return text + "]";
}

std::string_view name(ReduceOp op) {
  static constexpr std::string_view names[] = {"sum", "prod", "min", "max", "avg"};
  return names[static_cast<size_t>(op)];
}

std::optional<ReduceOp> parse_reduce_op(std::string_view text) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg})
    if (text == name(op)) return op;
  return {};
}

std::string print(const Layout& layout) {
  struct Printer {
    std::string operator()(const Replicated&) const { return "replicated"; }
    std::string operator()(const Local&) const { return "local"; }
    std::string operator()(const Sliced& l) const { return "sliced(" + std::to_string(l.dim) + ")"; }
    std::string operator()(const Partial& l) const { return "partial(" + std::string(name(l.op)) + ")"; }
    std::string operator()(const Root& l) const { return "root(" + l.rank + ")"; }
  };
  return std::visit(Printer{}, layout);
}

std::string print(const Type& type) {
  std::string text(name(type.dtype));
  text += print(type.shape) + " " + print(type.layout);
  if (type.group != "world") text += " on " + type.group;
  return text;
}

const Op* find_op(const Program& program, const Name& name) {
  for (const Op& op : program.ops)
    if (op.name == name) return &op;
  return nullptr;
}

const TensorDecl* find_tensor(const Program& program, const Name& name) {
  for (const TensorDecl& decl : program.tensors)
    if (decl.name == name) return &decl;
  return nullptr;
}

std::vector<const Op*> uses(const Program& program, const Name& name) {
  std::vector<const Op*> found;
  for (const Op& op : program.ops)
    if (std::find(op.args.begin(), op.args.end(), name) != op.args.end()) found.push_back(&op);
  return found;
}

bool is_scalar(const Program& program, const std::string& name) {
  for (const HeaderDecl& decl : program.header) {
    if (const auto* scalar = std::get_if<ScalarDecl>(&decl); scalar && scalar->name == name) return true;
    if (const auto* let = std::get_if<LetDecl>(&decl); let && let->name == name) return true;
  }
  return false;
}

std::vector<std::string> dims(const Program& program) {
  std::vector<std::string> names;
  for (const HeaderDecl& decl : program.header) {
    if (const auto* dim = std::get_if<DimDecl>(&decl)) names.insert(names.end(), dim->names.begin(), dim->names.end());
    if (const auto* tensors = std::get_if<TensorsDecl>(&decl)) names.push_back(tensors->name);
    if (const auto* ragged = std::get_if<RaggedDecl>(&decl)) names.push_back(ragged->name);
  }
  return names;
}

std::map<std::string, expr::Expr> lets(const Program& program) {
  std::map<std::string, expr::Expr> found;
  for (const HeaderDecl& decl : program.header)
    if (const auto* let = std::get_if<LetDecl>(&decl)) found[let->name] = let->value;
  return found;
}

std::optional<std::string> update_of(const Program& program, const Name& value) {
  for (const Update& update : program.updates)
    if (update.value == value) return update.state;
  return {};
}

bool is_out(const Program& program, const Name& value) {
  return std::any_of(program.outs.begin(), program.outs.end(), [&](const Out& out) { return out.value == value; });
}

bool is_small(const Type& type) {
  return std::all_of(type.shape.begin(), type.shape.end(),
                     [](const Size& size) { return size.per_tensor || (size.name.empty() && size.value == 1); });
}

}  // namespace weft::ir
