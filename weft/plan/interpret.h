// The interpreter: runs a plan on numbers, all ranks in one thread, one enabled step after the other in an order that a
// seed decides. It is the oracle of every back end: what a step does is written here as plainly as possible.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "weft/plan/launch.h"

namespace weft::plan {

struct InterpretOptions {
  uint64_t seed = 0;  // which enabled lane goes next, and in bursts of how many steps
  double delay = 0;   // share of turns in which a random lane sleeps (0: none)
  int launches = 1;
  std::vector<int64_t> chunk_elements;  // empty: default_chunk
  int64_t slot_payload_bytes = 4096;
};

// Runs the launches on ranks 0..n-1; args[r] is rank r's. Buffers bound as monostate (scratch) are allocated here, and
// poisoned. Launches of different ranks overlap, unless `between` is given: then all ranks end launch l, between(l) may
// read results and rewrite inputs, and launch l+1 begins (not called after the last). Throws Error(plan) on deadlock
// (V8: rank, lane, channel, step, whom it waits for), unwritten reads (V10), messages of a wrong size (V7), operands
// that do not meet (V2); Error(user) for bindings that do not fit the plan.
void interpret(const Instance& instance, const std::vector<LaunchArgs>& args, const InterpretOptions& options,
               const std::function<void(int launch)>& between = {});

}  // namespace weft::plan
