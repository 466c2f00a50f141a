// Pairwise two-shot over links: everybody sends part j of its contribution to rank j, rank j folds what it gets in rank
// order, and sends the result to everybody. (Reduce-scatter and all-gather by direct exchange: Thakur, Rabenseifner,
// Gropp, IJHPCA 2005, section 4; also the schedule of most all_to_all implementations.)
//
// The bytes are the ring's, 2 (n-1)/n S, in two hops instead of 2 (n-1), and the sum of every element is the left fold
// over ranks, rounded once. What it costs is n-1 open links a rank. The default where buffers cannot be mapped.
#include "weft/algo/shapes.h"

namespace weft::algo {
namespace {

using namespace plan;

class Pairwise : public Algorithm {
 public:
  std::string_view name() const override { return "pairwise"; }
  Order order() const override { return Order::rank; }
  Round round() const override { return Round::once; }
  bool needs_mapped() const override { return false; }
  bool supports(Collective) const override { return true; }
  Owner owner(Collective c) const override {
    return c == Collective::broadcast || c == Collective::reduce ? Owner::root : Owner::part;
  }

  Half scatter(const ScatterSite& site) const override {
    if (site.collective == Collective::reduce) return star_reduce(site, site.root);
    Half half;
    const Id& f = site.family;
    half.families = {family(site)};
    half.head = {
        each("j", "1", "n", {copy("feed" + site.suffix, slice(site.buffer, part("r+j")), {send(f, peer("r+j"))})})};
    half.joint.label = site.joint;
    half.joint.reduction = site.reduction;
    half.joint.reduced = {receive(f, peers("0", "r")), slice(site.buffer, part("r")), receive(f, peers("r+1", "n"))};
    return half;
  }

  Half gather(const GatherSite& site) const override {
    if (site.collective == Collective::broadcast) return star_spread(site, site.root);
    Half half;
    const Id& f = site.family;
    half.families = {family(site)};
    half.joint.label = site.joint;
    half.joint.targets =
        slices(site.homes, part("r")) + std::vector{send(f, peers("0", "r")), send(f, peers("r+1", "n"))};
    half.tail = {
        each("j", "1", "n", {copy("last" + site.suffix, receive(f, peer("r-j")), slices(site.homes, part("r-j")))})};
    return half;
  }

  Cost cost(Collective collective, int ranks, double bytes) const override {
    if (owner(collective) == Owner::root) return star_cost(collective, ranks, bytes);
    const double others = ranks - 1, shots = collective == Collective::all_reduce ? 2 : 1;
    return {shots * others / ranks * bytes, shots * others, ranks > 1 ? shots : 0};
  }
};

}  // namespace

const Algorithm& pairwise() {
  static const Pairwise algorithm;
  return algorithm;
}

}  // namespace weft::algo
