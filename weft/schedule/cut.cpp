// cut y d: divide what nothing forces to be divided.
//
//   y = f(w)                   ->   y.s = f(w) cut d; y = all_gather(y.s)
//   nw = sum(w * w by P)       ->   nw.p = sum(w * w by P) cut 0; nw = all_reduce(sum, nw.p)
//
// d is a dimension of the operands' common shape (of the result for matmul). Rules and bits as reorder, but for R3.
// LAMB needs it: nw reads only a replicated state, so nothing could be moved before a gather, and its w could not be
// stored in parts.
#include "weft/schedule/form.h"

namespace weft::schedule {
namespace {

class CutRewrite : public Rewrite {
 public:
  std::string_view name() const override { return "cut"; }

  std::optional<Refusal> check(const ir::Program& program, const Args& args) const override {
    if (args.words.size() != 2 || !parse_dimension(args.words[1])) return malformed("cut", "cut y 0");
    return divide(form_of(program), args.words[0], parse_dimension(args.words[1]), nullptr);
  }

  ir::Program apply(const ir::Program& program, const Args& args) const override {
    Form form = form_of(program);
    apply_divided(form, args.words[0], divided(form, args));
    return form.program;
  }

  Bits bits(const ir::Program& program, const Args& args) const override {
    Form form = form_of(program);
    return bits_of_divided(form, divided(form, args));
  }

 private:
  static Divided divided(const Form& form, const Args& args) {
    Divided result;
    if (std::optional<Refusal> refusal = divide(form, args.words[0], parse_dimension(args.words[1]), &result))
      refuse(*refusal);
    return result;
  }
};

}  // namespace

const Rewrite& cut_rewrite() {
  static const CutRewrite rewrite;
  return rewrite;
}

}  // namespace weft::schedule
