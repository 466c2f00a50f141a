// Double binary tree: two trees, each of which carries half of the data, such that a rank that has children in one is a
// leaf of the other (Sanders, Speck, Traff, Parallel Computing 2009; NCCL 2.4). So everybody sends S up and S down, the
// chain's bytes, with 2 log2 n hops instead of 2 (n-1): pipelined by chunk, for large numbers of ranks and all but the
// largest sizes.
//
// Channel c belongs to tree c % 2, hence two channels at least. A tree over places 0..m-1 hangs by the lowest set bit
// (nccl.md, C); the second one is mirrored (m even) or shifted by one (m odd). A rooted collective hangs both under its
// root. Elements of different channels are summed by different trees: order any.
#include <algorithm>

#include "weft/algo/shapes.h"

namespace weft::algo {
namespace {

using namespace plan;

// base: the rank at place 0 of the ring of places; m: how many ranks the trees have (all, or all but the root).
struct Trees {
  Id up, c0, c1;
  std::vector<Let> lets;
  Trees(const std::string& base, const std::string& m, const Id& suffix)
      : up("tree_up" + suffix), c0("tree_c0" + suffix), c1("tree_c1" + suffix) {
    const Id u = "tree_u" + suffix, v = "tree_v" + suffix, b = "tree_b" + suffix;
    const auto rank = [&](const std::string& place) {
      return fmt::format("({1})+sel(c % 2 == 0, {0}, sel(({2}) % 2 == 0, ({2})-1-({0}), ({0}+1) % max({2}, 1)))", place,
                         base, m);
    };
    const auto let = [&](const Id& name, const std::string& value) { lets.push_back({name, number(value)}); };
    let(u, fmt::format("(r-({})+n) % n", base));
    let(v, fmt::format("sel(c % 2 == 0, {0}, sel(({1}) % 2 == 0, ({1})-1-{0}, ({0}+({1})-1) % max({1}, 1)))", u, m));
    let(b, fmt::format("{0} & -{0}", v));
    const std::string outer = fmt::format("{} >= {}", u, m);  // the root of a rooted collective
    const bool rooted = m != "n";
    let(up, fmt::format("sel({0}, none, sel({1} == 0, {2}, {3}))", outer, v, rooted ? base + "-1" : "none",
                        rank(fmt::format("sel({0} ^ {1} | 2*{1} < {2}, {0} ^ {1} | 2*{1}, {0} ^ {1})", v, b, m))));
    let(c0, fmt::format("sel({0}, sel({1} > 0, {2}, none), sel({3} > 1, {4}, none))", outer, m, rank("0"), b,
                        rank(fmt::format("({}-{}/2)", v, b))));
    let(c1,
        fmt::format("sel({0}, none, sel({1} == 0, sel({2} > 1, {3}, none), sel({4} > 1 and {1}+1 < {2}, {5}, none)))",
                    outer, v, m, rank(fmt::format("p2floor(max({}-1, 1))", m)), b,
                    rank(fmt::format("({0}+p2floor(max(min({1}/2, {2}-1-{0}), 1)))", v, b, m))));
  }
};

std::string text(const Expr& root) { return expr::print(root, expr::Syntax::plan); }

Trees trees(Collective collective, const Expr& root, const Id& suffix) {
  if (collective == Collective::all_reduce) return {"0", "n", suffix};
  return {"(" + text(root) + "+1)", "(n-1)", suffix};
}

class Tree : public Algorithm {
 public:
  std::string_view name() const override { return "tree"; }
  Order order() const override { return Order::any; }
  Round round() const override { return Round::hops; }
  bool needs_mapped() const override { return false; }
  Id gather_family() const override { return "down"; }
  int channel_multiple() const override { return 2; }
  bool supports(Collective c) const override {
    return c == Collective::all_reduce || c == Collective::broadcast || c == Collective::reduce;
  }
  Owner owner(Collective) const override { return Owner::root; }

  Half scatter(const ScatterSite& site) const override {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    const Id& f = site.family;
    const Trees tree = trees(site.collective, site.root, site.suffix);
    const std::vector<Operand> sources = {receive(f, peer(tree.c0)), receive(f, peer(tree.c1)),
                                          slice(site.buffer, algo::whole(site.all))};
    half.owner = Owner::root;
    half.guard = number(tree.up + " == none");
    half.families = {family(site)};
    half.lets = tree.lets;
    half.head = {when(tree.up + " != none", {add(site, "feed", sources, send(f, peer(tree.up)))})};
    half.joint.label = site.joint;
    half.joint.reduction = site.reduction;
    half.joint.reduced = sources;
    return half;
  }

  Half gather(const GatherSite& site) const override {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    GatherSite below = site;
    const bool own_lane = site.collective == Collective::all_reduce;
    if (own_lane && below.family.empty()) below.family = "down" + site.suffix;
    const Id &f = below.family, fwd = "fwd" + site.suffix;
    const Trees tree = trees(site.collective, site.root, site.suffix);
    Half half;
    half.owner = Owner::root;
    half.guard = number(tree.up + " == none");
    half.families = {family(below)};
    half.lets = tree.lets;
    half.joint.label = site.joint;
    const std::vector<Operand> targets =
        slices(site.homes, algo::whole(site.all)) + std::vector{send(f, peer(tree.c0)), send(f, peer(tree.c1))};
    half.joint.targets = targets;
    const When rest = when(tree.up + " != none", {copy(fwd, receive(f, peer(tree.up)), targets)});
    if (!own_lane) {
      half.tail = {rest};
      return half;
    }
    half.lanes = {{f, {Loop{{site.space}, site.slices, {rest}}}}};  // in one lane: a round trip for every chunk
    Await arrived = after(fwd);
    arrived.lane = f;
    half.behind = {wait("done" + site.suffix, {arrived})};
    return half;
  }

  // Shares of S by the numbers of children that a rank has in the two trees.
  Cost cost(Collective collective, int ranks, double bytes) const override {
    const bool rooted = collective != Collective::all_reduce;
    const int m = rooted ? ranks - 1 : ranks;
    Cost most{0, 0, 0};
    if (ranks == 1) return most;
    const double up = collective == Collective::broadcast ? 0 : 1, down = collective == Collective::reduce ? 0 : 1;
    for (int u = 0; u < ranks; ++u) {
      const Load load = load_of(u, m, rooted);
      most.messages = std::max(most.messages, up * load.parents + down * load.children);
      most.messages_received = std::max(most.messages_received, up * load.children + down * load.parents);
      most.bytes_folded = std::max(most.bytes_folded, up * load.children / 2 * bytes);
    }
    most.bytes_sent = most.messages / 2 * bytes;
    most.bytes_received = most.messages_received / 2 * bytes;
    most.stages = depth(m) + (rooted ? 1 : 0);
    most.hops = rooted ? most.stages : 2 * most.stages;
    return most;
  }

 private:
  struct Load {
    double parents = 0, children = 0;
  };
  static Load load_of(int u, int m, bool rooted) {
    if (u >= m) return {0, 2};  // the root: one child in each tree
    Load load;
    for (int t = 0; t < 2; ++t) {
      const int v = t == 0 ? u : m % 2 == 0 ? m - 1 - u : (u + m - 1) % m;
      const int b = v & -v;
      load.parents += v != 0 || rooted ? 1 : 0;
      load.children += v == 0 ? (m > 1 ? 1 : 0) : (b > 1 ? 1 : 0) + (b > 1 && v + 1 < m ? 1 : 0);
    }
    return load;
  }
  // Ranks below the tree's root on the longest way down.
  static int depth(int m) {
    int deepest = 0;
    for (int v = 1; v < m; ++v) {
      int steps = 0;
      for (int at = v; at != 0; ++steps) {
        const int b = at & -at;
        at = ((at ^ b) | 2 * b) < m ? (at ^ b) | 2 * b : at ^ b;
      }
      deepest = std::max(deepest, steps);
    }
    return deepest;
  }
};

}  // namespace

const Algorithm& tree() {
  static const Tree algorithm;
  return algorithm;
}

}  // namespace weft::algo
