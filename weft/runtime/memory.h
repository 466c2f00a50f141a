// Memory of a plan's buffers for one binding: the user's own, an alias of another buffer's, or scratch of the runtime.
#pragma once

#include "weft/runtime/bound.h"

namespace weft::runtime {

// Where one buffer lies, here and at peers that have it mapped.
struct BufferMemory {
  enum class Kind : uint8_t { dense, strided, segments, turns } kind = Kind::dense;
  std::byte* data = nullptr;  // dense, strided, turns
  std::vector<std::byte*> segments;
  std::shared_ptr<transport::Window> window;  // where peers map it
  int64_t offset = 0;                         // of data in the window
  std::vector<int64_t> segment_offsets;
  std::vector<std::shared_ptr<transport::Window>> segment_windows;
  const plan::Strided* strided = nullptr;
  int64_t depth = 0, capacity_bytes = 0;  // turns
};

class Memory {
 public:
  // Throws Error(user) for buffers that are not bound or lie where peers cannot reach them.
  Memory(Loaded& loaded, BoundState& state);
  void allocate_scratch();  // collective where peers map it and it must grow
  const BufferMemory& operator[](int buffer) const { return buffers_[static_cast<size_t>(buffer)]; }
  // Address of the buffer on `rank`, as mapped here.
  std::byte* base(int buffer, int rank) const;
  std::byte* segment(int buffer, int rank, size_t segment) const;
  // Words for the launch header: which buffers are registered, and where.
  std::string registered() const;

 private:
  int binding_of(int buffer) const;
  void resolve(int buffer);
  void resolve_scratch(int buffer);
  void check_scratch(int buffer) const;
  bool is_known(int buffer) const;
  void find_window(int buffer, const void* data, std::shared_ptr<transport::Window>& window, int64_t& offset) const;
  int64_t scratch_bytes(int buffer, BufferMemory& memory) const;
  Scratch& scratch(int root, int64_t bytes, bool mapped);

  Loaded& loaded_;
  BoundState& state_;
  std::vector<BufferMemory> buffers_;
};

}  // namespace weft::runtime
