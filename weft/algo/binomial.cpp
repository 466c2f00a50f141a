// Binomial trees: in round k the ranks that have something serve the ones at distance 2^k from them, so that their
// number doubles (Thakur, Rabenseifner, Gropp, IJHPCA 2005, section 4; the tree of MPI's small broadcasts).
//
// ceil(log2 n) hops, but the root sends S in every round: for small sizes. Ranks count from the root, v = r - root;
// v's children are v + 2^k below its lowest set bit. A reduction folds the nearest child first, by the same tree for
// every element (order fixed). scatter and gather send each child the parts of its whole subtree in one message.
#include <algorithm>
#include <bitset>

#include "weft/algo/shapes.h"
#include "weft/algo/traits.h"

namespace weft::algo {
namespace {

using namespace plan;

// Names of the lets of a tree with this root: place, number of children, parent.
struct Tree {
  Id place, kids, parent;
  std::vector<Let> lets;
  Tree(const std::string& root, const Id& suffix)
      : place("bin_v" + suffix), kids("bin_kids" + suffix), parent("bin_up" + suffix) {
    lets = {{place, number(fmt::format("(r-({})+n) % n", root))},
            {kids, number(fmt::format("sel({0} == 0, log2c(n), min(log2c({0} & -{0}), log2c(n-{0})))", place))},
            {parent, number(fmt::format("sel({0} == 0, none, r-({0} & -{0}))", place))}};
  }
  std::string nearest() const { return fmt::format("{} <= 1", kids); }
  Peers last_child() const { return peer(fmt::format("sel({0} > 0, r+(1 << max({0}-1, 0)), none)", kids)); }
};

std::string text(const Expr& root) { return root ? expr::print(root, expr::Syntax::plan) : "0"; }

class Binomial : public Described {
 public:
  Binomial()
      : Described({.name = "binomial",
                   .order = Order::fixed,
                   .round = Round::hops,
                   .carrier = Carrier::links,
                   .collectives = {Collective::all_reduce, Collective::broadcast, Collective::reduce,
                                   Collective::scatter, Collective::gather},
                   .gather_family = "down"}) {}
  Owner owner(Collective) const override { return Owner::root; }

  Half scatter(const ScatterSite& site) const override {
    if (!has_joint(site.collective) || !supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    const Id& f = site.family;
    const Tree tree(root_of(site.collective, site.root), site.suffix);
    const Parts all = algo::whole(site.all);
    const Operand sums = slice("sums" + site.suffix, all);
    const std::vector<Operand> last = held(site, all, tree.nearest()) + std::vector{receive(f, tree.last_child())};
    half.owner = Owner::root;
    half.guard = same(expr::name(tree.place), expr::integer(0));
    half.families = {family(site)};
    half.lets = tree.lets;
    half.scratch = {partial_sums(site)};
    half.head = {
        each("j", "0", tree.kids + "-1",
             {add(site, "red", held(site, all, "j == 0") + std::vector{receive(f, peer("r+(1 << j)"))}, sums)}),
        when(tree.place + " != 0", {add(site, "up", last, send(f, peer(tree.parent)))})};
    half.joint.label = site.joint;
    half.joint.reduction = site.reduction;
    half.joint.reduced = last;
    return half;
  }

  Half gather(const GatherSite& site) const override {
    if (!has_joint(site.collective) || !supports(site.collective)) unsupported(*this, site.collective);
    GatherSite below = site;
    const bool own_lane = site.collective == Collective::all_reduce;
    if (own_lane && below.family.empty()) below.family = "down" + site.suffix;
    Half half;
    const Tree tree(root_of(site.collective, site.root), site.suffix);
    const Parts all = algo::whole(site.all);
    half.owner = Owner::root;
    half.guard = same(expr::name(tree.place), expr::integer(0));
    half.families = {family(below)};
    half.lets = tree.lets;
    half.joint.label = site.joint;
    half.joint.targets = slices(site.homes, all);
    const Id get = "get" + site.suffix, fwd = "fwd" + site.suffix, put = "put" + site.suffix;
    const auto hand_on = [&](const Id& label) {
      return each("j", "0", tree.kids,
                  {copy(label, slice(site.homes.front(), all),
                        {send(below.family, peer(fmt::format("r+(1 << {}-1-j)", tree.kids)))})});
    };
    half.tail = {when(tree.place + " == 0", {hand_on(put)})};
    const When rest =
        when(tree.place + " != 0",
             {copy(get, receive(below.family, peer(tree.parent)), slices(site.homes, all)), hand_on(fwd)});
    if (own_lane)
      add_lane(half, below, rest, {get, fwd});
    else
      half.tail.push_back(rest);
    return half;
  }

  // With counts for each part these would need all counts on all ranks; of scatter_v and gather_v only the root has
  // them.
  std::optional<Plan> whole_plan(const PlanRequest& request) const override {
    if (has_joint(request.collective)) return std::nullopt;
    const std::string lets = R"(let v = (r-root+n) % n
let low = sel(v == 0, 1 << log2c(n), v & -v)
let kids = sel(v == 0, log2c(n), min(log2c(low), log2c(n-v)))
let up = sel(v == 0, none, r-low)
space s parts n )" + std::string(request.counts == Counts::given ? "given" : "even") +
                             "{grain}\n";
    return plan_from_text(*this, request,
                          lets + std::string(request.collective == Collective::scatter ? scatter_text : gather_text));
  }

  // Of the root, which serves log2 n others; a whole value passes as many ranks.
  Cost cost(Collective collective, int ranks, double bytes) const override {
    if (ranks == 1) return {0, 0, 0};
    const double rounds = log2_ceiling(ranks), least = (ranks - 1.0) / ranks * bytes;
    double depth = 0;
    for (int v = 1; v < ranks; ++v) depth = std::max<double>(depth, std::bitset<32>(static_cast<unsigned>(v)).count());
    switch (collective) {
      case Collective::scatter: return {least, rounds, depth};
      case Collective::gather: return {subtree(ranks) / ranks * bytes, 1, depth, 0, 1, least, rounds};
      case Collective::reduce: return {bytes, 1, depth, rounds * bytes, 1, rounds * bytes, rounds};
      case Collective::broadcast: return {rounds * bytes, rounds, depth};
      default: return {rounds * bytes, rounds, 2 * depth, rounds * bytes, 2};
    }
  }

 private:
  static std::string root_of(Collective collective, const Expr& root) {
    return collective == Collective::all_reduce ? "0" : text(root);
  }

  // Down is a lane of its own: in one lane a rank would wait out a round trip for every chunk.
  static void add_lane(Half& half, const GatherSite& site, const When& rest, const std::vector<Id>& labels) {
    half.lanes = {{site.family, {Loop{{site.space}, site.slices, {rest}}}}};
    std::vector<Await> awaits;
    for (const Id& label : labels) {
      awaits.push_back(after(label));
      awaits.back().lane = site.family;
    }
    half.behind = {wait("done" + site.suffix, awaits)};
  }

  // Parts that the largest subtree below the root has.
  static double subtree(int ranks) {
    double most = 0;
    for (int d = 1; d < ranks; d *= 2) most = std::max<double>(most, std::min(d, ranks - d));
    return most;
  }

  static constexpr std::string_view scatter_text = R"(buffer x s T in
buffer y s T out own r
buffer t s T scratch depth 1
link main {link}
post y[p] = x@root[p]
lane main:
  loop s{loop}
    when v == 0:
      own: x[r] -> y[r]
      for j in 0..kids:
        put: x[r+(1<<kids-1-j) : min(1<<kids-1-j, n-(1<<kids-1-j))] -> >r+(1<<kids-1-j)
    when v != 0:
      get: <up -> t[r : min(low, n-v)]
      for j in 0..kids:
        fwd: t[r+(1<<kids-1-j) : min(1<<kids-1-j, n-v-(1<<kids-1-j))] -> >r+(1<<kids-1-j)
      last: t[r] -> y[r]
)";
  static constexpr std::string_view gather_text = R"(buffer x s T in own r
buffer y s T out
buffer t s T scratch depth 1
link main {link}
post y[p] = x@sel(r == root, p, none)[p]
lane main:
  loop s{loop}
    when v == 0:
      own: x[r] -> y[r]
      for j in 0..kids:
        get: <r+(1<<j) -> y[r+(1<<j) : min(1<<j, n-(1<<j))]
    when v != 0:
      feed: x[r] -> t[r]
      for j in 0..kids:
        take: <r+(1<<j) -> t[r+(1<<j) : min(1<<j, n-v-(1<<j))]
      up: t[r : min(low, n-v)] -> >up
)";
};

}  // namespace

const Algorithm& binomial() {
  static const Binomial algorithm;
  return algorithm;
}

}  // namespace weft::algo
