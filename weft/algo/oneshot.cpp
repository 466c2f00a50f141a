// One-shot: everybody reduces everything, so there is nothing to send back. One hop instead of two for (n-1) S instead
// of 2 (n-1)/n S bytes: right for small sizes. Two forms: over mapped memory (`oneshot`: read all peers in place) and
// over links (`mesh`: send everything to everybody, meant for LL messages of a few bytes).
#include "weft/algo/build.h"

namespace weft::algo {
namespace {

using namespace plan;

class Everyone : public Algorithm {
 public:
  Order order() const override { return Order::rank; }
  Round round() const override { return Round::once; }
  bool supports(Collective collective) const override { return collective == Collective::all_reduce; }
  Owner owner(Collective) const override { return Owner::everyone; }

  Half gather(const GatherSite& site) const override {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    half.owner = Owner::everyone;
    half.joint.label = site.joint;
    half.joint.targets = slices(site.homes, whole(site.all));
    return half;
  }

  Cost cost(Collective, int ranks, double bytes) const override {
    const double others = ranks - 1;
    return {others * bytes, needs_mapped() ? 0 : others, ranks > 1 ? 1.0 : 0.0, others * bytes};
  }

 protected:
  Half begin(const ScatterSite& site) const {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    half.owner = Owner::everyone;
    half.joint.label = site.joint;
    half.joint.reduction = site.reduction;
    return half;
  }
};

class Oneshot : public Everyone {
 public:
  std::string_view name() const override { return "oneshot"; }
  bool needs_mapped() const override { return true; }
  Half scatter(const ScatterSite& site) const override {
    Half half = begin(site);
    const Id ready = site.handshake.empty() ? "ready" + site.suffix : site.handshake;
    half.mapped = {site.buffer};
    if (site.handshake.empty()) half.before = {wait(ready, {})};
    half.joint.reduced = {slice_at(site.buffer, everyone(), whole(site.all))};
    half.joint.after = {after(ready, everyone())};
    half.behind = {wait("done" + site.suffix, {after(site.joint, everyone())})};
    return half;
  }
};

class Mesh : public Everyone {
 public:
  std::string_view name() const override { return "mesh"; }
  bool needs_mapped() const override { return false; }
  Half scatter(const ScatterSite& site) const override {
    Half half = begin(site);
    const Id& f = site.family;
    const Parts all = whole(site.all);
    half.families = {family(site)};
    half.head = {
        copy("feed" + site.suffix, slice(site.buffer, all), {send(f, peers("0", "r")), send(f, peers("r+1", "n"))})};
    half.joint.reduced = {receive(f, peers("0", "r")), slice(site.buffer, all), receive(f, peers("r+1", "n"))};
    return half;
  }
};

}  // namespace

const Algorithm& oneshot() {
  static const Oneshot algorithm;
  return algorithm;
}
const Algorithm& mesh() {
  static const Mesh algorithm;
  return algorithm;
}

}  // namespace weft::algo
