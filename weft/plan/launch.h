// A launch: a loaded plan, the extents of its spaces, where its buffers lie, its scalars. Only here do sizes appear.
//
// And the arithmetic of cells: which elements part p, share c, chunk l, slice q of a space are. Runtime, interpreter,
// simulator and code generator must agree on it to the element, so it is written once, in Extents.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "weft/plan/walk.h"

namespace weft::plan {

// Even cuts run along the axis; a part's own order is (outer, axis, inner), row-major: sliced(d) of any tensor.
// Elements = outer * axis * inner. A flat space is {1, N, 1}.
struct Cut { int64_t outer = 1, axis = 0, inner = 1; };
struct Given { std::vector<int64_t> counts; };            // per part
struct OnDevice {};                                       // read from the space's `given by` buffer when its loop begins
using Extent = std::variant<Cut, Given, OnDevice>;

// How elements of a space meet the elements of a space derived from it: position (row-major index in the whole value of
// `shape`) -> sum over d of index_d * stride_d. segment: through the segment table instead.
struct Meeting { std::vector<int64_t> shape, stride; };

// Segments of a scattered space (`tensors P`): lengths in order; their sum is the space's extent.
struct SegmentTable { std::vector<int64_t> lengths; };

struct SpaceExtent { Extent extent; std::optional<Meeting> meeting; const SegmentTable* segments = nullptr; };

// Where the elements of a buffer lie.
struct Dense { void* data = nullptr; };                   // part order of the whole value, row-major; `own`: the owned part alone
struct Strided { void* data = nullptr; std::vector<int64_t> shape, stride_elements; };
struct Segments { std::vector<void*> data; };             // one address per tensor of the space's SegmentTable
using Binding = std::variant<std::monostate, Dense, Strided, Segments>;   // monostate: scratch, the runtime's own

struct LaunchArgs {
  std::vector<SpaceExtent> spaces;        // one per space of the plan (fixed and derived ones may be default)
  std::vector<Binding> buffers;           // one per buffer
  std::vector<expr::ScalarValue> scalars; // one per name in launch_scalars(plan), in that order
};
std::vector<Id> launch_scalars(const Plan& plan);         // distinct scalars of kernel calls, in order of appearance

struct Range { int64_t begin = 0, end = 0; int64_t size() const { return end - begin; } };

// Cell arithmetic for one launch. Ranges are in the part's own linear order unless said otherwise.
class Extents {
 public:
  // chunk_elements: per space, elements of one chunk of a share (the tuner's, or default_chunk()); rounded up to grain.
  Extents(const Instance& instance, std::vector<SpaceExtent> spaces, std::vector<int64_t> chunk_elements);
  int64_t elements(int space) const;
  int64_t part_size(int space, int64_t part) const;       // elements of a part
  Range share(int space, int64_t part, int channel) const;
  int64_t chunks(int space, int channel) const;           // largest over its parts
  Range chunk(int space, int64_t part, int channel, int64_t chunk) const;
  Range slice(int space, int64_t part, int channel, int64_t chunk, int slice, int slices) const;
  // Iterations of a loop over these spaces: the largest chunks().
  int64_t iterations(std::span<const uint16_t> spaces, int channel) const;
  // Splits a range of a part into runs contiguous in the whole value (row-major): calls f(offset in the range,
  // position in the whole value, count).
  template <typename F> void runs(int space, int64_t part, Range range, F&& f) const {
    for (int64_t at = range.begin; at < range.end;) {
      int64_t count = 0;
      const int64_t position = run_at(space, part, at, range.end, count);
      f(at - range.begin, position, count);
      at += count;
    }
  }
  int64_t run_at(int space, int64_t part, int64_t at, int64_t end, int64_t& count) const;
  const std::vector<SpaceExtent>& spaces() const { return spaces_; }

 private:
  const Instance* instance_;
  std::vector<SpaceExtent> spaces_;
  std::vector<int64_t> chunk_;
};

// The chunk a space gets when nobody says: min over families of slot payload * slices / (parts in the largest message),
// rounded to grain; without links 64 Ki elements a share (cache-sized).
std::vector<int64_t> default_chunk(const Instance& instance, int64_t slot_payload_bytes);

}  // namespace weft::plan
