// Direct two-shot over mapped memory: rank r reads part r of every peer's contribution, folds them in rank order, and
// writes the result into every peer's memory. No message, no copy, one pass: each byte crosses between ranks once.
//
// `ready` says that a rank's buffers may be read and written in this launch, `done` waits until all peers have done so;
// both are one word a peer. One memory domain only (shared memory, NVLink). Broadcast is pulled: all ranks copy from
// the root at once, chunk by chunk behind it, because one rank's stores to all the others would be the bottleneck.
#include "weft/algo/build.h"
#include "weft/algo/traits.h"

namespace weft::algo {
namespace {

using namespace plan;

class Direct : public Described {
 public:
  Direct()
      : Described({.name = "direct",
                   .order = Order::rank,
                   .round = Round::once,
                   .carrier = Carrier::mapped,
                   .collectives = {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                                   Collective::broadcast, Collective::reduce, Collective::scatter, Collective::gather,
                                   Collective::all_to_all, Collective::barrier}}) {}
  Owner owner(Collective c) const override {
    return c == Collective::broadcast || c == Collective::reduce ? Owner::root : Owner::part;
  }

  Half scatter(const ScatterSite& site) const override {
    Half half = handshake(site.suffix, site.joint, site.handshake);
    half.mapped = {site.buffer};
    half.joint.reduction = site.reduction;
    half.joint.reduced = {slice_at(site.buffer, everyone(), part("r"))};
    if (site.collective == Collective::reduce) at_root(half, site);
    return half;
  }

  Half gather(const GatherSite& site) const override {
    if (site.collective == Collective::broadcast) return pull(site);
    Half half = handshake(site.suffix, site.joint, site.handshake);
    half.mapped = site.homes;
    for (const Id& home : site.homes) half.joint.targets.push_back(slice_at(home, everyone(), part("r")));
    return half;
  }

  // Bytes that a rank moves between ranks: reads of peers' memory and writes to it. There are no messages.
  Cost cost(Collective collective, int ranks, double bytes) const override {
    if (ranks == 1) return {0, 0, 0};
    const double others = ranks - 1;
    switch (collective) {
      case Collective::all_reduce: return {2 * others / ranks * bytes, 0, 2, others / ranks * bytes};
      case Collective::reduce_scatter: return {others / ranks * bytes, 0, 2, others / ranks * bytes};
      case Collective::reduce: return {others * bytes, 0, 2, others * bytes};
      case Collective::broadcast: return {bytes, 0, 2};
      case Collective::barrier: return {0, 0, 1};
      case Collective::scatter:
      case Collective::gather: return {bytes / ranks, 0, 2};  // each rank fetches or stores its own part
      default: return {others / ranks * bytes, 0, 2};
    }
  }

  std::optional<Plan> whole_plan(const PlanRequest& request) const override {
    switch (request.collective) {
      case Collective::scatter: return plan_from_text(*this, request, scatter_text);
      case Collective::gather: return plan_from_text(*this, request, gather_text);
      case Collective::all_to_all: return plan_from_text(*this, request, all_to_all_text);
      case Collective::barrier: {
        PlanRequest one = request;
        one.channels = 1;
        return plan_from_text(*this, one, barrier_text);
      }
      default: return std::nullopt;
    }
  }

 private:
  static constexpr std::string_view scatter_text = R"(space s parts n even{grain}
buffer x s T in mapped
buffer y s T out own r
post y[p] = x@root[p]
lane main:
  ready:
  loop s:
    get: x@root[r] -> y[r] after ready@root
  when r == root:
    done: after get@0..n
)";
  static constexpr std::string_view gather_text = R"(space s parts n even{grain}
buffer x s T in own r
buffer y s T out mapped
post y[p] = x@sel(r == root, p, none)[p]
lane main:
  ready:
  loop s:
    put: x[r] -> y@root[r] after ready@root
  when r == root:
    done: after put@0..n
)";
  // Two lanes, since an await of another rank waits until that rank has left the block.
  static constexpr std::string_view barrier_text = R"(lane arrive:
  here:
lane main:
  there: after arrive.here@0..n
)";
  // Everybody fetches, beginning behind itself, so that no two ranks read one peer at a time.
  static constexpr std::string_view all_to_all_text = R"(space s parts n equal{grain}
buffer x s T in mapped
buffer y s T out
post y[p] = x@p[r]
lane main:
  ready:
  loop s:
    for j in 0..n:
      get: x@r+j[r] -> y[r+j] after ready@r+j
  done: after get@0..n
)";

  // ready; ... joint after ready@0..n ...; done after fin@0..n.
  static Half handshake(const Id& suffix, const Id& joint, const Id& earlier) {
    Half half;
    const Id ready = earlier.empty() ? "ready" + suffix : earlier;
    if (earlier.empty()) half.before = {wait(ready, {})};
    half.joint.label = joint;
    half.joint.after = {after(ready, everyone())};
    half.behind = {wait("done" + suffix, {after(joint, everyone())})};
    return half;
  }

  // The others wait in the loop: without a step in it, `ready` and `done` would be one block, and a peer that waits for
  // `ready` waits until its block is left.
  static void at_root(Half& half, const ScatterSite& site) {
    half.owner = Owner::root;
    half.guard = same(number("r"), site.root);
    half.joint.reduced = {slice_at(site.buffer, everyone(), whole(site.all))};
    half.head = {when(other(number("r"), site.root),
                      {wait("seen" + site.suffix, {after(site.joint, Peers{site.root, nullptr})})})};
    half.behind.clear();
  }

  static Half pull(const GatherSite& site) {
    Half half;
    const Expr elsewhere = other(number("r"), site.root), root = same(number("r"), site.root);
    const Parts all = whole(site.all);
    const Id last = "last" + site.suffix;
    half.owner = Owner::root;
    half.guard = root;
    half.mapped = {site.homes.front()};
    half.joint.label = site.joint;
    half.joint.targets = slices(site.homes, all);
    Step step = copy(last, slice_at(site.homes.front(), {site.root, nullptr}, all), slices(site.homes, all));
    step.after = {after(site.joint, Peers{site.root, nullptr})};
    half.tail = {when(elsewhere, {step})};
    half.behind = {when(root, {wait("done" + site.suffix, {after(last, everyone())})})};
    return half;
  }
};

}  // namespace

const Algorithm& direct() {
  static const Direct algorithm;
  return algorithm;
}

}  // namespace weft::algo
