// PAT, parallel aggregated trees (arXiv 2506.20252; NCCL 2.23): every part goes down a binomial tree of its own, and
// what a rank sends to the same rank in one round goes in one message. Like Bruck's algorithm but from far to near: the
// longest way carries one part, the next two, so that slow long links see small messages. ceil(log2 n) rounds and
// (n-1)/n S for any number of ranks. reduce_scatter is the mirror image: near first, with many parts.
//
// NCCL bounds the parts that a message aggregates by its buffer; here a chunk is chosen so that the largest message
// fits a slot (plan.h), which bounds the same memory. Sums begin at another rank for every part: order any.
#include "weft/algo/shapes.h"
#include "weft/algo/traits.h"

namespace weft::algo {
namespace {

using namespace plan;

// The parts whose trees lead from `from` to the rank at distance s: every second multiple of s behind it.
Parts aggregate(const std::string& from, const std::string& s) {
  Parts result = parts(from, fmt::format("(n-1-{0})/(2*{0})+1", s));
  result.by = number(fmt::format("-2*{}", s));
  return result;
}

class Pat : public Described {
 public:
  Pat()
      : Described({.name = "pat",
                   .order = Order::any,
                   .round = Round::hops,
                   .carrier = Carrier::links,
                   .collectives = joints_of_parts,
                   .given = joints_of_parts}) {}
  Owner owner(Collective) const override { return Owner::part; }

  // Round j brings sums from r+2^j. The part of rank r+1 comes from all others first; where n is odd nobody adds to it
  // before it is passed on, so it is copied.
  Half scatter(const ScatterSite& site) const override {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    const Id& f = site.family;
    half.families = {family(site)};
    half.lets = lets();
    half.scratch = {partial_sums(site)};
    const Id sums = "sums" + site.suffix;
    const Parts mine = aggregate("r", "(1 << j)");
    half.head = {
        when("n > 1 and n % 2 == 1",
             {copy("rest" + site.suffix, slice(site.buffer, part("r+1")), {slice(sums, part("r+1"))})}),
        each("j", "0", "pat_rounds-1",
             {add(site, "put", held(site, aggregate("r-(1 << j)", "(1 << j)"), "j == 0"), send(f, peer("r-(1 << j)"))),
              add(site, "red", held(site, mine, "j == 0") + std::vector{receive(f, peer("r+(1 << j)"))},
                  slice(sums, mine))}),
        when("n > 1", {add(site, "end", held(site, part("r-pat_far"), "n == 2"), send(f, peer("r-pat_far")))})};
    half.joint.label = site.joint;
    half.joint.reduction = site.reduction;
    half.joint.reduced = held(site, part("r"), "n <= 2") + std::vector{receive(f, peer("sel(n > 1, r+pat_far, none)"))};
    return half;
  }

  Half gather(const GatherSite& site) const override {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    const Id& f = site.family;
    const std::string s = "(1 << pat_rounds-1-j)";
    half.families = {family(site)};
    half.lets = lets();
    half.joint.label = site.joint;
    half.joint.targets = slices(site.homes, part("r"));
    half.tail = {
        each("j", "0", "pat_rounds",
             {copy("fwd" + site.suffix, slice(site.homes.front(), aggregate("r", s)), {send(f, peer("r+" + s))}),
              copy("get" + site.suffix, receive(f, peer("r-" + s)), slices(site.homes, aggregate("r-" + s, s)))})};
    return half;
  }

  Cost cost(Collective collective, int ranks, double bytes) const override {
    if (ranks == 1) return {0, 0, 0};
    const double rounds = log2_ceiling(ranks), halves = collective == Collective::all_reduce ? 2 : 1;
    const double least = (ranks - 1.0) / ranks * bytes;
    return {halves * least, halves * rounds, halves * rounds, collective == Collective::all_gather ? 0 : least};
  }

 private:
  static std::vector<Let> lets() {
    return {{"pat_rounds", number("log2c(n)")}, {"pat_far", number("1 << max(log2c(n)-1, 0)")}};
  }
};

}  // namespace

const Algorithm& pat() {
  static const Pat algorithm;
  return algorithm;
}

}  // namespace weft::algo
