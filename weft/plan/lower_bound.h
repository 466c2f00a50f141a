// What any plan with these posts must exchange, whatever its algorithm: what statistics are measured against.
//
// A result that depends on contributions of the ranks C and is held by the ranks H: at the first moment when some rank
// knows all of it, every other rank of C has sent at least once, and every other rank of H has yet to receive. So an
// element of it crosses between ranks |C| + |H| - 2 times where C and H meet and |C| + |H| - 1 times where they do not
// (all_reduce: 2n - 2, reduce_scatter and all_gather: n - 1). It says nothing of who sends what, and takes for granted
// that elements of the result or of its summands travel, not what they were computed from.
#pragma once

#include <optional>

#include "weft/plan/launch.h"

namespace weft::plan {

// Posts that read the same peers' buffers may share messages: of those the largest counts. An element has the size of
// the narrowest of its result, its contributions and the wires.
struct LowerBound {
  double bytes = 0;           // between ranks, all together
  double busiest_bytes = 0;   // that the rank with most to do sends or receives, at least
  int64_t critical_hops = 0;  // 1 where anything has to cross
};
// Nothing for more than 64 ranks (it looks at every part on every rank), or where counts are found on the device.
std::optional<LowerBound> lower_bound(const Instance& instance, const LaunchArgs& args);

}  // namespace weft::plan
