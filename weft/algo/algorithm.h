// Algorithms: collective x parameters -> plan text. One file each, one registry.
//
// all_reduce is reduce_scatter joined with all_gather in one loop, and a fused collective is the same with a kernel at
// the joint. So an algorithm does not hand out whole plans but *halves*: what stands before the joint step (feed, red),
// the joint step's sources and targets, what stands behind it (fwd, last). The compiler (lower/) puts computations at
// the joint; join() with none gives the plain collective. Allowed only where the cell is final at its owner.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/plan/plan.h"

namespace weft::algo {

// The first five have a joint and are handed out as halves; the others move or wait and are whole plans only.
enum class Collective : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  scatter,
  gather,
  all_to_all,
  send_recv,
  barrier
};
std::string_view name(Collective collective);
constexpr bool has_joint(Collective c) { return c <= Collective::reduce; }
constexpr bool reduces(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce_scatter || c == Collective::reduce;
}
constexpr bool has_root(Collective c) {
  return c == Collective::broadcast || c == Collective::reduce || c == Collective::scatter || c == Collective::gather;
}

// How large the parts are. even: the whole is cut, sizes differ by at most a grain (all_to_all: equal). given: each
// launch says a count for every part (the collectives with a v behind their names). exchanged: all_to_all with counts
// that only the sender knows; the plan sends them first.
enum class Counts : uint8_t { even, given, exchanged };

// Who holds the finished cell at the joint.
enum class Owner : uint8_t { part, root, everyone };  // part r on rank r; all on rank root; every rank has every part

struct ScatterSite {                               // the reducing half
  Collective collective = Collective::all_reduce;  // or reduce_scatter, reduce: decides who owns the result
  plan::Id buffer, space;                          // contributions: one per rank
  std::string dtype;                               // of the contributions (for scratch)
  plan::Parts all;                                 // the whole value, where an owner has it all; null: part 0
  plan::Id joint = "fin";                          // label of the joint step (suffix included)
  plan::Id handshake;  // mapped: a `ready` step earlier in the lane that still serves; "": a new one
  plan::Id family;     // "" = the lane's own
  kernel::Reduction reduction = kernel::Reduction::sum;
  std::string wire;  // dtype on the wire, "" = as it is
  expr::Expr root;   // Owner::root
  int slots = 4, slices = 1;
  plan::Protocol protocol = plan::Protocol::simple;
  std::string suffix;  // appended to labels, to keep them unique in a lane
};
struct GatherSite {                                // the spreading half; the joint step makes the value
  Collective collective = Collective::all_reduce;  // or all_gather, broadcast
  plan::Parts all;
  plan::Id joint = "own";
  plan::Id handshake;
  std::vector<plan::Id> homes;  // buffers that get it (on every rank)
  plan::Id space, family;
  std::string wire;
  expr::Expr root;
  int slots = 4, slices = 1;
  plan::Protocol protocol = plan::Protocol::simple;
  std::string suffix;
};

struct Half {
  Owner owner = Owner::part;
  plan::Body before;              // blocks before the loop, in the same lane (`ready:`)
  plan::Body head;                // in the loop, before the joint (feed, red)
  plan::Step joint;               // reduced, targets and after are filled in
  plan::Body tail;                // in the loop, behind the joint (fwd, last)
  plan::Body behind;              // blocks behind the loop (`done:`): then the value is complete here
  std::vector<plan::Lane> lanes;  // further lanes (chain down, tree down)
  expr::Expr guard;               // the joint runs only where this holds (root); null: everywhere
  std::vector<plan::Let> lets;
  std::vector<plan::Family> families;
  std::vector<plan::Id> mapped;  // buffers that peers access
  std::vector<plan::Buffer> scratch;
};

struct PlanRequest;

class Algorithm {
 public:
  virtual ~Algorithm() = default;
  virtual std::string_view name() const = 0;  // ring, pairwise, chain, direct (two-shot), oneshot, gather ...
  // In a plan's name, where the registry's has a number.
  virtual std::string plan_name() const { return std::string(name()); }
  virtual plan::Order order() const = 0;  // what it keeps: rank, fixed or any
  virtual plan::Round round() const = 0;
  virtual bool needs_mapped() const = 0;
  virtual bool supports(Collective collective) const = 0;
  virtual bool supports(Collective collective, Counts counts) const {
    return supports(collective) && counts == Counts::even;
  }
  virtual bool supports_ranks(int ranks) const { return ranks > 0; }
  virtual Owner owner(Collective collective) const = 0;
  // Error(unsupported) where supports() says no, and where there are whole plans only.
  virtual Half scatter(const ScatterSite& site) const;
  virtual Half gather(const GatherSite& site) const;
  // Collectives without halves, or plans that are better whole. Nothing: make_plan joins the halves.
  virtual std::optional<plan::Plan> whole_plan(const PlanRequest&) const { return std::nullopt; }
  // The channels that it needs for its full bandwidth: make_plan rounds up to a multiple.
  virtual int channel_multiple() const { return 1; }
  // The link family of the gathering half where it stands behind a reducing one; "": they share one.
  virtual plan::Id gather_family() const { return needs_mapped() ? "" : "ag"; }
  // For docs, `weft explain`, the choice (select.h) and the traffic test: what the busiest rank sends of S bytes on n
  // ranks (mapped: what crosses between ranks), and the longest chain of dependent messages.
  struct Cost {
    double bytes_sent, messages, hops;
    double bytes_folded = 0;  // that the busiest rank reads to reduce them, but for the first summand
    // Ranks that a whole value passes one after the other; chunks overlap them.
    double stages = 1;
    // Of the busiest receiver, where it gets more than any rank sends; 0: nobody does.
    double bytes_received = 0, messages_received = 0;
  };
  virtual Cost cost(Collective collective, int ranks, double bytes) const = 0;
};

// Every algorithm that needs no further number.
const std::vector<const Algorithm*>& algorithms();
// By name: "ring", or "hierarchical:4" for hosts of four ranks. Null: there is none.
const Algorithm* find_algorithm(std::string_view name);

// The link family that the gathering half of a joined collective takes: "" where it shares the reducing half's (ring).
plan::Id own_gather_family(const Algorithm& algorithm);

struct PlanRequest {
  Collective collective = Collective::all_reduce;
  kernel::Reduction reduction = kernel::Reduction::sum;
  bool average = false;      // divide by n at the joint; integers: toward zero
  bool premultiply = false;  // every rank multiplies its contribution first, by its launch scalar `scale`
  Counts counts = Counts::even;
  std::string dtype = "f32", wire;
  int channels = 1, slots = 4, slices = 1;
  plan::Protocol protocol = plan::Protocol::simple;
  int root = 0;
  int from = 0, to = 0;  // send_recv
  int64_t grain = 16;
};
// Two halves around one joint step, as pieces of a lane. `step` comes with kernel, other sources and targets filled in
// (the targets of the gathers' joints included), `more` are steps right behind it. Duplicates between halves (`ready`)
// appear once.
struct Joined {
  plan::Body before, loop, behind;  // loop: the body of `loop SPACE slices K:`
  std::vector<plan::Lane> lanes;
  std::vector<plan::Let> lets;
  std::vector<plan::Family> families;
  std::vector<plan::Id> mapped;
  std::vector<plan::Buffer> scratch;
};
Joined join(const Half* scatter, const std::vector<Half>& gathers, plan::Step step, plan::Body more = {});

// A complete, verified-by-tests plan: buffers x -> y, y alias x, posts stated.
plan::Plan make_plan(const Algorithm& algorithm, const PlanRequest& request);

}  // namespace weft::algo
