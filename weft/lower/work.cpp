// What passes share: values by name, fresh names of the plan, and the small questions about statements that decide where
// one works. A name of the plan is the program's with dots made underscores, numbered where two would be one.
#include "weft/lower/work.h"

#include <algorithm>

namespace weft::lower {
namespace {

// Names that mean something in a plan: numbers, functions, lets and families of the algorithms.
const std::set<plan::Id> reserved = {
    "r",         "n",   "c",           "none",    "and",     "or",     "not",     "inf",         "nan",       "sel",
    "min",       "max", "abs",         "log2c",   "p2floor", "sum",    "prod",    "ranks",       "after",     "lag",
    "by",        "run", "next",        "prev",    "lo",      "hi",     "main",    "ag",          "down",      "norm",
    "spread_to", "p2p", "reduce_from", "arrived", "bit_and", "bit_or", "bit_xor", "logical_and", "logical_or"};

std::vector<std::string> launch_names(const ir::Program& program) {
  std::vector<std::string> names;
  for (const ir::HeaderDecl& decl : program.header)
    if (const auto* scalar = std::get_if<ir::ScalarDecl>(&decl)) names.push_back(scalar->name);
  for (const std::string& dim : ir::dims(program)) names.push_back(dim);
  return names;
}

// A let may use lets above it; kernels see scalars only.
std::map<std::string, expr::Expr> closed_lets(const ir::Program& program) {
  std::map<std::string, expr::Expr> closed;
  for (const ir::HeaderDecl& decl : program.header)
    if (const auto* let = std::get_if<ir::LetDecl>(&decl)) closed[let->name] = expr::substitute(let->value, closed);
  return closed;
}

}  // namespace

Work::Work(const ir::Program& p, const std::vector<schedule::LaunchConfig>& l, const LowerOptions& o)
    : program(&p),
      launches(&l),
      options(&o),
      types(ir::infer(p)),
      lets(closed_lets(p)),
      scalars(launch_names(p)),
      taken(reserved) {
  for (const auto& [name, type] : types) groups.try_emplace(type.group, p, type.group);
  for (const std::string& name : scalars) taken.insert(name);
}

const Value& Work::value(const ir::Name& name) const {
  for (const Value& v : values)
    if (v.name == name) return v;
  internal_failure(__FILE__, __LINE__, "value", fmt::format("{} is not a value of the program", name));
}
Value& Work::value(const ir::Name& name) { return const_cast<Value&>(std::as_const(*this).value(name)); }

plan::Id Work::fresh(const std::string& base) {
  plan::Id candidate = base;
  for (int k = 2; taken.count(candidate); ++k) candidate = fmt::format("{}_{}", base, k);
  taken.insert(candidate);
  return candidate;
}

plan::Id Work::id(const ir::Name& name) {
  const auto known = ids.find(name);
  if (known != ids.end()) return known->second;
  std::string text = name;
  std::replace(text.begin(), text.end(), '.', '_');
  return ids[name] = fresh(text);
}

std::vector<Value*> Work::readers(const ir::Name& name) {
  std::vector<Value*> found;
  for (const ir::Op* op : ir::uses(*program, name)) found.push_back(&value(op->name));
  return found;
}

// ---- questions
bool is_op(const ir::Op& op, std::string_view name) { return op.def->name == name; }
bool is_map(const ir::Op& op) { return op.def->op_class == ir::OpClass::map; }
bool is_fold(const ir::Op& op) { return op.def->op_class == ir::OpClass::fold; }
bool is_scatter(const ir::Op& op) { return is_op(op, "reduce_scatter") || is_op(op, "reduce"); }
bool is_gather(const ir::Op& op) { return is_op(op, "all_gather") || is_op(op, "broadcast"); }
bool is_move(const ir::Op& op) {
  return is_op(op, "send") || is_op(op, "gather") || is_op(op, "scatter") || is_op(op, "all_to_all");
}
bool is_communication(const ir::Op& op) { return op.def->op_class == ir::OpClass::communication; }

Site site(const Work& work, const ir::Op& op) {
  const auto of = [](const ir::Type& type) {
    if (std::holds_alternative<ir::Sliced>(type.layout)) return Site{Site::Kind::part, ""};
    if (const auto* root = std::get_if<ir::Root>(&type.layout)) return Site{Site::Kind::root, root->rank};
    return Site{};
  };
  if (is_communication(op)) return of(work.types.at(is_gather(op) ? op.args[0] : op.name));
  if (op.cut) return {Site::Kind::part, ""};
  for (const ir::Name& arg : op.args)
    if (const Site s = of(work.types.at(arg)); s.kind != Site::Kind::all) return s;
  return {};
}

kernel::Reduction reduction(ir::ReduceOp op) {
  switch (op) {
    case ir::ReduceOp::prod: return kernel::Reduction::prod;
    case ir::ReduceOp::min: return kernel::Reduction::min;
    case ir::ReduceOp::max: return kernel::Reduction::max;
    default: return kernel::Reduction::sum;
  }
}

kernel::Reduction fold_reduction(const ir::Op& op) {
  if (is_op(op, "prod")) return kernel::Reduction::prod;
  if (is_op(op, "amax")) return kernel::Reduction::max;
  return is_op(op, "amin") ? kernel::Reduction::min : kernel::Reduction::sum;
}

Dtype fold_accumulator(const ir::Op& op, Dtype dtype) { return kernel::accumulator_dtype(fold_reduction(op), dtype); }

int loop_space(const Work& work, const ir::Op& op) {
  if (is_op(op, "matmul")) return -1;
  const Value& result = work.value(op.name);
  if (result.grade == Grade::big && !is_fold(op)) return result.space;
  if (!is_fold(op)) return -1;
  for (const ir::Name& arg : op.args)
    if (const Value& v = work.value(arg); v.grade == Grade::big) return v.space;
  return -1;
}

void unsupported(const ir::Op& op, const std::string& what, const std::string& remedy) {
  unsupported(op.name, what, remedy);
}
void unsupported(const ir::Name& name, const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::unsupported, fmt::format("{}: {}", name, what), remedy);
}

}  // namespace weft::lower
