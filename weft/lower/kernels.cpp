// Kernels: the bodies of steps, printed into the plan. Lets are put in place, names become the plan's, program scalars
// and sizes become launch scalars in the program's order.
#include "weft/lower/kernels.h"

#include <algorithm>

#include "weft/expr/weak.h"
#include "weft/ir/weak.h"

namespace weft::lower {
namespace {

void add_name(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

bool is_launch_scalar(const Work& work, const std::string& name) {
  return std::find(work.scalars.begin(), work.scalars.end(), name) != work.scalars.end();
}

expr::Expr with_args(const expr::Expr& e, std::vector<expr::Expr> args) {
  if (args == e->args) return e;
  if (e->op == expr::Op::call) return expr::call(e->name, std::move(args));
  return args.size() == 1 ? expr::unary(e->op, args[0]) : expr::binary(e->op, args[0], args[1]);
}

expr::Expr extent(const ir::Size& size) {
  return size.name.empty() ? expr::integer(size.value) : expr::name(size.name);
}

// A kernel knows positions in the whole value, not its shape: index(d) becomes index(inner, extent), what lies behind
// dimension d and in it.
expr::Expr with_extents(const expr::Expr& e, const ir::Shape& shape) {
  if (e->op == expr::Op::call && e->name == "index") {
    const int64_t d = e->args[0]->op == expr::Op::neg ? -e->args[0]->args[0]->integer : e->args[0]->integer;
    const size_t dim = static_cast<size_t>(d < 0 ? d + static_cast<int64_t>(shape.size()) : d);
    if (shape.size() <= 1) return e;
    expr::Expr inner = expr::integer(1);
    for (size_t k = dim + 1; k < shape.size(); ++k)
      inner = k == dim + 1 ? extent(shape[k]) : expr::binary(expr::Op::mul, inner, extent(shape[k]));
    return expr::call("index", {inner, extent(shape[dim])});
  }
  std::vector<expr::Expr> args;
  for (const expr::Expr& arg : e->args) args.push_back(with_extents(arg, shape));
  return with_args(e, std::move(args));
}

// The indices of `e`, casts left alone, as i64.
expr::Expr indices_as_integers(const expr::Expr& e) {
  if (e->op == expr::Op::call && e->name == "index") return expr::call("i64", {e});
  if (e->op == expr::Op::call && parse_dtype(e->name)) return e;
  std::vector<expr::Expr> args;
  for (const expr::Expr& arg : e->args) args.push_back(indices_as_integers(arg));
  return with_args(e, std::move(args));
}

// A comparison or cast of indices and launch scalars alone is done in i64 while all is integer (D2). A kernel's scalars
// have no dtype, so it is told by a cast: `index(0) / 2 < k` becomes `i64(index(0)) / 2 < k`.
class IndexDtypes {
 public:
  explicit IndexDtypes(const Work& work) : work_(work), weak_of_(ir::weak_dtypes(*work.program)) {}

  expr::Expr stated(const expr::Expr& e) const {
    std::vector<expr::Expr> args;
    for (const expr::Expr& arg : e->args) args.push_back(stated(arg));
    const bool compares = e->op >= expr::Op::lt && e->op <= expr::Op::ne;
    const bool casts = e->op == expr::Op::call && parse_dtype(e->name);
    if ((compares || casts) && integers_alone(e->args))
      for (expr::Expr& arg : args) arg = indices_as_integers(arg);
    return with_args(e, std::move(args));
  }

 private:
  bool integers_alone(const std::vector<expr::Expr>& args) const {
    const auto type_of = [&](const std::string& name) -> std::optional<Dtype> {
      const auto found = work_.types.find(name);
      return found == work_.types.end() ? std::nullopt : std::optional(found->second.dtype);
    };
    return std::all_of(args.begin(), args.end(), [&](const expr::Expr& arg) {
      return !expr::infer_dtype(arg, type_of, weak_of_) && expr::weak_dtype(arg, weak_of_) == Dtype::i64;
    });
  }

  const Work& work_;
  const expr::WeakDtype weak_of_;
};

// ranks(stage): how many ranks a group has.
expr::Expr sized(const Work& work, const expr::Expr& e) {
  if (e->op == expr::Op::call && e->name == "ranks" && e->args.size() == 1)
    return expr::parse(GroupMap(*work.program, e->args[0]->name).size_of_launch(), expr::Syntax::program);
  std::vector<expr::Expr> args;
  for (const expr::Expr& arg : e->args) args.push_back(sized(work, arg));
  return with_args(e, std::move(args));
}

bool has_index(const expr::Expr& e) {
  bool found = false;
  expr::visit(e, [&](const expr::Node& node) { found |= node.op == expr::Op::call && node.name == "index"; });
  return found;
}

}  // namespace

KernelMaker::KernelMaker(Work& work, const std::string& base) : work_(work) { kernel_.name = work.fresh("k_" + base); }

void KernelMaker::input(const plan::Id& name) { add_name(kernel_.inputs, name); }

expr::Expr KernelMaker::body(const ir::Op& op) {
  expr::Expr value = op.value;
  if (has_index(value))
    value = with_extents(IndexDtypes(work_).stated(value), op.def->factors(*work_.program, op, work_.types).size);
  const expr::Expr closed = sized(work_, expr::substitute(value, work_.lets));
  for (const std::string& name : expr::names(closed))
    if (is_launch_scalar(work_, name)) add_name(used_, name);
  return expr::rename(closed, [&](const std::string& name) {
    const bool value = std::any_of(op.args.begin(), op.args.end(), [&](const ir::Name& arg) { return arg == name; });
    return value ? work_.id(name) : name;
  });
}

void KernelMaker::map(const ir::Op& op) {
  kernel::Assignment line;
  line.name = work_.id(op.name);
  line.value = body(op);
  kernel_.body.push_back(line);
}

void KernelMaker::average(const plan::Id& name, const GroupMap& group) {
  kernel::Assignment line;
  line.name = name;
  line.value =
      expr::binary(expr::Op::div, expr::name(name), expr::parse(group.size_of_launch(), expr::Syntax::program));
  kernel_.body.push_back(line);
}

void KernelMaker::same(const plan::Id& name, const plan::Id& as) {
  kernel::Assignment line;
  line.name = name;
  line.value = expr::name(as);
  kernel_.body.push_back(line);
}

void KernelMaker::cast(const plan::Id& name, Dtype dtype) {
  kernel::Assignment line;
  line.name = name;
  line.value = expr::call(std::string(weft::name(dtype)), {expr::name(name)});
  kernel_.body.push_back(line);
}

void KernelMaker::fold(const ir::Op& op) {
  kernel::Assignment line;
  line.name = work_.id(op.name);
  line.kind = kernel::AssignmentKind::fold;
  line.function = op.def->name;
  line.value = body(op);
  kernel_.body.push_back(line);
}

void KernelMaker::matmul(const plan::Id& result, const plan::Id& x, const plan::Id& w) {
  kernel::Assignment line;
  line.name = result;
  line.kind = kernel::AssignmentKind::tile;
  line.function = "matmul";
  line.args = {x, w};
  kernel_.body.push_back(line);
}

void KernelMaker::scalar(const std::string& formal, const std::string& launch, const expr::Expr& value) {
  kernel_.scalars.push_back(formal);
  call_.push_back(launch);
  work_.scalar_values[launch] = value;
}

plan::KernelCall KernelMaker::finish(std::vector<plan::Id> outputs) {
  while (outputs.size() > 1 && outputs[outputs.size() - 1] == outputs[outputs.size() - 2]) outputs.pop_back();
  kernel_.outputs = std::move(outputs);
  for (const std::string& name : work_.scalars) {
    if (std::find(used_.begin(), used_.end(), name) == used_.end()) continue;
    kernel_.scalars.push_back(name);
    call_.push_back(name);
    work_.scalar_values[name] = expr::name(name);
  }
  work_.out.plan.kernels.push_back(kernel_);
  return {kernel_.name, call_};
}

plan::KernelCall KernelMaker::finish_shared(std::vector<plan::Id> outputs) {
  const plan::KernelCall call = finish(std::move(outputs));
  std::vector<kernel::Kernel>& kernels = work_.out.plan.kernels;
  kernel::Kernel mine = kernels.back();
  for (size_t k = 0; k + 1 < kernels.size(); ++k) {
    mine.name = kernels[k].name;
    if (kernel::print(mine) != kernel::print(kernels[k])) continue;
    kernels.pop_back();
    work_.taken.erase(call.name);
    return {mine.name, call.scalars};
  }
  return call;
}

void KernelMaker::drop() { work_.taken.erase(kernel_.name); }

}  // namespace weft::lower
