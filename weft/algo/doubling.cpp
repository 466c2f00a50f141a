// Recursive doubling: in each of log2 n rounds a rank exchanges all that it has with the partner at twice the distance,
// so that everybody has the sum at once (Thakur, Rabenseifner, Gropp, IJHPCA 2005, section 4.2). S log2 n bytes, half
// the hops of halving.cpp: for the smallest sizes on many ranks. Any number of ranks, by the fold of shapes.h.
// Everybody sums by the same tree, the lower rank's sum first: order fixed, and equal bits on all ranks.
#include "weft/algo/shapes.h"
#include "weft/algo/traits.h"

namespace weft::algo {
namespace {

using namespace plan;

class Doubling : public Described {
 public:
  Doubling()
      : Described({.name = "doubling",
                   .order = Order::fixed,
                   .round = Round::hops,
                   .carrier = Carrier::links,
                   .collectives = {Collective::all_reduce}}) {}
  Owner owner(Collective) const override { return Owner::everyone; }

  Half scatter(const ScatterSite& site) const override {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    const Id& f = site.family;
    const Parts all = algo::whole(site.all);
    const Operand sums = slice("sums" + site.suffix, all);
    const std::string partner = rank_of_core("(hd_core ^ 1 << j)"), last = rank_of_core("(hd_core ^ hd_m/2)");
    const std::string alone = "hd_home == none and hd_extra == none and n > 1";
    const auto had = [&](const std::string& first) { return held(site, all, first + " and hd_extra == none"); };
    const auto side = [&](const std::string& rank, std::string_view relation, const std::string& condition) {
      return receive(f, peer(fmt::format("sel({} and {} {} r, {}, none)", condition, rank, relation, rank)));
    };
    half.owner = Owner::everyone;
    half.families = {family(site)};
    half.lets = core_lets();
    half.scratch = {partial_sums(site)};
    half.head = {
        when("hd_home != none", {copy("fold" + site.suffix, slice(site.buffer, all), {send(f, peer("hd_home"))})}),
        when("hd_home == none",
             {when("hd_extra != none",
                   {add(site, "join", {slice(site.buffer, all), receive(f, peer("hd_extra"))}, sums)}),
              each("j", "0", "log2c(hd_m)-sel(hd_extra == none, 1, 0)",
                   {add(site, "put", had("j == 0"), send(f, peer(partner))),
                    add(site, "red",
                        std::vector{side(partner, "<", "j >= 0")} + had("j == 0") +
                            std::vector{side(partner, ">", "j >= 0")},
                        sums)}),
              when("hd_extra == none and n > 1", {add(site, "end", had("hd_m == 2"), send(f, peer(last)))}),
              when("hd_extra != none", {copy("give" + site.suffix, sums, {send(f, peer("hd_extra"))})})})};
    half.joint.label = site.joint;
    half.joint.reduction = site.reduction;
    half.joint.reduced = std::vector{receive(f, peer("hd_home")), side(last, "<", alone)} +
                         held(site, part_if("hd_home == none", all), "hd_m <= 2 and hd_extra == none") +
                         std::vector{side(last, ">", alone)};
    return half;
  }

  Half gather(const GatherSite& site) const override {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    half.owner = Owner::everyone;
    half.joint.label = site.joint;
    half.joint.targets = slices(site.homes, algo::whole(site.all));
    return half;
  }

  Cost cost(Collective, int ranks, double bytes) const override {
    const int m = largest_power_of_two(ranks);
    const double messages = log2_ceiling(m) + (m < ranks ? 1 : 0);
    return {messages * bytes, messages, folded_hops(ranks), messages * bytes};
  }
};

}  // namespace

const Algorithm& doubling() {
  static const Doubling algorithm;
  return algorithm;
}

}  // namespace weft::algo
