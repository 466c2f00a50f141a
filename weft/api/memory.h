// Memory for a lowered program on one rank: which bytes each buffer needs, laid out in one symmetric block.
//
// Every buffer lies at the same offset on all ranks (sized for the rank that needs most), so that peers can map it and
// the tuner can lay different schedules of one program over the same memory, one after the other.
#pragma once

#include <map>
#include <vector>

#include "weft/lower/lower.h"
#include "weft/runtime/communicator.h"

namespace weft::api {

struct Placement {
  bool bound = false;                   // laid out here; else the runtime's own
  int64_t offset = 0, bytes = 0;        // bytes: of this rank, possibly none
  std::vector<int64_t> tensor_offsets;  // scattered: one per tensor, 64-aligned; empty: dense
};
struct Layout {
  std::vector<Placement> buffers;
  int64_t total_bytes = 0;
};  // per buffer of the plan

// `with_scratch`: whole-value scratch too, so that the runtime allocates none of its own.
Layout lay_out(const lower::Lowered& lowered, const ir::Sizes& sizes, int rank, bool with_scratch);
std::map<int, plan::Binding> bindings(const Layout& layout, std::byte* base);  // by buffer index
// LaunchArgs with these bindings in place.
plan::LaunchArgs launch_args(const lower::Lowered& lowered, const ir::Sizes& sizes, int rank, const Layout& layout,
                             std::byte* base);

// The plan buffer that holds a program value on this rank ("w": the state, "w1": the output); -1 if none does.
int buffer_of(const lower::Lowered& lowered, const ir::Name& name);

// What this rank holds of a buffer: `count` elements at `at` are the positions from `position` (row-major, in the whole
// value), in memory order.
struct Piece {
  void* at;
  int64_t position, count;
};
std::vector<Piece> pieces(const lower::Lowered& lowered, const ir::Sizes& sizes, int rank, int buffer,
                          const plan::Binding& binding);

}  // namespace weft::api
