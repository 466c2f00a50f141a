// narrow y f16: fewer bytes on the wire, other numbers, on every rank alike.
//
//   y = all_gather(y.s)   ->   y.n.s = f16(y.s); y.n = all_gather(y.n.s); y = f32(y.n)
//
//   G1  y is a gather of slices, in no block
//   G2  the wire type is a float of fewer bytes than y's, and y is a float
// Bits: changes numbers, on the owner as everywhere else; who works on slices still reads the exact y.s. The wire type is
// the dtype of what is communicated, always, so a program that gathers p = f16(w1) has half the bytes by reorder alone,
// and keeps its bits. Not covered by erase-and-compare: y is another value.
#include "weft/base/error.h"
#include "weft/schedule/form.h"

namespace weft::schedule {
namespace {

ir::Op cast(std::string_view dtype, const ir::Name& name, const ir::Name& of, const SourceLine& line) {
  ir::Op op;
  op.name = name;
  op.def = definition("map");
  op.args = {of};
  op.value = expr::call(std::string(dtype), {expr::name(of)});
  op.line = line;
  return op;
}

class Narrow : public Rewrite {
 public:
  std::string_view name() const override { return "narrow"; }
  std::optional<Refusal> check(const ir::Program& program, const Args& args) const override {
    std::optional<Dtype> wire = args.words.size() == 2 ? parse_dtype(args.words[1]) : std::nullopt;
    if (!wire) return malformed("narrow", "narrow y f16");
    return check_narrow(form_of(program), args.words[0], *wire);
  }
  ir::Program apply(const ir::Program& program, const Args& args) const override {
    Form form = form_of(program);
    apply_narrow(form, args.words[0], *parse_dtype(args.words[1]));
    return form.program;
  }
  Bits bits(const ir::Program&, const Args&) const override { return Bits::numerics; }
};

}  // namespace

std::optional<Refusal> check_narrow(const Form& form, const ir::Name& y, Dtype wire) {
  if (gather_of_slice(form.program, y) == nullptr || block_of(form.program, y) != nullptr)
    return Refusal{
        "G1", y, fmt::format("{} is no gather of slices outside of blocks", y), "split or reorder it first", {y}};
  Dtype dtype = form.types.at(y).dtype;
  if (!is_float(dtype) || !is_float(wire) || size_bytes(wire) >= size_bytes(dtype))
    return Refusal{"G2",
                   y,
                   fmt::format("{} is {}: {} is not narrower", y, weft::name(dtype), weft::name(wire)),
                   "f16 or bf16 for f32",
                   {y}};
  return {};
}

void apply_narrow(Form& form, const ir::Name& y, Dtype wire) {
  const size_t at = position(form.program, y);
  const ir::Op gather = form.program.ops[at];
  const std::string narrow = gather.name + ".n";
  const std::string_view wide = weft::name(form.types.at(gather.name).dtype);
  const std::vector<ir::Op> ops = {
      cast(weft::name(wire), narrow + ".s", gather.args[0], gather.line),
      communication(gather.def->name, narrow, narrow + ".s", gather.attrs, gather.line),
      cast(wide, gather.name, narrow, gather.line),
  };
  form.program.ops.erase(form.program.ops.begin() + static_cast<ptrdiff_t>(at));
  form.program.ops.insert(form.program.ops.begin() + static_cast<ptrdiff_t>(at), ops.begin(), ops.end());
  for (const ir::Op& op : ops) {
    form.types[op.name] = form.types.at(op.name == narrow + ".s" ? gather.args[0] : gather.name);
    if (op.name != gather.name) form.types[op.name].dtype = wire;
  }
}

const Rewrite& narrow_rewrite() {
  static const Narrow rewrite;
  return rewrite;
}

}  // namespace weft::schedule
