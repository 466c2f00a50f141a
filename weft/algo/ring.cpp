// Ring: each part travels once around, growing, and the sum once around again (Patarasuk and Yuan, JPDC 2009; NCCL's
// ring). Least bytes, 2 (n-1)/n S, over two neighbours only, which is why networks like it; 2 (n-1) hops.
//
// The sum of part p begins at rank p+1, so elements of different parts are folded in different rotations: order any.
// Partial sums travel: with a wire narrower than the accumulator they are rounded at every hop.
#include "weft/algo/shapes.h"
#include "weft/algo/traits.h"

namespace weft::algo {
namespace {

using namespace plan;

class Ring : public Described {
 public:
  Ring()
      : Described({.name = "ring",
                   .order = Order::any,
                   .round = Round::hops,
                   .carrier = Carrier::links,
                   .collectives = joints,
                   .gather_family = ""}) {}
  Owner owner(Collective c) const override {
    return c == Collective::broadcast || c == Collective::reduce ? Owner::root : Owner::part;
  }

  Half scatter(const ScatterSite& site) const override {
    if (site.collective == Collective::reduce) return reduce_to_root(site);
    Half half;
    const Id& f = site.family;
    half.families = {family(site)};
    half.lets = neighbours();
    half.head = {copy("feed" + site.suffix, slice(site.buffer, part("r-1")), {send(f, peer("next"))}),
                 each("j", "2", "n",
                      {reduce("red" + site.suffix, site.reduction,
                              {receive(f, peer("prev")), slice(site.buffer, part("r-j"))}, {send(f, peer("next"))})})};
    half.joint.label = site.joint;
    half.joint.reduction = site.reduction;
    half.joint.reduced = {receive(f, peer("prev")), slice(site.buffer, part("r"))};
    return half;
  }

  Half gather(const GatherSite& site) const override {
    if (site.collective == Collective::broadcast) return relay_spread(site, site.root);
    Half half;
    const Id& f = site.family;
    half.families = {family(site)};
    half.lets = neighbours();
    half.joint.label = site.joint;
    half.joint.targets = slices(site.homes, part("r")) + std::vector{send(f, peer("next"))};
    half.tail = {each("j", "1", "n-1",
                      {copy("fwd" + site.suffix, receive(f, peer("prev")),
                            slices(site.homes, part("r-j")) + std::vector{send(f, peer("next"))})}),
                 copy("last" + site.suffix, receive(f, peer("prev")), slices(site.homes, part("r+1")))};
    return half;
  }

  Cost cost(Collective collective, int ranks, double bytes) const override {
    if (owner(collective) == Owner::root) return relay_cost(collective, ranks, bytes);
    const double others = ranks - 1, shots = collective == Collective::all_reduce ? 2 : 1;
    const double least = others / ranks * bytes;
    return {shots * least, shots * others, shots * others, reduces(collective) ? least : 0};
  }

 private:
  // One rank is its own neighbour: then there is none, and the steps without sources or targets do nothing.
  static std::vector<Let> neighbours() {
    return {{"next", number("sel(n > 1, (r+1) % n, none)")}, {"prev", number("sel(n > 1, (r+n-1) % n, none)")}};
  }

  // From the rank behind the root up to the root.
  static Half reduce_to_root(const ScatterSite& site) {
    Half half;
    const Id& f = site.family;
    const Parts all = whole(site.all);
    const Id from = "reduce_from" + site.suffix;
    const Expr begins =
        same(number("r"),
             expr::binary(expr::Op::mod, expr::binary(expr::Op::add, site.root, expr::integer(1)), expr::name("n")));
    half.owner = Owner::root;
    half.guard = same(number("r"), site.root);
    half.families = {family(site)};
    half.lets = {{from, expr::call("sel", {begins, expr::name("none"), number("(r+n-1) % n")})}};
    const std::vector<Operand> sources = {receive(f, peer(from)), slice(site.buffer, all)};
    half.head = {when(other(number("r"), site.root),
                      {reduce("red" + site.suffix, site.reduction, sources, {send(f, peer("r+1"))})})};
    half.joint.label = site.joint;
    half.joint.reduction = site.reduction;
    half.joint.reduced = sources;
    return half;
  }
};

}  // namespace

const Algorithm& ring() {
  static const Ring algorithm;
  return algorithm;
}

}  // namespace weft::algo
