// merge x: the inverse of split, byte for byte.
//
//   x.s = reduce_scatter(op, e, d); x = all_gather(x.s)   ->   x = all_reduce(op, e)          (reduce and broadcast alike)
//
//   M1  x is the gather of its scatter
//   M2  nobody else reads x.s
// Bits: as split.
#include "weft/schedule/form.h"

namespace weft::schedule {
namespace {

class Merge : public Rewrite {
 public:
  std::string_view name() const override { return "merge"; }
  std::optional<Refusal> check(const ir::Program& program, const Args& args) const override {
    if (args.words.size() != 1) return malformed("merge", "merge x");
    return check_merge(form_of(program), args.words[0]);
  }
  ir::Program apply(const ir::Program& program, const Args& args) const override {
    Form form = form_of(program);
    apply_merge(form, args.words[0]);
    return form.program;
  }
  Bits bits(const ir::Program&, const Args&) const override { return Bits::order; }
};

}  // namespace

std::optional<Refusal> check_merge(const Form& form, const ir::Name& x) {
  const ir::Op* gather = gather_of_slice(form.program, x);
  const ir::Op* scatter = gather == nullptr ? nullptr : ir::find_op(form.program, gather->args[0]);
  if (scatter == nullptr || !is_scatter(*scatter))
    return Refusal{"M1", x, fmt::format("{} is not the gather of a scatter", x), "merge takes what split made", {x}};
  if (block_of(form.program, x) != nullptr || block_of(form.program, scatter->name) != nullptr)
    return Refusal{"M1", x, fmt::format("{} is in a block", x), "merge before fusing", {x}};
  for (const ir::Op* reader : ir::uses(form.program, scatter->name))
    if (reader->name != x)
      return Refusal{"M2",
                     x,
                     fmt::format("{} is read by {} too: the slice is needed", scatter->name, reader->name),
                     fmt::format("leave {} split, or leave the reorder of {} out", x, reader->name),
                     {scatter->name, reader->name}};
  if (is_live_out(form.program, scatter->name))
    return Refusal{"M2",
                   x,
                   fmt::format("{} is stored: the slice is needed", scatter->name),
                   fmt::format("leave {} split, or leave the store out", x),
                   {scatter->name}};
  return {};
}

void apply_merge(Form& form, const ir::Name& x) {
  ir::Op& gather = form.program.ops[position(form.program, x)];
  ir::Name slice = gather.args[0];
  const ir::Op scatter = form.program.ops[position(form.program, slice)];
  ir::Attrs attrs;
  attrs.reduce = scatter.attrs.reduce;
  gather = communication("all_reduce", x, scatter.args[0], attrs, scatter.line);
  std::erase_if(form.program.ops, [&slice](const ir::Op& op) { return op.name == slice; });
  form.types.erase(slice);
  canonicalize(form);
}

const Rewrite& merge_rewrite() {
  static const Merge rewrite;
  return rewrite;
}

}  // namespace weft::schedule
