// Pairwise two-shot over links: everybody sends part j of its contribution to rank j, rank j folds what it gets in rank
// order, and sends the result to everybody. (Reduce-scatter and all-gather by direct exchange: Thakur, Rabenseifner,
// Gropp, IJHPCA 2005, section 4; also the schedule of most all_to_all implementations.)
//
// The bytes are the ring's, 2 (n-1)/n S, in two hops instead of 2 (n-1), and the sum of every element is the left fold
// over ranks, rounded once. What it costs is n-1 open links a rank. The default where buffers cannot be mapped.
#include "weft/algo/shapes.h"

namespace weft::algo {
namespace {

using namespace plan;

class Pairwise : public Algorithm {
 public:
  std::string_view name() const override { return "pairwise"; }
  Order order() const override { return Order::rank; }
  Round round() const override { return Round::once; }
  bool needs_mapped() const override { return false; }
  bool supports(Collective c) const override { return c != Collective::barrier; }
  bool supports(Collective c, Counts counts) const override {
    if (counts == Counts::exchanged) return c == Collective::all_to_all;
    return supports(c) && (counts == Counts::even || owner(c) == Owner::part);
  }
  Owner owner(Collective c) const override {
    const bool whole = c == Collective::broadcast || c == Collective::reduce || c == Collective::send_recv;
    return whole ? Owner::root : Owner::part;
  }

  Half scatter(const ScatterSite& site) const override {
    if (site.collective == Collective::reduce) return star_reduce(site, site.root);
    Half half;
    const Id& f = site.family;
    half.families = {family(site)};
    half.head = {
        each("j", "1", "n", {copy("feed" + site.suffix, slice(site.buffer, part("r+j")), {send(f, peer("r+j"))})})};
    half.joint.label = site.joint;
    half.joint.reduction = site.reduction;
    half.joint.reduced = {receive(f, peers("0", "r")), slice(site.buffer, part("r")), receive(f, peers("r+1", "n"))};
    return half;
  }

  Half gather(const GatherSite& site) const override {
    if (site.collective == Collective::broadcast) return star_spread(site, site.root);
    Half half;
    const Id& f = site.family;
    half.families = {family(site)};
    half.joint.label = site.joint;
    half.joint.targets =
        slices(site.homes, part("r")) + std::vector{send(f, peers("0", "r")), send(f, peers("r+1", "n"))};
    half.tail = {
        each("j", "1", "n", {copy("last" + site.suffix, receive(f, peer("r-j")), slices(site.homes, part("r-j")))})};
    return half;
  }

  Cost cost(Collective collective, int ranks, double bytes) const override {
    if (ranks == 1) return {0, 0, 0};
    if (collective == Collective::send_recv) return {bytes, 1, 1};
    if (collective == Collective::gather) {
      const double others = ranks - 1;
      return {bytes / ranks, 1, 1, 0, 1, others / ranks * bytes, others};
    }
    if (owner(collective) == Owner::root) return star_cost(collective, ranks, bytes);
    const double others = ranks - 1, shots = collective == Collective::all_reduce ? 2 : 1;
    return {shots * others / ranks * bytes, shots * others, shots, reduces(collective) ? others / ranks * bytes : 0};
  }

  std::optional<Plan> whole_plan(const PlanRequest& request) const override {
    const bool given = request.counts == Counts::given;
    switch (request.collective) {
      case Collective::scatter: return plan_from_text(*this, request, space(given) + std::string(scatter_text));
      case Collective::gather: return plan_from_text(*this, request, space(given) + std::string(gather_text));
      case Collective::send_recv: return plan_from_text(*this, request, pair(request) + std::string(send_text));
      case Collective::all_to_all: return all_to_all(request);
      default: return std::nullopt;
    }
  }

 private:
  static std::string space(bool given) {
    return fmt::format("space s parts n {}{{grain}}\n", given ? "given" : "even");
  }
  static std::string pair(const PlanRequest& request) {
    return fmt::format("param from = {}\nparam to = {}\nrequire from < n and to < n\n", request.from, request.to);
  }
  std::optional<Plan> all_to_all(const PlanRequest& request) const {
    if (request.counts == Counts::even) return plan_from_text(*this, request, all_to_all_text);
    if (request.counts == Counts::given)
      return plan_from_text(*this, request,
                            "space a parts n given{grain}\nspace b parts n given{grain}\n" +
                                std::string(all_to_all_v_text) + std::string(exchange_text));
    return plan_from_text(
        *this, request,
        std::string(counts_text) + std::string(all_to_all_v_text) + std::string(counts_lane) + waiting(exchange_text));
  }

  // The loop reads the counts when it begins: behind a step that waits for them.
  static std::string waiting(std::string_view lane) {
    std::string text(lane);
    const std::string head = "lane main:\n";
    return text.insert(text.find(head) + head.size(), "  known: after counts{{0}}.told, counts{{0}}.self\n");
  }

  static constexpr std::string_view scatter_text = R"(buffer x s T in
buffer y s T out own r
link main {link}
post y[p] = x@root[p]
lane main:
  loop s{loop}
    when r == root:
      own: x[r] -> y[r]
      for j in 1..n:
        put: x[r+j] -> >r+j
    when r != root:
      get: <root -> y[r]
)";
  static constexpr std::string_view gather_text = R"(buffer x s T in own r
buffer y s T out
link main {link}
post y[p] = x@sel(r == root, p, none)[p]
lane main:
  loop s{loop}
    when r == root:
      own: x[r] -> y[r]
      for j in 1..n:
        get: <r+j -> y[r+j]
    when r != root:
      put: x[r] -> >root
)";
  static constexpr std::string_view send_text = R"(space s parts 1 even{grain}
buffer x s T in own sel(r == from, 0, none)
buffer y s T out own sel(r == to, 0, none)
link main {link}
post y[p] = x@from[p]
lane main:
  loop s{loop}
    when r == from and from == to:
      own: x[0] -> y[0]
    when r == from and from != to:
      put: x[0] -> >to
    when r == to and from != to:
      get: <from -> y[0]
)";
  static constexpr std::string_view all_to_all_text = R"(space s parts n equal{grain}
buffer x s T in
buffer y s T out
link main {link}
post y[p] = x@p[r]
lane main:
  loop s{loop}
    own: x[r] -> y[r]
    for j in 1..n:
      put: x[r+j] -> >r+j
    for j in 1..n:
      get: <r-j -> y[r-j]
)";
  // Two spaces, what a rank sends and what it gets; part p of the one is what p has of the other.
  static constexpr std::string_view all_to_all_v_text = R"(buffer x a T in
buffer y b T out
link main {link}
post y[p] = x@p[r]
)";
  // Only the sender knows how much it sends: `sends` in, `gets` out, exchanged before any data.
  static constexpr std::string_view counts_text = R"(space e parts n fixed
space a parts n given by sends{grain}
space b parts n given by gets{grain}
buffer sends e i64 in
buffer gets e i64 out
link counts ll slots 4
post gets[p] = sends@p[r]
)";
  static constexpr std::string_view counts_lane = R"(lane counts:
  when c == 0:
    self: sends[r] -> gets[r]
    for j in 1..n:
      tell: sends[r+j] -> >r+j
    for j in 1..n:
      told: <r-j -> gets[r-j]
)";
  static constexpr std::string_view exchange_text = R"(lane main:
  loop a b{loop}
    own: x[r] -> y[r]
    for j in 1..n:
      put: x[r+j] -> >r+j
    for j in 1..n:
      get: <r-j -> y[r-j]
)";
};

}  // namespace

const Algorithm& pairwise() {
  static const Pairwise algorithm;
  return algorithm;
}

}  // namespace weft::algo
