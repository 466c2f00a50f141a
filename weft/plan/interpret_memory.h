// The memory of all ranks, for the interpreter: bound buffers where the caller says they lie, scratch of its own.
//
// Everything goes through the address of one element: slow, and with nothing to get wrong between Dense, Strided and
// Segments. Scratch is poisoned (all bits set: NaN) and remembers in which launch each element was written, so that a
// read of what nobody wrote is an error and not a number. A buffer with a depth really has only so many chunks.
#pragma once

#include <map>
#include <vector>

#include "weft/plan/launch.h"

namespace weft::plan {

// A run of elements in a rank's interpreter values.
struct Values {
  Dtype dtype = Dtype::f32;
  std::vector<std::byte> bytes;
  Values() = default;
  Values(Dtype type, int64_t count) : dtype(type), bytes(static_cast<size_t>(count * size_bytes(type))) {}
  int64_t count() const { return static_cast<int64_t>(bytes.size()) / size_bytes(dtype); }
  void* at(int64_t i) { return bytes.data() + i * size_bytes(dtype); }
  const void* at(int64_t i) const { return bytes.data() + i * size_bytes(dtype); }
};
// Element by element; integers and bool exactly among each other, everything else through f64.
void convert_element(Dtype from, const void* source, Dtype to, void* target);
Values converted(const Values& values, Dtype to);

class Memory {
 public:
  Memory(const Instance& instance, const std::vector<LaunchArgs>& args, std::vector<Extents>& extents);

  // Which copy of a chunk a buffer with a depth means: the loop's channel, where its chunk begins, its turn.
  struct Place {
    int channel = 0;
    int64_t chunk_begin = 0, chunk_size = 0, turn = 0;
  };

  // The address of element `offset` of a part (in the part's own order).
  void* address(int rank, int buffer, int64_t part, int64_t offset, const Place& place);
  // Throws Error(plan, V10) where scratch or a result is read that was not written in this launch; `who` reads.
  void check_written(int rank, int buffer, const void* address, int launch, const std::string& who) const;
  void mark_written(int rank, int buffer, const void* address, int launch);

 private:
  struct Region {
    Binding binding;                                                    // the caller's, or Dense memory of our own
    std::map<std::pair<int64_t, int64_t>, std::vector<std::byte>> own;  // (part, channel and copy) -> elements
    bool ours = false, tracked = false;
    std::map<const void*, int> written;  // address -> launch
  };
  Region& region(int rank, int buffer) {
    return regions_[static_cast<size_t>(rank)][static_cast<size_t>(home(rank, buffer))];
  }
  const Region& region(int rank, int buffer) const {
    return regions_[static_cast<size_t>(rank)][static_cast<size_t>(home(rank, buffer))];
  }
  int home(int rank, int buffer) const { return homes_[static_cast<size_t>(rank)][static_cast<size_t>(buffer)]; }
  void* own_address(Region& region, int rank, int buffer, int64_t part, int64_t offset, const Place& place);

  const Instance* instance_;
  std::vector<Extents>* extents_;
  std::vector<std::vector<Region>> regions_;  // per rank, buffer
  std::vector<std::vector<int>> homes_;       // per rank, buffer: whose region it uses
};

}  // namespace weft::plan
