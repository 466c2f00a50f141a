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
struct Cut {
  int64_t outer = 1, axis = 0, inner = 1;
};
struct Given {
  std::vector<int64_t> counts;
};                   // per part
struct OnDevice {};  // read from the space's `given by` buffer when its loop begins
using Extent = std::variant<Cut, Given, OnDevice>;

// How elements of a space meet the elements of a space derived from it: position (row-major index in the whole value of
// `shape`) -> sum over d of index_d * stride_d. segment: through the segment table instead.
struct Meeting {
  std::vector<int64_t> shape, stride;
};

// Segments of a scattered space (`tensors P`): lengths in order; their sum is the space's extent.
struct SegmentTable {
  std::vector<int64_t> lengths;
};

struct SpaceExtent {
  Extent extent;
  std::optional<Meeting> meeting;
  const SegmentTable* segments = nullptr;
};

// Where the elements of a buffer lie.
struct Dense {
  void* data = nullptr;
};  // part order of the whole value, row-major; `own`: the owned part alone
struct Strided {
  void* data = nullptr;
  std::vector<int64_t> shape, stride_elements;
};
struct Segments {
  std::vector<void*> data;
};  // one address per tensor of the space's SegmentTable
using Binding = std::variant<std::monostate, Dense, Strided, Segments>;  // monostate: scratch, the runtime's own

struct LaunchArgs {
  std::vector<SpaceExtent> spaces;         // one per space of the plan (fixed and derived ones may be default)
  std::vector<Binding> buffers;            // one per buffer
  std::vector<expr::ScalarValue> scalars;  // one per name in launch_scalars(plan), in that order
};
std::vector<Id> launch_scalars(const Plan& plan);  // distinct scalars of kernel calls, in order of appearance

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// Cell arithmetic for one launch. Ranges are in the part's own linear order unless said otherwise.
// Part p of an even space is [p*U/parts, (p+1)*U/parts) along the Cut's axis, in units of `grain` positions (U of them,
// the last may be short). Shares of a part, chunks of a share and slices of a chunk are cut the same way, in units of
// `grain` elements. Every part of an `equal` space has axis / parts positions, of a `fixed` one fixed_count elements.
// Derived spaces need no Extent: by segment, they have as many elements as `of` has segments; by block K, one for each
// K elements of `of` or part of them; by row and column, what the Meeting says. Kind fixed: so many in each part; kind
// even: so many in all. Error(user): an extent of the wrong kind, an axis that equal parts cannot share, negative counts.
class Extents {
 public:
  // chunk_elements: per space, elements of one chunk of a share (the tuner's, or default_chunk()); rounded up to grain.
  // 0, or an empty list: 64 Ki.
  Extents(const Instance& instance, std::vector<SpaceExtent> spaces, std::vector<int64_t> chunk_elements);
  int64_t elements(int space) const;
  int64_t part_size(int space, int64_t part) const;  // elements of a part
  Range share(int space, int64_t part, int channel) const;
  int64_t chunks(int space, int channel) const;  // largest over its parts
  int64_t chunk_elements(int space) const { return measures_[static_cast<size_t>(space)].chunk; }  // of a full chunk
  Range chunk(int space, int64_t part, int channel, int64_t chunk) const;
  Range slice(int space, int64_t part, int channel, int64_t chunk, int slice, int slices) const;
  // Iterations of a loop over these spaces: the largest chunks().
  int64_t iterations(std::span<const uint16_t> spaces, int channel) const;
  // Splits a range of a part into runs contiguous in the whole value (row-major): calls f(offset in the range,
  // position in the whole value, count).
  template <typename F>
  void runs(int space, int64_t part, Range range, F&& f) const {
    for (int64_t at = range.begin; at < range.end;) {
      int64_t count = 0;
      const int64_t position = run_at(space, part, at, range.end, count);
      f(at - range.begin, position, count);
      at += count;
    }
  }
  int64_t run_at(int space, int64_t part, int64_t at, int64_t end, int64_t& count) const;
  const std::vector<SpaceExtent>& spaces() const { return spaces_; }
  // OnDevice: the counts that the loop found in the space's buffer. Until then the sizes of its parts are an error.
  void set_given(int space, std::vector<int64_t> counts);
  // Which element of the derived space the element at `position` of the whole value of its `of` meets (derived by
  // segment, row, column or block); `count`: how many elements from there on meet that same one.
  int64_t meet_at(int derived, int64_t position, int64_t& count) const;

 private:
  // How a space's parts lie in its whole value: cut along an axis, or one after the other.
  struct Measure {
    bool cut = false, known = true;
    Cut shape;                   // cut
    int64_t unit = 1;            // cut: axis positions that stay together
    int64_t each = 0;            // one after the other, all of this size
    std::vector<int64_t> begin;  // one after the other, of different sizes: parts + 1 places
    int64_t parts = 1, grain = 1, chunk = 0;
    std::vector<int64_t> segment_begin;  // where segments (tensors) begin, and the end
  };
  void measure(int space);
  void measure_given(Measure& m, const std::vector<int64_t>& counts, const Id& name) const;
  void measure_like(Measure& m, int like) const;
  int64_t derived_elements(int space) const;
  int64_t meeting_elements(int space) const;
  const Measure& at(int space) const;
  int64_t axis_begin(const Measure& m, int64_t part) const;
  int64_t largest_part(const Measure& m) const;

  const Instance* instance_;
  std::vector<SpaceExtent> spaces_;
  std::vector<Measure> measures_;
};

// The chunk a space gets when nobody says: min over families of slot payload * slices / (parts in the largest message),
// rounded to grain; without links 64 Ki elements a share (cache-sized). Spaces that are looped over together get the same
// chunk (a space of blocks of K: that chunk's number of blocks), so that chunk l is the same elements in each.
std::vector<int64_t> default_chunk(const Instance& instance, int64_t slot_payload_bytes);

}  // namespace weft::plan
