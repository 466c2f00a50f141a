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

Algorithm::Cost star_cost(Collective collective, int ranks, double bytes) {
  if (ranks == 1) return {0, 0, 0};
  const double others = ranks - 1;
  return collective == Collective::broadcast ? Algorithm::Cost{others * bytes, others, 1}
                                             : Algorithm::Cost{bytes, 1, 1};
}

Algorithm::Cost relay_cost(Collective, int ranks, double bytes) {
  if (ranks == 1) return {0, 0, 0};
  return {bytes, 1, static_cast<double>(ranks - 1)};
}

}  // namespace weft::algo
