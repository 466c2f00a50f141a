// What a plan will do, without running it: for traffic tests, explanations, the cost model and lower bounds.
#pragma once

#include <vector>

#include "weft/plan/launch.h"

namespace weft::plan {

// Messages and steps count what has elements: a step once for each chunk and slice. Bytes are those of the dtype where
// they lie, messages' of the wire. Awaits are counted for each peer and channel they name.
struct RankStats {
  int64_t steps = 0, messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
  double bytes_read_here = 0, bytes_read_mapped = 0, bytes_written_here = 0, bytes_written_mapped = 0;
  double flops = 0, matmul_flops = 0;  // pointwise arithmetic and sums; matrix products
  int64_t awaits = 0;
  // Longest chain of dependent messages and cross-rank awaits in one launch that ends on this rank. 0 for more than 128
  // ranks (the simulator says it).
  int64_t critical_hops = 0;
  int64_t passes = 0;  // loops over the large spaces: passes over memory
};
// One per rank. Beyond 64 ranks only as many ranks are counted as period() says, and the others are taken to do the
// same: exact where all parts of a space have one size, else off by what one grain of it costs.
std::vector<RankStats> stats(const Instance& instance, const LaunchArgs& args,
                             const std::vector<int64_t>& chunk_elements);

// What a link's messages consist of: its wire type, else the dtype of the values sent on it.
Dtype message_dtype(const Instance& instance, int family);

}  // namespace weft::plan
