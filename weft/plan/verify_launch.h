// The halves of rules V14 and V16 that only a launch shows: sizes of messages and of memory, the lanes that a device
// holds at a time, borders that would cut a row or a wide access.
#pragma once

#include <limits>

#include "weft/plan/launch.h"
#include "weft/plan/verify.h"

namespace weft::plan {

// What one rank has to run a launch on. The defaults ask nothing.
struct Device {
  int64_t slot_bytes = std::numeric_limits<int64_t>::max();    // V14: payload of one slot of a link
  int64_t memory_bytes = std::numeric_limits<int64_t>::max();  // V14: for scratch and the slots of links
  // V14: lanes (one per channel) that are resident at a time, over all launches that may run together. On a CPU a lane
  // that waits gives its place to another (resumable) and any number of places will do; a block on a GPU spins in its
  // place, so it must never wait for one that has none yet.
  int resident_lanes = std::numeric_limits<int>::max();
  int launches_together = 1;
  bool resumable = true;
  int64_t wide_bytes = 1;  // V16: borders of cells lie at multiples of it in memory
};

// Findings of V14 and V16 (a few of each) for this launch; empty: none. Everything else is verify's. `spaces` and
// `chunk_elements` as for Extents; spaces `given by` a buffer count as their chunk.
std::vector<Finding> verify_launch(const Instance& instance, const std::vector<SpaceExtent>& spaces,
                                   const std::vector<int64_t>& chunk_elements, const Device& device);

}  // namespace weft::plan
