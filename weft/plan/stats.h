// What a plan will do, without running it: for traffic tests, explanations, the cost model and lower bounds.
#pragma once

#include <vector>

#include "weft/plan/launch.h"

namespace weft::plan {

struct RankStats {
  int64_t steps = 0, messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
  double bytes_read_here = 0, bytes_read_mapped = 0, bytes_written_here = 0, bytes_written_mapped = 0, flops = 0;
  int64_t awaits = 0;
  int64_t critical_hops = 0;            // longest chain of dependent messages and cross-rank awaits in one launch
  int64_t passes = 0;                   // loops over the large spaces: passes over memory
};
std::vector<RankStats> stats(const Instance& instance, const LaunchArgs& args, const std::vector<int64_t>& chunk_elements);

}  // namespace weft::plan
