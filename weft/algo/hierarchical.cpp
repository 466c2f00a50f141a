// Hierarchical: n = m hosts of g ranks, ranks of a host in a row. Inside a host memory is fast, between hosts one link
// is shared; so contributions are folded in the host first, and a rank sends only its g-th of the value across:
// (m-1)/(m g) S instead of (m-1)/m S (collectives.md). all_reduce = reduce_scatter in the host, all_reduce across with
// the ranks of the same place, all_gather in the host.
//
// Both levels are pairwise, which keeps an order: the sum of a host's ranks, then the sum of the hosts, the same for
// every element (order fixed). Three lanes, so that one chunk is folded in the host while another is on the way. A part
// goes to its own rank, i + q*g; what a rank handles in its host are the parts i, i+g, i+2g ...: one message.
#include <map>
#include <memory>
#include <mutex>

#include "weft/algo/build.h"

namespace weft::algo {
namespace {

using namespace plan;

constexpr std::string_view places = R"(param g = {g}
require n % g == 0
let m = n/g
let i = r % g
let q = r/g
let base = r - r % g
space s parts n {kind}{{grain}}
)";

// Down to the owner of each part; what is behind `tot` depends on the collective.
constexpr std::string_view reducing = R"(buffer t s T scratch depth 2
buffer u s T scratch depth 1
link host {{link}}
link across {{link}}
{more}lane host:
  loop s{{loop}}
{pre}    for j in 1..g:
      feed: {x}[(i+j) % g : m by g] -> >base+(i+j) % g
    fold: {sum}(<base..r, {x}[i : m by g], <r+1..base+g) -> t[i : m by g] after across.{joint} lag 2
lane across:
  loop s{{loop}}
    for j in 1..m:
      put: t[(r+j*g) % n] -> >r+j*g after host.fold
    for h in 0..m-1:
      red: {sum}(u[sel(h > 0, r, none)], <sel(h == q, none, h*g+i), t[sel(h == q, r, none)]) -> u[r]
    {joint}: {sum}(u[sel(m > 1, r, none)], <sel(q == m-1, none, (m-1)*g+i), t[sel(q == m-1, r, none)]){kernel} -> y[r] after host.fold
)";

constexpr std::string_view gathering = R"(    for j in 1..m:
      send: y[r] -> back>r+j*g
    for j in 1..m:
      get: back<r-j*g -> y[(r-j*g) % n]
lane spread:
  loop s{{loop}}
    for j in 1..g:
      fwd: y[i : m by g] -> >base+(i+j) % g after across.get, across.{joint}
    for j in 1..g:
      last: <base+(i-j) % g -> y[(i-j) % g : m by g]
)";

class Hierarchical : public Algorithm {
 public:
  explicit Hierarchical(int host_ranks) : g_(host_ranks), name_(fmt::format("hierarchical:{}", host_ranks)) {}
  std::string_view name() const override { return name_; }
  std::string plan_name() const override { return "hierarchical"; }
  Order order() const override { return Order::fixed; }
  Round round() const override { return Round::hops; }
  bool needs_mapped() const override { return false; }
  bool supports(Collective c) const override {
    return c == Collective::all_reduce || c == Collective::reduce_scatter || c == Collective::all_gather;
  }
  bool supports(Collective c, Counts counts) const override { return supports(c) && counts != Counts::exchanged; }
  bool supports_ranks(int ranks) const override { return ranks > 0 && ranks % g_ == 0; }
  Owner owner(Collective) const override { return Owner::part; }

  std::optional<Plan> whole_plan(const PlanRequest& request) const override {
    const Collective c = request.collective;
    std::string text = filled(places, request, "");
    text += fmt::format("buffer x s T in{}\nbuffer y s T out{}\n", c == Collective::all_gather ? " own r" : "",
                        c == Collective::reduce_scatter ? " own r"
                        : c == Collective::all_reduce   ? " alias x"
                                                        : "");
    if (c == Collective::all_gather) {
      text +=
          "link back {link}\nlink spread {link}\npost y[p] = x@p[p]\nlane across:\n  loop s{loop}\n    own: x[r] -> "
          "y[r]\n";
      return plan_from_text(*this, request, text + filled(gathering, request, "own"));
    }
    text += filled(reducing, request, "tot");
    if (c == Collective::all_reduce) text += filled(gathering, request, "tot");
    return plan_from_text(*this, request, text);
  }

  // In the host and across; the two do not share links, but a rank's sends are its own.
  Cost cost(Collective collective, int ranks, double bytes) const override {
    const double g = g_, m = ranks / g, halves = collective == Collective::all_reduce ? 2 : 1;
    const double inside = (g - 1) / g * bytes, across = (m - 1) / (m * g) * bytes;
    Cost cost{halves * (inside + across), halves * (g - 1 + m - 1), halves * ((g > 1 ? 1 : 0) + (m > 1 ? 1 : 0))};
    if (reduces(collective)) cost.bytes_folded = inside + across;
    return cost;
  }

 private:
  // Post and kernel stand in the reducing text's declarations.
  std::string filled(std::string_view text, const PlanRequest& request, const std::string& joint) const {
    const std::string sum(kernel::name(request.reduction));
    std::string more;
    if (request.collective == Collective::all_reduce) more = "link back {link}\nlink spread {link}\n";
    more += declarations(request, sum);
    const bool first = request.premultiply;
    return fmt::format(fmt::runtime(text), fmt::arg("g", g_),
                       fmt::arg("kind", request.counts == Counts::given ? "given" : "even"), fmt::arg("sum", sum),
                       fmt::arg("joint", joint), fmt::arg("kernel", request.average ? " -> avg" : ""),
                       fmt::arg("more", more), fmt::arg("x", first ? "px" : "x"),
                       fmt::arg("pre", first ? "    pre: x[0 : n] -> premul(scale) -> px[0 : n]\n" : ""));
  }

  static std::string declarations(const PlanRequest& request, const std::string& sum) {
    const std::string one = request.premultiply ? "premul(scale)(x@k[p])" : "x@k[p]";
    const std::string total = fmt::format("{}(k in 0..n: {})", sum, one);
    std::string text =
        request.average ? fmt::format("post y[p] = avg({})\n", total) : fmt::format("post y[p] = {}\n", total);
    if (request.average) text += kernel::print(average_kernel(request.dtype)) + "\n";
    if (request.premultiply)
      text = "buffer px s T scratch depth 1\n" + text + kernel::print(premultiply_kernel()) + "\n";
    return text;
  }

  int g_;
  std::string name_;
};

}  // namespace

const Algorithm& hierarchical(int host_ranks) {
  if (host_ranks < 1)
    throw Error(ErrorKind::user, fmt::format("hosts of {} ranks", host_ranks), "a host has at least one");
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<Hierarchical>> made;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Hierarchical>& one = made[host_ranks];
  if (!one) one = std::make_unique<Hierarchical>(host_ranks);
  return *one;
}

}  // namespace weft::algo
