// narrow y f16: fewer bytes on the wire, other numbers, on every rank alike.
//
//   y = all_gather(y.s)   ->   y.s16 = f16(y.s); y16 = all_gather(y.s16); y = f32(y16)
//
//   G1  y is a gather of slices, in no block
//   G2  the wire type is a float of fewer bytes than y's, and y is a float
// Bits: changes numbers. Registered and checked; apply refuses as unsupported. The wire type is the dtype of what is
// communicated, always, so a program that gathers p = f16(w1) has half the bytes by reorder alone, and keeps its bits.
#include "weft/base/error.h"
#include "weft/schedule/form.h"

namespace weft::schedule {
namespace {

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

class Narrow : public Rewrite {
 public:
  std::string_view name() const override { return "narrow"; }
  std::optional<Refusal> check(const ir::Program& program, const Args& args) const override {
    std::optional<Dtype> wire = args.words.size() == 2 ? parse_dtype(args.words[1]) : std::nullopt;
    if (!wire) return malformed("narrow", "narrow y f16");
    return check_narrow(form_of(program), args.words[0], *wire);
  }
  ir::Program apply(const ir::Program&, const Args& args) const override {
    throw Error(ErrorKind::unsupported,
                fmt::format("narrow {}: wire types other than the value's do not exist yet", args.words[0]),
                "cast in the program: what is gathered travels in its own dtype");
  }
  Bits bits(const ir::Program&, const Args&) const override { return Bits::numerics; }
};

}  // namespace

const Rewrite& narrow_rewrite() {
  static const Narrow rewrite;
  return rewrite;
}

}  // namespace weft::schedule
