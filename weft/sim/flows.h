// Flows that share links: exact max-min fair rates, kept up to date as flows come and go.
//
// Rates are max-min fair exactly when every flow crosses a link that is full and on which no flow is faster: its
// bottleneck (Bertsekas and Gallager, Data Networks, 6.5). Ways: fill all links anew at each change (SimGrid's full
// update: the whole network for one flow), or only the connected component (often the whole network again). Here a
// change re-fills only the flows whose bottleneck it touched, the others keep their rates, and any flow whose condition
// then fails joins them, until none fails. The result is the same, since the condition says so; a change in a loaded fat
// tree touches a few dozen flows of a thousand.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft::sim {

class FlowNetwork {
 public:
  // Bytes per ns, one for each link.
  explicit FlowNetwork(std::vector<double> capacities);
  // A flow over these links (at most 64; none: it is over at once), and its first byte leaves at `now_ns`. At least the
  // time of the last call that took one. Returns its number; numbers are used again after take_completed().
  uint32_t start(double now_ns, std::span<const uint32_t> route, double bytes);
  // When the next flow ends, if nothing changes; infinity if there is none.
  double next_ns();
  // The flows that end first, if that is at `now_ns` or before: those of one instant, since others may come then and
  // change the rest. Their numbers are free.
  void take_completed(double now_ns, std::vector<uint32_t>& completed);
  double rate(uint32_t flow);  // bytes per ns
  size_t active() const { return active_; }
  uint64_t refilled() const { return refilled_; }  // flows whose rate was computed again, in all

 private:
  struct Hop {
    uint32_t link = 0, place = 0;  // in the link's list
  };
  struct Flow {
    double rate = 0, filled = 0, left = 0, since = 0, end = 0,
           listed = 0;  // filled: the rate while filling; bytes left at `since`
    uint32_t first_hop = 0, hops = 0, bottleneck = 0, version = 0;
    bool active = false, filling = false, set = false;
  };
  struct Link {
    double capacity = 0;
    std::vector<uint32_t> flows;     // flow * 64 + hop
    double others = 0;               // what the flows that keep their rates leave
    double rest = 0;                 // of that, while filling
    double share = 0;                // of the flows that were stopped here in this fill; else 0
    double fastest = 0;              // of the flows that were filled here
    uint32_t filling = 0, open = 0;  // flows to fill; those that are not stopped yet
    uint32_t place = 0;              // in touched_
    bool touched = false;
  };
  struct End {
    double time;
    uint32_t flow, version;
    bool operator<(const End& other) const {  // for a heap with the earliest on top
      return time != other.time ? time > other.time : flow > other.flow;
    }
  };
  void settle();  // rates after the changes so far
  void include(uint32_t flow);
  void touch(uint32_t link);
  void fill();
  void stop_at(uint32_t link, double share);
  bool include_violated();
  void list(uint32_t flow);
  bool on_top_is_true();
  void set_rate(Flow& flow, uint32_t number, double rate);
  void remove(uint32_t flow);
  std::span<Hop> hops(const Flow& flow) { return {hops_.data() + flow.first_hop, flow.hops}; }

  double now_ = 0;
  std::vector<Flow> flows_;
  std::vector<Hop> hops_;
  std::vector<Link> links_;
  std::vector<uint32_t> free_, pending_, filling_, touched_;
  std::vector<double> shares_;  // by place in touched_: of the flows that are not stopped yet
  std::vector<End> ends_;
  size_t active_ = 0;
  uint64_t refilled_ = 0;
};

// Reference: progressive filling over everything, as the definition says. For tests.
std::vector<double> max_min_rates(const std::vector<double>& capacities,
                                  const std::vector<std::vector<uint32_t>>& routes);

}  // namespace weft::sim
