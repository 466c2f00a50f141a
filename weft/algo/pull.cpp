// Pull over mapped memory: like direct, but every byte is fetched by who needs it, never stored into a peer's memory.
//
// A store into lines that a peer's core has in its cache waits until that core gives them up, and the peer then misses
// on every one of them; a load of fresh lines is served by the other cache at 7 to 28 GB/s. So for what fits caches the
// second shot of an all_reduce is fetched: part p lies finished in rank p's own result, and the others copy it from
// there, chunk by chunk behind it. It costs one word more per chunk and peer. all_gather and broadcast are fetched from the
// inputs, without a copy at their owners that others would wait for.
#include "weft/algo/build.h"
#include "weft/algo/traits.h"

namespace weft::algo {
namespace {

using namespace plan;

class Pull : public Described {
 public:
  Pull()
      : Described({.name = "pull",
                   .order = Order::rank,
                   .round = Round::once,
                   .carrier = Carrier::mapped,
                   .collectives = {Collective::all_reduce, Collective::all_gather, Collective::broadcast}}) {}
  Owner owner(Collective c) const override { return c == Collective::broadcast ? Owner::everyone : Owner::part; }

  Half scatter(const ScatterSite& site) const override {
    if (site.collective != Collective::all_reduce) unsupported(*this, site.collective);
    Half half;
    const Id ready = site.handshake.empty() ? "ready" + site.suffix : site.handshake;
    if (site.handshake.empty()) half.before = {wait(ready, {})};
    half.mapped = {site.buffer};
    half.joint.label = site.joint;
    half.joint.after = {after(ready, everyone())};
    half.joint.reduction = site.reduction;
    half.joint.reduced = {slice_at(site.buffer, everyone(), part("r"))};
    return half;
  }

  // A rank writes its own memory only, so nobody need say that it may be written; `done` says that all have fetched.
  Half gather(const GatherSite& site) const override {
    if (site.collective == Collective::broadcast) unsupported(*this, site.collective);
    Half half;
    const Id last = "last" + site.suffix;
    half.mapped = {site.homes.front()};
    half.joint.label = site.joint;
    half.joint.targets = slices(site.homes, part("r"));
    Step step = copy(last, slice_at(site.homes.front(), peer("r+j"), part("r+j")), slices(site.homes, part("r+j")));
    step.after = {after(site.joint, peer("r+j"))};
    half.tail = {each("j", "1", "n", {step})};
    half.behind = {wait("done" + site.suffix, {after(last, everyone())})};
    return half;
  }

  std::optional<Plan> whole_plan(const PlanRequest& request) const override {
    if (request.collective == Collective::broadcast) return plan_from_text(*this, request, broadcast_text);
    if (request.collective == Collective::all_gather) return plan_from_text(*this, request, all_gather_text);
    return std::nullopt;
  }

  Cost cost(Collective collective, int ranks, double bytes) const override {
    if (ranks == 1) return {0, 0, 0};
    const double others = ranks - 1;
    if (collective == Collective::broadcast) return {bytes, 0, 2};
    if (collective == Collective::all_gather) return {others / ranks * bytes, 0, 2};
    return {2 * others / ranks * bytes, 0, 3, others / ranks * bytes};
  }

 private:
  // From the contributions themselves, while their owners copy them; everybody begins behind itself.
  static constexpr std::string_view all_gather_text = R"(space s parts n even{grain}
buffer x s T in mapped own r
buffer y s T out
post y[p] = x@p[p]
lane main:
  ready:
  loop s:
    for j in 1..n:
      get: x@r+j[r+j] -> y[r+j] after ready@r+j
    own: x[r] -> y[r]
  done: after get@0..n
)";
  static constexpr std::string_view broadcast_text = R"(space s parts 1 even{grain}
buffer x s T in mapped
buffer y s T out
post y[p] = x@root[p]
lane main:
  ready:
  loop s:
    get: x@root[0] -> y[0] after ready@root
  when r == root:
    done: after get@0..n
)";
};

}  // namespace

const Algorithm& pull() {
  static const Pull algorithm;
  return algorithm;
}

}  // namespace weft::algo
