// The longest chain of messages and awaits between ranks in one launch, per rank: what latency multiplies. Internal.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/launch.h"

namespace weft::plan {

// Zeros beyond 128 ranks: there the simulator says it.
std::vector<int64_t> critical_hops(const Instance& instance, const Extents& extents);

}  // namespace weft::plan
