// Double binary tree: two trees, each of which carries half of the data, such that a rank that has children in one is a
// leaf of the other (Sanders, Speck, Traff, Parallel Computing 2009; NCCL 2.4). So everybody sends S up and S down, the
// chain's bytes, with 2 log2 n hops instead of 2 (n-1): pipelined by chunk, for large numbers of ranks and all but the
// largest sizes.
//
// Channel c belongs to tree c % 2, hence two channels at least. A tree over places 0..m-1 hangs by the lowest set bit
// (as NCCL's do); the second one is mirrored (m even) or shifted by one (m odd). A rooted collective hangs both under its
// root. Elements of different channels are summed by different trees: order any.
#include <algorithm>

#include "weft/algo/shapes.h"
#include "weft/algo/traits.h"

namespace weft::algo {
namespace {

using namespace plan;

// base: the rank at place 0; m: the ranks that the trees have (all, or all but the root); v: this rank's place in its
// channel's tree, b its lowest set bit; pv, av, bv: parent's and children's places; top: the child of place 0; pr: the
// parent's rank; up, c0, c1: parent and children as ranks. The root of a rooted collective stands outside (u >= m).
constexpr std::string_view definitions = R"(m = {m}
u = (r-{base}+n) % n
v = sel(c % 2 == 0, [u], sel([m] % 2 == 0, [m]-1-[u], ([u]+[m]-1) % max([m], 1)))
b = [v] & -[v]
pv = sel([u] >= [m] or [v] == 0, none, sel([v] ^ [b] | 2*[b] < [m], [v] ^ [b] | 2*[b], [v] ^ [b]))
av = sel([u] >= [m], sel([m] > 0, 0, none), sel([b] > 1, [v]-[b]/2, none))
top = sel([m] > 1, p2floor([m]-1), none)
bv = sel([u] >= [m], none, sel([v] == 0, [top], sel([b] > 1 and [v]+1 < [m], [v]+p2floor(min([b]/2, [m]-1-[v])), none)))
pr = {base}+sel(c % 2 == 0, [pv], sel([m] % 2 == 0, [m]-1-[pv], ([pv]+1) % max([m], 1)))
up = sel([u] < [m] and [v] == 0, {above}, [pr])
c0 = {base}+sel(c % 2 == 0, [av], sel([m] % 2 == 0, [m]-1-[av], ([av]+1) % max([m], 1)))
c1 = {base}+sel(c % 2 == 0, [bv], sel([m] % 2 == 0, [m]-1-[bv], ([bv]+1) % max([m], 1)))
)";

// The definitions as lets of a plan: [v] is tree_v with the site's suffix.
struct Trees {
  Id up, c0, c1;
  std::vector<Let> lets;
  Trees(Collective collective, const Expr& root, const Id& suffix)
      : up("tree_up" + suffix), c0("tree_c0" + suffix), c1("tree_c1" + suffix) {
    const bool rooted = collective != Collective::all_reduce;
    const std::string above = rooted ? "(" + expr::print(root, expr::Syntax::plan) + ")" : "none";
    const std::string text =
        fmt::format(fmt::runtime(definitions), fmt::arg("m", rooted ? "n-1" : "n"),
                    fmt::arg("base", rooted ? "(" + above + "+1)" : "0"), fmt::arg("above", above));
    for (size_t at = 0; at < text.size();) {
      const size_t equals = text.find(" = ", at), end = text.find('\n', at);
      lets.push_back({"tree_" + text.substr(at, equals - at) + suffix,
                      number(named(text.substr(equals + 3, end - equals - 3), suffix))});
      at = end + 1;
    }
  }

 private:
  static std::string named(const std::string& text, const Id& suffix) {
    std::string result;
    for (const char c : text) {
      if (c == '[')
        result += "tree_";
      else if (c == ']')
        result += suffix;
      else
        result += c;
    }
    return result;
  }
};

class Tree : public Described {
 public:
  Tree()
      : Described({.name = "tree",
                   .order = Order::any,
                   .round = Round::hops,
                   .carrier = Carrier::links,
                   .collectives = joints_of_whole,
                   .gather_family = "down"}) {}
  int channel_multiple() const override { return 2; }
  Owner owner(Collective) const override { return Owner::root; }

  Half scatter(const ScatterSite& site) const override {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    const Id& f = site.family;
    const Trees tree(site.collective, site.root, site.suffix);
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
    const Trees tree(site.collective, site.root, site.suffix);
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
