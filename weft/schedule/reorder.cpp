// reorder y ..: computations (and sends) move before the gather that feeds them, one after the other.
//
//   x = all_gather(x.s); y = f(x, w)       ->   y.s = f(x.s, w); y = all_gather(y.s)
//   x = all_gather(x.s); y = sum(x * x)    ->   y.p = sum(x.s * x.s); y = all_reduce(sum, y.p)
//   x = all_gather(x.s); y = send(x, 1)    ->   y.s = send(x.s, 1); y = all_gather(y.s)
//
// Gathers that nobody needs go (N1), live-outs keep theirs.
//   R1  a computation or a send, not cut yet, in no block
//   R2  it is replicated
//   R3  an operand comes from a gather (else something between was left out)
//   R4  inference accepts y.s
//   R5  something is divided
// Bits: kept for maps, sends, folds not over the cut; matmul and sums over the cut to tolerance.
#include "weft/schedule/form.h"

namespace weft::schedule {
namespace {

class Reorder : public Rewrite {
 public:
  std::string_view name() const override { return "reorder"; }

  std::optional<Refusal> check(const ir::Program& program, const Args& args) const override {
    if (args.words.empty()) return malformed("reorder", "reorder y, or reorder y z ...");
    Form form = form_of(program);
    for (const std::string& y : args.words) {
      Divided divided;
      if (std::optional<Refusal> refusal = divide(form, y, {}, &divided)) return refusal;
      apply_divided(form, y, std::move(divided));
    }
    return {};
  }

  ir::Program apply(const ir::Program& program, const Args& args) const override {
    Form form = form_of(program);
    walk(form, args);
    return form.program;
  }

  Bits bits(const ir::Program& program, const Args& args) const override {
    Form form = form_of(program);
    return walk(form, args);
  }

 private:
  static Bits walk(Form& form, const Args& args) {
    Bits weakest = Bits::kept;
    for (const std::string& y : args.words) {
      Divided divided;
      if (std::optional<Refusal> refusal = divide(form, y, {}, &divided)) refuse(*refusal);
      weakest = std::max(weakest, bits_of_divided(form, divided));
      apply_divided(form, y, std::move(divided));
    }
    return weakest;
  }
};

}  // namespace

const Rewrite& reorder_rewrite() {
  static const Reorder rewrite;
  return rewrite;
}

}  // namespace weft::schedule
