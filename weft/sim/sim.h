// Simulation: when a plan's steps happen on a machine, by discrete events. Reads plans through Walk, so what is predicted
// is what runs, and nobody ever holds a schedule in memory.
//
// Ways: closed formulas (blind to back-pressure, overlap, stragglers), packets (hours), or messages with LogGOPS costs
// (Ino, Fujimoto, Hagihara 2005; Hoefler, Schneider, Lumsdaine 2010). We take the last, with the slots and awaits that a
// plan states. Times are whole picoseconds inside, so that nothing depends on the order of sums; nanoseconds outside.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/plan/launch.h"
#include "weft/sim/fabric.h"
#include "weft/sim/trace.h"

namespace weft::sim {

// What one message costs. The lane (a thread block, a thread) is busy `send_ns` and then its own time per byte; the port
// is busy `gap_ns` and its time per byte, and serves messages in the order of their requests. The first byte arrives
// latency_ns after the lane's send_ns. The receiving port is busy likewise from then on; when the last byte is there the
// receiving lane takes `receive_ns`. A slot is free at the sender credit_ns after the receiver is done with it.
struct LinkCost {
  double latency_ns = 1000, send_ns = 0, receive_ns = 0, gap_ns = 0;
  double port_ns_per_byte = 0, lane_ns_per_byte = 0;
  double credit_ns = -1;  // -1: as latency_ns
  double wire = 1;        // bytes on the wire for a byte of the message (LL 2, LL128 16/15)
};

// What a step costs its lane, besides messages: the larger of moving its bytes and computing.
struct StepCost {
  double step_ns = 0;                                            // every step and slice that has elements
  double read_ns_per_byte = 0, write_ns_per_byte = 0;            // memory of this rank
  double read_peer_ns_per_byte = 0, write_peer_ns_per_byte = 0;  // mapped memory of others
  double flop_ns = 0;                                            // one operation of a kernel
};

struct Route {
  uint16_t cost = 0;                         // index into Network::costs
  uint16_t send_port = 0, receive_port = 0;  // of the sending and the receiving rank
};

// Which cost and ports a connection has. A function of the ranks' distance and of from % period alone, else folding
// would be wrong: then period must be the number of ranks.
struct Network {
  std::vector<LinkCost> costs{LinkCost{}};
  int ports = 1;           // per rank, each way
  int64_t period = 1;      // rank r+period is connected as rank r is
  double await_ns = 1000;  // until a step's completion is seen by another rank
  std::function<Route(int family, int channel, int from, int to)> route;  // null: cost 0, port 0
  StepCost step;
  // Set: messages share the fabric's links max-min fairly, rank r is its host r, and port_ns_per_byte is not used
  // (gap_ns and the lane's costs are). Messages of one connection follow each other. Nothing is folded.
  std::shared_ptr<const Fabric> fabric;
  std::vector<double> slowdown, start_ns;  // per rank: factor on steps, and a late begin (stragglers); empty: none
};

enum class Fold : uint8_t {
  off,
  exact,   // ranks that do the same at the same time are simulated once, where that changes no figure
  always,  // also where parts differ by an element, or peers of a range are served in another order: close, not exact
};

struct Options {
  int launches = 1;
  Fold fold = Fold::exact;
  Trace* trace = nullptr;      // where steps and messages are recorded; null: nowhere. Changes no figure
  uint64_t most_messages = 0;  // 0: no limit; else Error(timeout) beyond
  bool walk = false;           // walk every lane anew, also where ranks could share a program: slower, the same figures
};

struct Prediction {
  double end_ns = 0;                  // of the last launch
  std::vector<double> launch_end_ns;  // of each launch, its slowest rank
  std::vector<double> rank_end_ns;    // per simulated rank
  int simulated_ranks = 0;            // fewer than the plan's where it was folded
  uint64_t messages = 0, events = 0;  // events: sends, arrivals and completed receives
  uint64_t steps = 0;
  double bytes = 0;            // on the wire, of the simulated ranks
  double busiest_port_ns = 0;  // what bounds it: time that the busiest port or lane was busy
  double busiest_lane_ns = 0;
};

// Error(plan) rule V8 where lanes wait for ever: who waits for whom in which step. Error(user) for extents that do not
// fit, Error(unsupported) for counts that only the device knows.
Prediction simulate(const plan::Instance& instance, const std::vector<plan::SpaceExtent>& spaces,
                    const std::vector<int64_t>& chunk_elements, const Network& network, const Options& options = {});

}  // namespace weft::sim
