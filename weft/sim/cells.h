// How many elements a step handles, looked up instead of computed: a simulator asks fifty million times a second, and
// Extents needs a dozen divisions. Parts of a space have few different sizes, so per size class and channel a chunk is
// full, the last one, or nothing. Internal to the room.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/launch.h"

namespace weft::sim {

// The cells of one part (of a size class) in one channel.
struct Share {
  int slices = 1;
  int64_t full_chunks = 0;
  std::vector<int64_t> full, last;  // elements per slice, of a full chunk and of the one behind those
  int64_t elements(int64_t chunk, int slice) const {
    if (chunk < full_chunks) return full[static_cast<size_t>(slice)];
    return chunk == full_chunks ? last[static_cast<size_t>(slice)] : 0;
  }
};

class Cells {
 public:
  Cells(const plan::Instance& instance, const std::vector<plan::SpaceExtent>& spaces,
        const std::vector<int64_t>& chunk_elements);
  const plan::Extents& extents() const { return extents_; }
  // All parts of all spaces that loops run over have one size.
  bool uniform() const;
  // The share that all parts have alike; null where they differ or are cut into other slices.
  const Share* share(int space, int channel, int slices) const {
    const Space& s = spaces_[static_cast<size_t>(space)];
    const Share& share = s.shares[static_cast<size_t>(channel)];
    return s.class_of_part.empty() && share.slices == slices ? &share : nullptr;
  }
  int64_t slice(int space, int64_t part, int channel, int64_t chunk, int slice, int slices) const {
    const Space& s = spaces_[static_cast<size_t>(space)];
    const size_t size_class = s.class_of_part.empty() ? 0 : s.class_of_part[static_cast<size_t>(part)];
    const Share& share = s.shares[size_class * channels_ + static_cast<size_t>(channel)];
    if (share.slices != slices) return extents_.slice(space, part, channel, chunk, slice, slices).size();
    return share.elements(chunk, slice);
  }
  int64_t part(int space, int64_t part) const {
    const Space& s = spaces_[static_cast<size_t>(space)];
    return s.part_size[s.class_of_part.empty() ? 0 : s.class_of_part[static_cast<size_t>(part)]];
  }

 private:
  struct Space {
    std::vector<uint32_t> class_of_part;  // empty: all alike
    std::vector<int64_t> part_size;       // per class
    std::vector<Share> shares;            // class * channels + channel
  };
  void measure(int space, int slices);

  plan::Extents extents_;
  size_t channels_;
  std::vector<Space> spaces_;
};

}  // namespace weft::sim
