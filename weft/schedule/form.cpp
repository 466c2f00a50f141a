// The small questions that rewrites ask of a program; see form.h.
#include "weft/schedule/form.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/ir/names.h"

namespace weft::schedule {

Form form_of(const ir::Program& program) {
  constexpr size_t most = 32768;  // what reaches what is two bits for each pair of statements: 256 MiB
  if (program.ops.size() > most)
    throw Error(
        ErrorKind::unsupported, fmt::format("{} has {} statements", program.name, program.ops.size()),
        fmt::format("schedules are made for up to {} statements: write whole formulas as one, gather tensors in "
                    "a `tensors` list, or cut the program in two",
                    most));
  return Form{program, ir::infer(program)};
}

bool is_slice_name(const ir::Name& name) { return name.ends_with(".s"); }
bool is_pending_name(const ir::Name& name) { return name.ends_with(".p"); }
bool is_derived_name(const ir::Name& name) { return is_slice_name(name) || is_pending_name(name); }
ir::Name origin(const ir::Name& name) { return is_derived_name(name) ? name.substr(0, name.size() - 2) : name; }

const ir::OpDef* definition(std::string_view name) {
  const ir::OpDef* def = ir::find_op_def(name);
  WEFT_CHECK(def != nullptr, "no operation {} in the registry", name);
  return def;
}
bool is_op(const ir::Op& op, std::string_view name) { return op.def->name == name; }
bool is_computation(const ir::Op& op) { return op.def->op_class != ir::OpClass::communication; }
bool is_gather(const ir::Op& op) { return is_op(op, "all_gather") || is_op(op, "broadcast"); }
bool is_scatter(const ir::Op& op) { return is_op(op, "reduce_scatter") || is_op(op, "reduce"); }

ir::Op communication(std::string_view op, ir::Name name, ir::Name arg, ir::Attrs attrs, const SourceLine& line) {
  ir::Op result;
  result.name = std::move(name);
  result.def = definition(op);
  result.args = {std::move(arg)};
  result.attrs = std::move(attrs);
  result.line = line;
  return result;
}

void rename_operands(ir::Op& op, const std::map<ir::Name, ir::Name>& to) {
  auto renamed = [&to](const std::string& name) {
    auto found = to.find(name);
    return found == to.end() ? name : found->second;
  };
  for (ir::Name& arg : op.args) arg = renamed(arg);
  if (op.value == nullptr) return;
  op.value = expr::rename(op.value, renamed);
  std::vector<ir::Name> once;
  for (ir::Name& arg : op.args)
    if (std::find(once.begin(), once.end(), arg) == once.end()) once.push_back(std::move(arg));
  op.args = std::move(once);
}

const ir::Op* gather_of_slice(const ir::Program& program, const ir::Name& name) {
  const ir::Op* op = ir::find_op(program, name);
  return op != nullptr && is_gather(*op) && is_slice_name(op->args[0]) ? op : nullptr;
}

bool is_live_out(const ir::Program& program, const ir::Name& name) {
  for (const ir::Out& out : program.outs)
    if (out.value == name) return true;
  for (const ir::Update& update : program.updates)
    if (update.value == name) return true;
  for (const ir::HeaderDecl& decl : program.header)
    if (const auto* ragged = std::get_if<ir::RaggedDecl>(&decl); ragged != nullptr && ragged->counts == name)
      return true;
  return false;
}

const ir::Block* block_of(const ir::Program& program, const ir::Name& member) {
  for (const ir::Block& block : program.blocks)
    if (std::find(block.members.begin(), block.members.end(), member) != block.members.end()) return &block;
  return nullptr;
}

size_t position(const ir::Program& program, const ir::Name& name) {
  size_t i = 0;
  while (i < program.ops.size() && program.ops[i].name != name) ++i;
  return i;
}

bool holds_cut(const ir::Type& type) {
  return std::holds_alternative<ir::Sliced>(type.layout) || std::holds_alternative<ir::Root>(type.layout);
}
bool is_replicated(const ir::Type& type) { return std::holds_alternative<ir::Replicated>(type.layout); }

Cut cut_of(const Form& form, const ir::Op& op) {
  if (!is_computation(op)) return {};
  for (size_t i = 0; i < op.args.size(); ++i) {
    const ir::Layout& layout = form.types.at(op.args[i]).layout;
    if (const auto* root = std::get_if<ir::Root>(&layout)) return {Cut::Kind::root, -1, root->rank};
    if (const auto* sliced = std::get_if<ir::Sliced>(&layout)) {
      ir::Factors factors = op.def->factors(form.program, op, form.types);
      return {Cut::Kind::factor, factors.operand[i][static_cast<size_t>(sliced->dim)], ""};
    }
  }
  if (op.cut) return {Cut::Kind::factor, *op.cut, ""};
  return {};
}

ir::Shape iteration_shape(const Form& form, const ir::Op& op) {
  ir::Shape shape = form.types.at(op.name).shape;
  for (const ir::Name& arg : op.args) {
    const ir::Shape& other = form.types.at(arg).shape;
    if (other.size() > shape.size()) shape.insert(shape.begin(), other.size() - shape.size(), ir::Size{});
    for (size_t i = 0; i < other.size(); ++i) {
      ir::Size& size = shape[shape.size() - other.size() + i];
      bool one = size.name.empty() && size.value == 1;
      bool coarse = size.per_tensor && !other[i].per_tensor && other[i].name == size.name;
      if (one || coarse) size = other[i];
    }
  }
  return shape;
}

Refusal malformed(std::string_view directive, std::string_view usage) {
  return {"F5",
          std::string(directive),
          fmt::format("{} cannot be read from these words", directive),
          fmt::format("write: {}", usage),
          {}};
}

Refusal no_statement(const Form& form, std::string_view rule, const std::string& at, const ir::Name& name) {
  constexpr size_t most = 12;
  std::vector<std::string> known;
  for (const ir::Op& op : form.program.ops) known.push_back(op.name);
  std::string remedy = ir::did_you_mean(name, known);
  if (known.size() > most) known.resize(most), known.push_back("...");
  remedy += known.empty() ? "the program has no statements" : "statements are " + join(known, ", ");
  return {std::string(rule), at, fmt::format("there is no statement {}", name), remedy, {name}};
}

std::optional<int> parse_dimension(std::string_view word) {
  if (word.empty() || word.size() > 4) return {};
  int value = 0;
  for (char c : word) {
    if (c < '0' || c > '9') return {};
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace weft::schedule
