// Hoisting: everything in an expression that is not pointwise becomes a statement of its own, innermost and leftmost
// first, under the statement's name with .h1, .h2 ... So there is one set of rules for operations, wherever written.
#include "weft/ir/statements.h"

#include <algorithm>

#include "weft/ir/errors.h"
#include "weft/ir/names.h"

namespace weft::ir {
namespace {

using expr::Expr;

bool is_name(const Expr& e) { return e->op == expr::Op::name; }

}  // namespace

// One statement being read.
class Hoister {
 public:
  Hoister(Statements& into, const Name& name, const SourceLine& line) : into_(into), name_(name), line_(line) {}

  void statement(const Expr& e, std::optional<int> cut) {
    const OpDef* def = e->op == expr::Op::call ? find_op_def(e->name) : nullptr;
    if (def && def->op_class != OpClass::map)
      add_op(&name_, *def, e, cut);
    else
      add_map(name_, pointwise(e), cut);
  }

 private:
  [[noreturn]] void refuse(std::string_view token, std::string_view rule, std::string_view message,
                           std::string_view remedy = "") const {
    fail_at(ErrorKind::user, line_, token, rule, message, remedy);
  }

  // The tree without operations and definitions.
  Expr pointwise(const Expr& e) {
    if (e->op != expr::Op::call) return with_arguments(e, pointwise_arguments(e));
    const OpDef* def = find_op_def(e->name);
    if (def && def->op_class != OpClass::map) return add_op(nullptr, *def, e, {});
    std::vector<Expr> args = pointwise_arguments(e);
    if (is_definition(e->name)) return expand_definition(expr::call(e->name, std::move(args)));
    for (const Expr& arg : args)
      if (is_name(arg) && arg->name.starts_with(by_prefix))
        refuse("by", "F1", fmt::format("`by` inside {}", e->name), "folds, norm and mean take `by`");
    return with_arguments(e, std::move(args));
  }

  std::vector<Expr> pointwise_arguments(const Expr& e) {
    std::vector<Expr> args;
    args.reserve(e->args.size());
    for (const Expr& arg : e->args) args.push_back(pointwise(arg));
    return args;
  }

  static Expr with_arguments(const Expr& e, std::vector<Expr> args) {
    if (args == e->args) return e;
    if (e->op == expr::Op::call) return expr::call(e->name, std::move(args));
    return args.size() == 1 ? expr::unary(e->op, args[0]) : expr::binary(e->op, args[0], args[1]);
  }

  Expr expand_definition(const Expr& call) {
    const auto defined = [&](const std::string& name) -> const Type& {
      const auto found = into_.types_.find(name);
      if (found == into_.types_.end())
        refuse(name, "F3", fmt::format("{} is not defined", name), into_.where_to_find(name));
      return found->second;
    };
    const auto own_statement = [&](const Expr& e) {
      if (is_name(e)) return e;
      const OpDef* def = e->op == expr::Op::call ? find_op_def(e->name) : nullptr;
      if (def && def->op_class != OpClass::map) return add_op(nullptr, *def, e, {});
      const Name name = fresh();
      add_map(name, e, {});
      return expr::name(name);
    };
    const auto refused = [&](std::string_view rule, const std::string& message, std::string_view remedy) {
      refuse(call->name, rule, message, remedy);
    };
    return expand(call, {own_statement, defined, refused});
  }

  // An operation of the registry, named `name`, or where that is null freshly: after its operands, so that the innermost
  // operation has the smallest number.
  Expr add_op(const Name* name, const OpDef& def, const Expr& e, std::optional<int> cut) {
    Op op;
    op.def = &def;
    op.cut = cut;
    op.line = line_;
    if (def.op_class == OpClass::fold)
      read_fold(op, e);
    else
      read_call(op, e);
    op.name = name ? *name : fresh();
    const Expr result = expr::name(op.name);
    into_.append(std::move(op));
    return result;
  }

  void add_map(const Name& name, Expr value, std::optional<int> cut) {
    Op op;
    op.name = name;
    op.def = find_op_def("map");
    op.cut = cut;
    op.line = line_;
    op.args = operands(value);
    op.value = std::move(value);
    into_.append(std::move(op));
  }

  // F3: the tensors that a map names.
  std::vector<Name> operands(const Expr& value) const {
    std::vector<Name> names = expr::names(value);
    std::erase_if(names, [&](const Name& name) { return into_.weak(name); });
    for (const Name& name : names)
      if (!into_.types_.count(name)) refuse(name, "F3", into_.what_is(name), into_.where_to_find(name));
    return names;
  }

  void read_fold(Op& op, const Expr& e) {
    if (e->args.empty()) refuse(op.def->name, "F5", fmt::format("{} of nothing", op.def->name), op.def->signature);
    for (size_t i = 1; i < e->args.size(); ++i) {
      const Expr& arg = e->args[i];
      const bool by = is_name(arg) && arg->name.starts_with(by_prefix);
      if (by && e->args.size() == 2)
        op.attrs.by = arg->name.substr(by_prefix.size());
      else if (!by && arg->op == expr::Op::integer)
        op.attrs.dims.push_back(small_integer(arg));
      else
        refuse(op.def->name, "F5",
               fmt::format("{} takes an expression and dimensions, or `by` a list of tensors", op.def->name),
               op.def->signature);
    }
    op.value = pointwise(e->args[0]);
    op.args = operands(op.value);
    check_distinct(op);
  }

  void check_distinct(const Op& op) const {
    std::vector<int> dims = op.attrs.dims;
    std::sort(dims.begin(), dims.end());
    if (std::adjacent_find(dims.begin(), dims.end()) != dims.end())
      refuse(op.def->name, "S2", "a dimension is folded twice", "name each dimension once");
  }

  int small_integer(const Expr& e) const {
    if (e->integer < -1000 || e->integer > 1000000)
      refuse(std::to_string(e->integer), "F5", fmt::format("{} is no dimension or rank", e->integer),
             "dimensions count from 0");
    return static_cast<int>(e->integer);
  }

  void read_call(Op& op, const Expr& e) {
    const std::string_view form = op.def->form;
    const auto optional =
        static_cast<size_t>(std::count_if(form.begin(), form.end(), [](char c) { return c >= 'A' && c <= 'Z'; }));
    if (e->args.size() > form.size() || e->args.size() + optional < form.size())
      refuse(op.def->name, "F5",
             fmt::format("{} with {} argument{}", op.def->name, e->args.size(), e->args.size() == 1 ? "" : "s"),
             op.def->signature);
    for (size_t i = 0; i < e->args.size(); ++i) read_argument(op, form[i], e->args[i]);
  }

  void read_argument(Op& op, char letter, const Expr& arg) {
    if (letter == 't') {
      op.args.push_back(tensor(op, arg));
    } else if (letter == 'r') {
      if (is_name(arg)) op.attrs.reduce = parse_reduce_op(arg->name);
      const std::string text = expr::print(arg, expr::Syntax::program);
      if (!op.attrs.reduce) refuse(text, "F4", fmt::format("{} is not a reduction", text), "sum prod min max avg");
    } else if (letter == 'k' || letter == 'K') {
      if (arg->op != expr::Op::integer && !is_name(arg))
        refuse(op.def->name, "F5", "a root is a rank or the name of a size", op.def->signature);
      op.attrs.root = arg->op == expr::Op::integer ? std::to_string(small_integer(arg)) : arg->name;
      if (is_name(arg) ? !into_.weak(arg->name) : arg->integer < 0)
        refuse(op.attrs.root, "F3", fmt::format("root {} is neither a rank nor a declared size", op.attrs.root),
               op.def->signature);
    } else {
      if (arg->op != expr::Op::integer)
        refuse(op.def->name, "F5", fmt::format("{} takes an integer here", op.def->name), op.def->signature);
      if (letter == 'h')
        op.attrs.hops = small_integer(arg);
      else
        op.attrs.dim = small_integer(arg);
    }
  }

  // The name of a tensor operand, hoisted where it is an expression.
  Name tensor(const Op& op, const Expr& arg) {
    if (is_name(arg) && arg->name.starts_with(by_prefix))
      refuse("by", "F1", fmt::format("`by` inside {}", op.def->name), "folds, norm and mean take `by`");
    const Expr e = pointwise(arg);
    if (is_name(e) && !into_.types_.count(e->name))
      refuse(e->name, "F3", into_.what_is(e->name), into_.where_to_find(e->name));
    if (is_name(e)) return e->name;
    const Name name = fresh();
    add_map(name, e, {});
    return name;
  }

  Name fresh() { return name_ + ".h" + std::to_string(++fresh_); }

  Statements& into_;
  const Name& name_;
  const SourceLine& line_;
  int fresh_ = 0;
};

void Statements::declare_builtin() {
  names_.insert("ranks");
  weak_.insert("ranks");
}

// F2, for names that the language or Weft has already.
void Statements::check_free(const std::string& name, const SourceLine& line) const {
  if (const std::string_view meaning = meaning_of(name); !meaning.empty() && name != "ranks")
    fail_at(ErrorKind::user, line, name, "F2", fmt::format("{} is {}", name, meaning),
            fmt::format("take another name: {}_1, my_{}", name, name));
  if (!is_identifier(name))
    fail_at(ErrorKind::user, line, name, "F1", fmt::format("{} is not a name", name),
            "letters, digits, _; not a digit first");
  if (!is_statement_name(name))
    fail_at(ErrorKind::user, line, name, "F2",
            fmt::format("{} is no name for users: names with a dot belong to Weft", name),
            "letters, digits and _; x.s is a slice of x, x.p its pending form, x.h1 was hoisted out of x");
}

// E3: x.s and x.p mean something (docs/program.md, 2): a value that is neither would be erased as if it were.
void Statements::check_derived(const Op& op, const Type& type) const {
  const bool cut = std::holds_alternative<Sliced>(type.layout) || std::holds_alternative<Root>(type.layout);
  const bool pending = std::holds_alternative<Partial>(type.layout) || std::holds_alternative<Local>(type.layout);
  const bool slice_name = op.name.ends_with(".s"), pending_name = op.name.ends_with(".p");
  if ((!slice_name || cut) && (!pending_name || pending)) return;
  fail_op(op, op.name, "E3",
          fmt::format("{} is {}: names that end in {} belong to Weft's {}", op.name, print(type.layout),
                      slice_name ? ".s" : ".p", slice_name ? "slices" : "pending values"),
          "take a name without a dot");
}

void Statements::declare(const std::string& name, bool is_weak, const SourceLine& line) {
  check_free(name, line);
  if (!names_.insert(name).second)
    fail_at(ErrorKind::user, line, name, "F2", fmt::format("{} is defined twice", name),
            name == "ranks" ? "`ranks` is the number of ranks: take another name"
                            : "values never change: take another name; to store into a state say `update`");
  if (is_weak) weak_.insert(name);
}

void Statements::declare_tensor(const TensorDecl& decl) {
  if (decl.name.find('.') != std::string::npos)
    fail_at(ErrorKind::user, decl.line, decl.name, "F2",
            fmt::format("{} is no name for an input or a state: names with a dot belong to Weft", decl.name),
            "letters, digits and _");
  declare(decl.name, false, decl.line);
  types_.emplace(decl.name, decl.type);
}

// Constants stand for what they are made of, so a chain of them that names each twice doubles with every line.
void Statements::check_expansion(const Expr& e, const SourceLine& line) const {
  constexpr int64_t most = 10000;
  std::map<std::string, int64_t> nodes;  // of constants, expanded
  const auto count = [&](const Expr& value) {
    int64_t total = 0;
    expr::visit(value, [&](const expr::Node& node) {
      const auto let = node.op == expr::Op::name ? nodes.find(node.name) : nodes.end();
      total = std::min(most + 1, total + (let == nodes.end() ? 1 : let->second));
    });
    return total;
  };
  for (const HeaderDecl& decl : program_.header)
    if (const auto* let = std::get_if<LetDecl>(&decl)) nodes[let->name] = count(let->value);
  if (count(e) > most)
    fail_at(ErrorKind::user, line, "", "F1",
            fmt::format("written out, this constant has more than {} operations", most),
            "hand in a scalar: scalar NAME f64");
}

void Statements::check_weak(const Expr& e, const SourceLine& line) const {
  for (const std::string& name : expr::names(e))
    if (!weak(name))
      fail_at(ErrorKind::user, line, name, "F3",
              declared(name) ? fmt::format("{} is a tensor; only scalars, sizes and constants may stand here", name)
                             : fmt::format("{} is not declared", name),
              did_you_mean(name, {weak_.begin(), weak_.end()}) + "declare it above: `scalar`, `let` or `dim`");
  check_expansion(e, line);
}

std::string Statements::what_is(const std::string& name) const {
  if (weak(name)) return fmt::format("{} is a number that is known at launch, not a tensor", name);
  return declared(name) ? fmt::format("{} is no tensor", name) : fmt::format("{} is not defined", name);
}

std::string Statements::where_to_find(const std::string& name) const {
  std::vector<std::string> known(weak_.begin(), weak_.end());
  for (const auto& [tensor, type] : types_) known.push_back(tensor);
  std::sort(known.begin(), known.end());
  return did_you_mean(name, known) + "a value is computed or declared before it is used";
}

void Statements::append(Op op) {
  if (declared(op.name)) declare(op.name, false, op.line);  // F2 comes before what inference says
  check_free(op.name, op.line);
  Type type = infer(program_, op, types_);
  check_derived(op, type);
  declare(op.name, false, op.line);
  types_.emplace(op.name, std::move(type));
  program_.ops.push_back(std::move(op));
}

void Statements::add(const Name& name, const Expr& e, std::optional<int> cut, const SourceLine& line) {
  const size_t before = program_.ops.size();
  try {
    Hoister(*this, name, line).statement(e, cut);
  } catch (...) {
    for (size_t i = before; i < program_.ops.size(); ++i) {
      names_.erase(program_.ops[i].name);
      types_.erase(program_.ops[i].name);
    }
    program_.ops.resize(before);
    throw;
  }
}

}  // namespace weft::ir
