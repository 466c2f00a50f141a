// Barrier by dissemination: in round k a rank tells the one 2^k further that it and 2^k - 1 before it are there
// (Hensgen, Finkel, Manber, 1988). ceil(log2 n) messages of one byte; nobody is a bottleneck. Where memory is mapped
// the barrier is two awaits (direct.cpp).
#include "weft/algo/shapes.h"
#include "weft/algo/traits.h"

namespace weft::algo {
namespace {

using namespace plan;

class Dissemination : public Described {
 public:
  Dissemination()
      : Described({.name = "dissemination",
                   .order = Order::rank,
                   .round = Round::once,
                   .carrier = Carrier::links,
                   .collectives = {Collective::barrier}}) {}
  Owner owner(Collective) const override { return Owner::everyone; }

  std::optional<Plan> whole_plan(const PlanRequest& request) const override {
    PlanRequest one = request;
    one.channels = 1;
    one.dtype = "u8";
    one.wire.clear();
    return plan_from_text(*this, one, R"(space z parts 1 fixed
buffer a z T scratch
link main {link}
lane main:
  here: 0 -> a[0]
  for k in 0..log2c(n):
    put: a[0] -> >r+(1<<k)
    get: <r-(1<<k) -> a[0]
)");
  }

  Cost cost(Collective, int ranks, double) const override {
    const double rounds = log2_ceiling(ranks);
    return {rounds, rounds, rounds};
  }
};

}  // namespace

const Algorithm& dissemination() {
  static const Dissemination algorithm;
  return algorithm;
}

}  // namespace weft::algo
