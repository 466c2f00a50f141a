#include "weft/algo/shapes.h"

namespace weft::algo {

using namespace plan;

namespace {

Expr rank() { return expr::name("r"); }

Half rooted(const Id& label, const Expr& root, Family used) {
  Half half;
  half.owner = Owner::root;
  half.joint.label = label;
  half.guard = same(rank(), root);
  half.families = {std::move(used)};
  return half;
}

}  // namespace

Half star_reduce(const ScatterSite& site, const Expr& root) {
  Half half = rooted(site.joint, root, family(site));
  const Id& f = site.family;
  const Parts all = whole(site.all);
  half.head = {
      when(other(rank(), root), {copy("feed" + site.suffix, slice(site.buffer, all), {send(f, {root, nullptr})})})};
  half.joint.reduction = site.reduction;
  half.joint.reduced = {receive(f, peers("0", "r")), slice(site.buffer, all), receive(f, peers("r+1", "n"))};
  return half;
}

Half star_spread(const GatherSite& site, const Expr& root) {
  Half half = rooted(site.joint, root, family(site));
  const Id& f = site.family;
  const Parts all = whole(site.all);
  half.joint.targets = slices(site.homes, all) + std::vector{send(f, peers("0", "r")), send(f, peers("r+1", "n"))};
  half.tail = {
      when(other(rank(), root), {copy("last" + site.suffix, receive(f, {root, nullptr}), slices(site.homes, all))})};
  return half;
}

// The lets say where the row ends: behind the rank before the root.
Half relay_spread(const GatherSite& site, const Expr& root) {
  Half half = rooted(site.joint, root, family(site));
  const Id& f = site.family;
  const Parts all = whole(site.all);
  const Id next = "spread_to" + site.suffix;
  half.lets = {{next, expr::call("sel", {same(number("(r+1) % n"), root), expr::name("none"), number("(r+1) % n")})}};
  const Operand forward = send(f, {expr::name(next), nullptr});
  half.joint.targets = slices(site.homes, all) + std::vector{forward};
  half.tail = {when(other(rank(), root), {copy("fwd" + site.suffix, receive(f, peer("r+n-1")),
                                               slices(site.homes, all) + std::vector{forward})})};
  return half;
}

Buffer partial_sums(const ScatterSite& site) {
  Buffer sums;
  sums.name = "sums" + site.suffix;
  sums.space = site.space;
  sums.dtype = site.dtype;
  sums.depth = 1;
  return sums;
}

std::vector<Operand> held(const ScatterSite& site, const Parts& parts, const std::string& first) {
  return {slice(site.buffer, part_if(first, parts)),
          slice("sums" + site.suffix, part_if(fmt::format("not ({})", first), parts))};
}

Step add(const ScatterSite& site, const Id& label, std::vector<Operand> sources, Operand target) {
  return reduce(label + site.suffix, site.reduction, std::move(sources), {std::move(target)});
}

std::vector<Let> core_lets() {
  return {{"hd_m", number("p2floor(n)")},
          {"hd_e", number("n-hd_m")},
          {"hd_home", number("sel(r < 2*hd_e and r % 2 == 1, r-1, none)")},
          {"hd_extra", number("sel(r < 2*hd_e and r % 2 == 0, r+1, none)")},
          {"hd_core", number("sel(r < 2*hd_e, r/2, r-hd_e)")}};
}

std::string rank_of_core(const std::string& core) { return fmt::format("min(2*({0}), {0}+hd_e)", core); }

int largest_power_of_two(int ranks) {
  int m = 1;
  while (2 * m <= ranks) m *= 2;
  return m;
}

int log2_ceiling(int ranks) {
  int rounds = 0;
  while (1 << rounds < ranks) ++rounds;
  return rounds;
}

double folded_hops(int ranks) {
  const int m = largest_power_of_two(ranks), extras = ranks - m;
  return log2_ceiling(m) + (extras > 0 ? 1 : 0) + (2 * extras > m ? 1 : 0);
}

Algorithm::Cost star_cost(Collective collective, int ranks, double bytes) {
  if (ranks == 1) return {0, 0, 0};
  const double others = ranks - 1;
  if (collective == Collective::broadcast) return {others * bytes, others, 1};
  Algorithm::Cost cost{bytes, 1, 1, others * bytes};
  cost.bytes_received = others * bytes;
  cost.messages_received = others;
  return cost;
}

Algorithm::Cost relay_cost(Collective collective, int ranks, double bytes) {
  if (ranks == 1) return {0, 0, 0};
  const double hops = ranks - 1;
  return {bytes, 1, hops, collective == Collective::broadcast ? 0 : bytes, hops};
}

}  // namespace weft::algo
