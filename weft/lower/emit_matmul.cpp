// A product of matrices is one whole step on channel 0: a tile of the size of the value. Its other sizes come as launch
// scalars: rows and columns of the second operand as this rank has it, and the batch where that has one.
#include "weft/lower/emit.h"

namespace weft::lower {

using namespace plan;

namespace {

expr::Expr text(const std::string& program_expression) {
  return expr::parse(program_expression, expr::Syntax::program);
}

// The extent of dimension d as this rank holds it; slices follow [r*N/n, (r+1)*N/n).
expr::Expr extent(const ir::Type& type, size_t d, const GroupMap& group) {
  const std::string size = type.shape[d].name.empty() ? std::to_string(type.shape[d].value) : type.shape[d].name;
  const auto* sliced = std::get_if<ir::Sliced>(&type.layout);
  if (!sliced || sliced->dim != static_cast<int>(d)) return text(size);
  return text(
      fmt::format("({1} + 1) * {0} / {2} - {1} * {0} / {2}", size, group.rank_of_launch(), group.size_of_launch()));
}

}  // namespace

void Emitter::matmul(const ir::Op& op) {
  const ir::Type& w = work_.types.at(op.args[1]);
  KernelMaker kernel(work_, work_.id(op.name));
  for (const ir::Name& arg : op.args) kernel.input(work_.id(arg));
  const Id base = work_.id(op.name);
  const size_t dims = w.shape.size();
  const GroupMap& group = work_.group(op.name);
  kernel.scalar("rows", base + "_rows", extent(w, dims - 2, group));
  kernel.scalar("cols", base + "_cols", extent(w, dims - 1, group));
  if (dims > 2) {
    expr::Expr batch = extent(w, 0, group);
    for (size_t d = 1; d + 2 < dims; ++d) batch = expr::binary(expr::Op::mul, batch, extent(w, d, group));
    kernel.scalar("batch", base + "_batch", batch);
  }
  kernel.matmul(work_.id(op.name), work_.id(op.args[0]), work_.id(op.args[1]));
  Step step;
  step.label = label("mm");
  for (const ir::Name& arg : op.args) {
    step.others.push_back(read(arg, {}, -1));
    add_await(step.after, arg, false);
  }
  step.kernel = kernel.finish({work_.id(op.name)});
  const bool sliced = std::holds_alternative<ir::Sliced>(work_.types.at(op.name).layout);
  step.targets = homes(op.name, sliced ? Site{Site::Kind::part, ""} : Site{});
  add_once_at(site(work_, op), {step});
  work_.matmul_scalars[op.name] = step.kernel.scalars;
  made_here(op.name, step.label);
}

}  // namespace weft::lower
