// Bruck: ceil(log2 n) rounds for any number of ranks (Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 1997).
//
// all_gather: in round k a rank has the parts r .. r+2^k-1 and sends them to r-2^k, so that what it has doubles; parts
// wrap, so nothing is rotated. reduce_scatter is that backwards: (n-1)/n S each, in log messages whose size doubles
// with the distance. (PAT, pat.cpp, sends the small ones far.) all_to_all: block i travels distance i, in round k by
// 2^k if bit k of i is set: about S/2 log2 n bytes, but n-1-ceil(log2 n) messages fewer than pairwise. A sum begins at
// another rank for every part: order any.
#include "weft/algo/shapes.h"
#include "weft/algo/traits.h"

namespace weft::algo {
namespace {

using namespace plan;

class Bruck : public Described {
 public:
  Bruck()
      : Described({.name = "bruck",
                   .order = Order::any,
                   .round = Round::hops,
                   .carrier = Carrier::links,
                   .collectives = {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                                   Collective::all_to_all},
                   .given = joints_of_parts}) {}
  Owner owner(Collective) const override { return Owner::part; }

  // Round j of the reducing half goes 2^(K-1-j) ranks; what no one has added to yet is copied in the first.
  Half scatter(const ScatterSite& site) const override {
    if (!has_joint(site.collective) || !supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    const Id& f = site.family;
    half.families = {family(site)};
    half.lets = lets();
    half.scratch = {partial_sums(site)};
    const std::string far = "(1 << bruck_rounds-1-j)", count = fmt::format("min({0}, n-{0})", far);
    const Id sums = "sums" + site.suffix;
    const Parts mine = parts("r", count);
    half.head = {when("n > 2 and 2*bruck_half > n",
                      {copy("rest" + site.suffix, slice(site.buffer, parts("r+n-bruck_half", "2*bruck_half-n")),
                            {slice(sums, parts("r+n-bruck_half", "2*bruck_half-n"))})}),
                 each("j", "0", "bruck_rounds-1",
                      {add(site, "put", held(site, parts("r+" + far, count), "j == 0"), send(f, peer("r+" + far))),
                       add(site, "red", std::vector{receive(f, peer("r-" + far))} + held(site, mine, "j == 0"),
                           slice(sums, mine))}),
                 when("n > 1", {add(site, "end", held(site, part("r+1"), "n == 2"), send(f, peer("r+1")))})};
    half.joint.label = site.joint;
    half.joint.reduction = site.reduction;
    half.joint.reduced = std::vector{receive(f, peer("sel(n > 1, r-1, none)"))} + held(site, part("r"), "n <= 2");
    return half;
  }

  Half gather(const GatherSite& site) const override {
    if (!has_joint(site.collective) || !supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    const Id& f = site.family;
    half.families = {family(site)};
    half.lets = lets();
    half.joint.label = site.joint;
    half.joint.targets = slices(site.homes, part("r"));
    const std::string count = "min(1 << j, n-(1 << j))";
    half.tail = {each(
        "j", "0", "bruck_rounds",
        {copy("fwd" + site.suffix, slice(site.homes.front(), parts("r", count)), {send(f, peer("r-(1 << j)"))}),
         copy("get" + site.suffix, receive(f, peer("r+(1 << j)")), slices(site.homes, parts("r+(1 << j)", count)))})};
    return half;
  }

  std::optional<Plan> whole_plan(const PlanRequest& request) const override {
    if (request.collective != Collective::all_to_all) return std::nullopt;
    return plan_from_text(*this, request, R"(let rounds = log2c(n)
space s parts n equal{grain}
buffer x s T in
buffer y s T out
buffer t s T scratch depth 1
link main {link}
post y[p] = x@p[r]
lane main:
  loop s{loop}
    own: x[r] -> y[r]
    for i in 1..n:
      rot: x[r+i] -> t[i]
    for k in 0..rounds:
      put: t[1<<k : (n >> k+1)*(1<<k) + max(0, (n & (2<<k)-1) - (1<<k)) by 2<<k run 1<<k] -> >r+(1<<k)
      get: <r-(1<<k) -> t[1<<k : (n >> k+1)*(1<<k) + max(0, (n & (2<<k)-1) - (1<<k)) by 2<<k run 1<<k]
    for i in 1..n:
      inv: t[i] -> y[r-i]
)");
  }

  Cost cost(Collective collective, int ranks, double bytes) const override {
    if (ranks == 1) return {0, 0, 0};
    const double rounds = log2_ceiling(ranks);
    double blocks = 0;
    for (int d = 1; d < ranks; d *= 2)
      for (int i = 1; i < ranks; ++i) blocks += (i & d) != 0 ? 1 : 0;
    if (collective == Collective::all_to_all) return {blocks / ranks * bytes, rounds, rounds};
    const double halves = collective == Collective::all_reduce ? 2 : 1, least = (ranks - 1.0) / ranks * bytes;
    return {halves * least, halves * rounds, halves * rounds, collective == Collective::all_gather ? 0 : least};
  }

 private:
  static std::vector<Let> lets() {
    return {{"bruck_rounds", number("log2c(n)")}, {"bruck_half", number("1 << max(log2c(n)-1, 0)")}};
  }
};

}  // namespace

const Algorithm& bruck() {
  static const Bruck algorithm;
  return algorithm;
}

}  // namespace weft::algo
