// Kernels: the bodies of steps, printed into the plan. Lets are put in place, names become the plan's, program scalars
// and sizes become launch scalars in the program's order.
#include "weft/lower/kernels.h"

#include <algorithm>

namespace weft::lower {
namespace {

void add_name(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

bool is_launch_scalar(const Work& work, const std::string& name) {
  return std::find(work.scalars.begin(), work.scalars.end(), name) != work.scalars.end();
}

// index(d) of a value with several dimensions is not what a kernel's index means, which counts elements.
void check_positions(const Work& work, const ir::Op& op, const expr::Expr& value) {
  size_t dims = work.types.at(op.name).shape.size();
  for (const ir::Name& arg : op.args) dims = std::max(dims, work.types.at(arg).shape.size());
  expr::visit(value, [&](const expr::Node& node) {
    if (node.op != expr::Op::call || node.name != "index" || dims <= 1) return;
    unsupported(op, "index(d) of a value with several dimensions", "hand the indices in as a tensor");
  });
}

}  // namespace

KernelMaker::KernelMaker(Work& work, const std::string& base) : work_(work) { kernel_.name = work.fresh("k_" + base); }

void KernelMaker::input(const plan::Id& name) { add_name(kernel_.inputs, name); }

expr::Expr KernelMaker::body(const ir::Op& op) {
  check_positions(work_, op, op.value);
  const expr::Expr closed = expr::substitute(op.value, work_.lets);
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

void KernelMaker::average(const plan::Id& name) {
  kernel::Assignment line;
  line.name = name;
  line.value = expr::binary(expr::Op::div, expr::name(name), expr::name("ranks"));
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
