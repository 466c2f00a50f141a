// The cost model: what a plan costs on a machine, from its own statistics.
//
// Nothing is known about programs here: bytes read and written here and at mapped peers, messages, steps, awaits and
// flops of each rank are read off the plan (plan/stats.h), and prices come from the machine's calibration (topo/).
// Memory and arithmetic of one rank overlap (the larger counts); latencies and matrix products add: a product is
// a step of its own, and no byte of another step moves meanwhile. The slowest rank decides. Where ranks share no memory a
// message flows at the wire's rate both ways at once, and every hop waits for the wire.
#pragma once

#include <string>
#include <vector>

#include "weft/plan/stats.h"
#include "weft/topo/machine.h"

namespace weft::tune {

struct Prediction {
  // Of the slowest rank.
  double total_ns = 0, memory_ns = 0, compute_ns = 0, matmul_ns = 0, latency_ns = 0, wire_ns = 0;
  // Of the slowest rank, per element of the program's largest tensor (set by the caller of predict through `elements`).
  double read_bytes = 0, written_bytes = 0, sent_bytes = 0;  // here + mapped; sent: to or from peers
  int64_t passes = 0, messages = 0, steps = 0;
  std::string bound;  // "memory", "arithmetic", "products" (of matrices), "wire" or "latency"
};

struct PriceOptions {
  bool stream = false;           // targets written by non-temporal stores
  double working_set_bytes = 0;  // of one rank: all buffers it touches
  double wire = 1;               // bytes on a link for a byte of a message: ll 2, ll128 8/7
  bool packed = false;           // messages are packed and unpacked (ll, ll128): a copy more on either side
  double ring_bytes = 0;         // of the rings that one link goes through
  int64_t elements = 1;          // of the largest tensor, for the per-element figures
};
Prediction predict(const std::vector<plan::RankStats>& ranks, const topo::Machine& machine,
                   const PriceOptions& options);

}  // namespace weft::tune
