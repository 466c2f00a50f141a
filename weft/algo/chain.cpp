// Chain: rank 0 hands its contribution to rank 1, which adds its own and hands on; the last rank has the sum and hands
// it down again. Pipelined by chunk, each direction carries S: at full duplex the ring's time with the left fold over
// ranks for every element, rounded once where the wire is as wide as the accumulator. 2 (n-1) hops.
//
// Down is a lane of its own: in one lane a rank would wait out a round trip for every chunk.
#include "weft/algo/shapes.h"
#include "weft/algo/traits.h"

namespace weft::algo {
namespace {

using namespace plan;

class Chain : public Described {
 public:
  Chain()
      : Described({.name = "chain",
                   .order = Order::rank,
                   .round = Round::hops,
                   .carrier = Carrier::links,
                   .collectives = joints_of_whole,
                   .gather_family = "down"}) {}
  Owner owner(Collective) const override { return Owner::root; }

  Half scatter(const ScatterSite& site) const override {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    Half half = upward(site);
    if (site.collective == Collective::reduce) bring_to_root(half, site);
    return half;
  }

  Half gather(const GatherSite& site) const override {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    return site.collective == Collective::broadcast ? relay_spread(site, site.root) : downward(site);
  }

  Cost cost(Collective collective, int ranks, double bytes) const override {
    if (ranks == 1) return {0, 0, 0};
    const double hops = ranks - 1;
    if (collective == Collective::broadcast) return relay_cost(collective, ranks, bytes);
    if (collective == Collective::reduce) return {bytes, 1, hops + 1, bytes, hops + 1};
    const double ways = ranks > 2 ? 2 : 1;  // a rank in the middle sends both ways
    return {ways * bytes, ways, 2 * hops, bytes, hops};
  }

 private:
  static std::vector<Let> neighbours() {
    return {{"lo", number("sel(r > 0, r-1, none)")}, {"hi", number("sel(r < n-1, r+1, none)")}};
  }

  static Half upward(const ScatterSite& site) {
    Half half;
    const Id& f = site.family;
    half.owner = Owner::root;
    half.guard = number("r == n-1");
    half.families = {family(site)};
    half.lets = neighbours();
    const std::vector<Operand> sources = {receive(f, peer("lo")), slice(site.buffer, whole(site.all))};
    half.head = {when("r < n-1", {reduce("red" + site.suffix, site.reduction, sources, {send(f, peer("hi"))})})};
    half.joint.label = site.joint;
    half.joint.reduction = site.reduction;
    half.joint.reduced = sources;
    return half;
  }

  // The last rank has the sum; the root's joint reads it from a chunk of scratch, sent or already there.
  static void bring_to_root(Half& half, const ScatterSite& site) {
    const Id& f = site.family;
    const Parts all = whole(site.all);
    Buffer arrived;
    arrived.name = "arrived" + site.suffix;
    arrived.space = site.space;
    arrived.dtype = site.dtype;
    arrived.depth = 1;
    const Expr last = number("r == n-1"), root = same(number("r"), site.root),
               root_is_last = same(site.root, number("n-1"));
    const auto both = [](const Expr& a, const Expr& b) { return expr::binary(expr::Op::and_, a, b); };
    const std::vector<Operand> sources = half.joint.reduced;
    half.head.push_back(when(both(last, other(site.root, number("n-1"))),
                             {reduce("end" + site.suffix, site.reduction, sources, {send(f, {site.root, nullptr})})}));
    half.head.push_back(when(both(last, root_is_last),
                             {reduce("here" + site.suffix, site.reduction, sources, {slice(arrived.name, all)})}));
    half.head.push_back(when(both(root, other(site.root, number("n-1"))),
                             {copy("get" + site.suffix, receive(f, peer("n-1")), {slice(arrived.name, all)})}));
    half.guard = root;
    half.joint.reduced.clear();
    half.joint.others = {slice(arrived.name, all)};
    half.scratch = {arrived};
  }

  static Half downward(const GatherSite& site) {
    Half half;
    const Parts all = whole(site.all);
    GatherSite below = site;
    if (below.family.empty()) below.family = "down" + site.suffix;
    const Id& f = below.family;
    half.owner = Owner::root;
    half.guard = number("r == n-1");
    half.families = {family(below)};
    half.lets = neighbours();
    half.joint.label = site.joint;
    const Operand forward = send(f, peer("lo"));
    half.joint.targets = slices(site.homes, all) + std::vector{forward};
    Loop loop;
    loop.spaces = {site.space};
    loop.slices = site.slices;
    const Id fwd = "fwd" + site.suffix;
    loop.body = {when("r < n-1", {copy(fwd, receive(f, peer("hi")), slices(site.homes, all) + std::vector{forward})})};
    half.lanes = {{f, {loop}}};
    Await arrived = after(fwd);
    arrived.lane = f;
    half.behind = {wait("done" + site.suffix, {arrived})};
    return half;
  }
};

}  // namespace

const Algorithm& chain() {
  static const Chain algorithm;
  return algorithm;
}

}  // namespace weft::algo
