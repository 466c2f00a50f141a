// Layout: where the elements of a buffer lie, for one binding.
//
// A plan names parts; an element's address depends on the binding: contiguous (a base and an offset), rows of a cut
// value, strides, or a list of separately allocated tensors. The last needs "which tensor holds position i" millions of
// times a second. Ways: search the list (a hundred nanoseconds), pack the tensors (a copy, and the user's memory is
// elsewhere), a table. We take a table of buckets of 1,024 positions, 12 bytes each, which names the tensor in which a
// bucket begins; tensors are longer than buckets, so the next step from there is at most one or two tensors away. The
// table belongs to the space: all buffers over it share it, and runs are as long as tensors are, not as buckets.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "weft/plan/launch.h"

namespace weft::runtime {

class SegmentIndex {
 public:
  static constexpr int64_t bucket_elements = 1024;
  explicit SegmentIndex(std::span<const int64_t> lengths);
  struct Place {
    int64_t segment, offset, rest;
  };  // rest: elements up to the segment's end
  Place find(int64_t position) const;
  int64_t elements() const { return elements_; }
  int64_t segments() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t bucket_bytes() const { return static_cast<int64_t>(buckets_.size() * sizeof(Bucket)); }

 private:
  struct Bucket {
    uint32_t segment, offset_low, offset_high;
  };
  static_assert(sizeof(Bucket) == 12);
  std::vector<int64_t> lengths_;
  std::vector<Bucket> buckets_;
  int64_t elements_ = 0;
};

// What part of a buffer's memory an address refers to: resolved for one rank, part and binding.
struct Address {
  enum class Kind : uint8_t {
    flat,         // base + at * stride: the part is contiguous (stride 0: one element for all)
    turn,         // a chunk of a scratch of depth d
    value,        // base + position * stride: rows of a dense value
    strided,      // position through strides
    strided_own,  // the same for a buffer that is its own part: in the part's order
    segments,     // position through the segment index
    derived,      // the step's position through the meeting of a derived space
    message,      // set when the message is there
  };
  Kind kind = Kind::flat;
  std::byte* base = nullptr;
  int64_t stride = 0;               // bytes from element to element
  int64_t depth = 1, capacity = 0;  // turn: chunks held, bytes of each
  const struct Scattered* scattered = nullptr;
  const struct StridedView* view = nullptr;
  const struct Meet* meet = nullptr;
  bool one_cell = false;  // derived: a fold adds to one cell a run, so a run of neighbours is cut to its first
};

struct Scattered {  // segments of one rank's buffer
  std::shared_ptr<const SegmentIndex> index;
  std::vector<std::byte*> data;  // per segment
};
struct StridedView {
  std::vector<int64_t> shape, stride_bytes;
};
struct Meet {                                 // from positions of a space to elements of one derived from it
  std::shared_ptr<const SegmentIndex> index;  // by segment
  int64_t block = 0;                          // by block K
  std::vector<int64_t> shape, stride;         // by row, by column: per dimension
  // Element that `position` meets; count is cut to what meets the same one, or (by column) neighbours in order.
  int64_t find(int64_t position, int64_t& count) const;
};

// The element's address, with `count` cut to the run that is contiguous from it. `at` is in the part's own order,
// `position` in the whole value.
std::byte* locate(const Address& address, int64_t at, int64_t position, int64_t& count);

}  // namespace weft::runtime
