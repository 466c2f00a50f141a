// Gather to one, then broadcast: what is written first and measured against ever after. Rank 0's link carries
// (n-1) S both ways. Never the choice, always the yardstick.
#include "weft/algo/shapes.h"
#include "weft/algo/traits.h"

namespace weft::algo {
namespace {

using namespace plan;

class Gather : public Described {
 public:
  Gather()
      : Described({.name = "gather",
                   .order = Order::rank,
                   .round = Round::once,
                   .carrier = Carrier::links,
                   .collectives = joints}) {}
  Owner owner(Collective c) const override {
    return c == Collective::reduce_scatter || c == Collective::all_gather ? Owner::part : Owner::root;
  }

  Half scatter(const ScatterSite& site) const override {
    if (site.collective == Collective::reduce) return star_reduce(site, site.root);
    if (site.collective == Collective::all_reduce) return star_reduce(site, expr::integer(0));
    return scatter_from_zero(site);
  }

  Half gather(const GatherSite& site) const override {
    if (site.collective == Collective::broadcast) return star_spread(site, site.root);
    if (site.collective == Collective::all_reduce) return star_spread(site, expr::integer(0));
    return gather_at_zero(site);
  }

  // Of the busiest rank: rank 0, but for reduce_scatter, where the others send everything.
  Cost cost(Collective collective, int ranks, double bytes) const override {
    if (ranks == 1) return {0, 0, 0};
    const double others = ranks - 1;
    switch (collective) {
      case Collective::all_reduce: return {others * bytes, others, 2, others * bytes};
      case Collective::reduce_scatter:
        return {bytes, static_cast<double>(ranks), 2, others * bytes, 1, others * bytes, others * ranks};
      case Collective::all_gather: return {others * others / ranks * bytes, others * others, 2};
      default: return star_cost(collective, ranks, bytes);
    }
  }

 private:
  // Rank 0 folds part after part and sends each to its owner, who finds it in a chunk of scratch.
  static Half scatter_from_zero(const ScatterSite& site) {
    Half half;
    const Id& f = site.family;
    Buffer arrived;
    arrived.name = "arrived" + site.suffix;
    arrived.space = site.space;
    arrived.dtype = site.dtype;
    arrived.own = number("r");
    arrived.depth = 1;
    const auto folded = [&](std::string_view j) {
      return std::vector{slice(site.buffer, part(j)), receive(f, peers("1", "n"))};
    };
    half.families = {family(site)};
    half.scratch = {arrived};
    half.head = {
        when("r == 0",
             {reduce("mine" + site.suffix, site.reduction, folded("0"), {slice(arrived.name, part("r"))}),
              each("j", "1", "n", {reduce("red" + site.suffix, site.reduction, folded("j"), {send(f, peer("j"))})})}),
        when("r > 0",
             {each("j", "0", "n", {copy("feed" + site.suffix, slice(site.buffer, part("j")), {send(f, peer("0"))})}),
              copy("get" + site.suffix, receive(f, peer("0")), {slice(arrived.name, part("r"))})})};
    half.joint.label = site.joint;
    half.joint.others = {slice(arrived.name, part("r"))};
    return half;
  }

  static Half gather_at_zero(const GatherSite& site) {
    Half half;
    const Id& f = site.family;
    half.families = {family(site)};
    half.joint.label = site.joint;
    half.joint.targets = slices(site.homes, part("r")) + std::vector{send(f, peer("sel(r > 0, 0, none)"))};
    const Body spread = {copy("spread" + site.suffix, slice(site.homes.front(), part("j")),
                              {send(f, peers("1", "max(j, 1)")), send(f, peers("j+1", "n"))})};
    half.tail = {
        when("r == 0",
             {each("j", "1", "n", {copy("get" + site.suffix, receive(f, peer("j")), slices(site.homes, part("j")))}),
              each("j", "0", "n", spread)}),
        when("r > 0", {each("j", "0", "n",
                            {when("j != r", {copy("last" + site.suffix, receive(f, peer("0")),
                                                  slices(site.homes, part("j")))})})})};
    return half;
  }
};

}  // namespace

const Algorithm& gather_all() {
  static const Gather algorithm;
  return algorithm;
}

}  // namespace weft::algo
