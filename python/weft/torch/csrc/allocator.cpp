// torch's CPU allocator on the arena of this process (backend.h).
//
// Problem: a collective over memory that peers map is up to twice as fast, but torch allocates where malloc likes. Ways:
// special tensors (every program would have to change), copies into mapped buffers (what is gained is lost), or torch's own
// allocator: everything above a few pages then lies in one sparse block that peers map whole. Small blocks stay with torch:
// their calls go through links whatever their memory is.
#include <c10/core/CPUAllocator.h>

#include "backend.h"

namespace weft_torch {
namespace {

constexpr size_t least_bytes = 16 << 10;

weft_arena* process_arena = nullptr;  // never destroyed: tensors of static objects are freed last
c10::Allocator* before = nullptr;

// Blocks of both kinds have this one deleter, as c10::Allocator::raw_deleter demands.
void release(void* memory) {
  if (!weft_arena_holds(process_arena, memory)) return before->raw_deleter()(memory);
  c10::profiledCPUMemoryReporter().Delete(memory);
  weft_arena_free(process_arena, memory);
}

class ArenaAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes >= least_bytes)
      if (void* const memory = weft_arena_alloc(process_arena, bytes)) {
        c10::profiledCPUMemoryReporter().New(memory, bytes);
        return {memory, memory, &release, cpu};
      }
    void* const memory = before->raw_allocate(bytes);
    return {memory, memory, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

weft_arena* arena() { return process_arena; }

std::string take_allocator() {
  if (process_arena) return "";
  c10::Allocator* const present = c10::GetCPUAllocator();
  if (!present->raw_deleter()) return "torch's present CPU allocator has no raw interface";
  weft_arena* fresh = nullptr;
  if (weft_arena_create(0, &fresh) != WEFT_OK) return weft_last_error();
  before = present;
  process_arena = fresh;
  c10::SetCPUAllocator(new ArenaAllocator, 0xff);
  return "";
}

bool in_arena(const Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() && tensor.has_storage() &&
         weft_arena_holds(process_arena, tensor.storage().data());
}

}  // namespace weft_torch
