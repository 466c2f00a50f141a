// Plans and extents that several tests of the simulator play.
#pragma once

#include <vector>

#include "weft/plan/launch.h"
#include "weft/plan/walk.h"

namespace weft::sim {

// So many elements in every space of the plan that has no size of its own.
inline std::vector<plan::SpaceExtent> extents(const plan::Instance& instance, int64_t elements) {
  std::vector<plan::SpaceExtent> spaces(instance.plan().spaces.size());
  for (size_t i = 0; i < spaces.size(); ++i)
    if (instance.plan().spaces[i].kind != plan::Space::Kind::fixed) spaces[i].extent = plan::Cut{1, elements, 1};
  return spaces;
}

// An await between lanes, an await on a peer, and one with a lag.
inline const char* const awaits = R"(plan 1 awaits
order any
round hops
channels 1
space s parts n even
buffer x s f32 in
buffer t s f32 scratch mapped depth 2
buffer y s f32 out
lane make:
  loop s:
    made: x[r] -> t[r] after use.used lag 2
lane use:
  loop s:
    used: t@(r+1)%n[r+1] -> y[r+1] after make.made@(r+1)%n
)";

}  // namespace weft::sim
