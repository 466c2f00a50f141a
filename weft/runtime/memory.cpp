// Bindings and scratch (memory.h).
#include "weft/runtime/memory.h"

#include <algorithm>

#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/transport/mapping.h"

namespace weft::runtime {
namespace {

const plan::Buffer& buffer_of(const Loaded& loaded, int buffer) {
  return loaded.instance.plan().buffers[static_cast<size_t>(buffer)];
}

bool is_bound(const plan::Binding& binding) { return !std::holds_alternative<std::monostate>(binding); }

// Largest chunk of any part and channel: what one turn of a scratch with depth holds.
int64_t largest_chunk(const Loaded& loaded, const plan::Extents& extents, int space) {
  int64_t most = 0;
  for (int64_t part = 0; part < loaded.instance.parts(space); ++part)
    for (int channel = 0; channel < loaded.instance.channels(); ++channel)
      if (extents.chunks(space, channel) > 0) most = std::max(most, extents.chunk(space, part, channel, 0).size());
  return most;
}

bool is_agreed(const Loaded& loaded, int space) {
  return loaded.instance.plan().spaces[static_cast<size_t>(space)].kind != plan::Space::Kind::given;
}

}  // namespace

Memory::Memory(Loaded& loaded, BoundState& state) : loaded_(loaded), state_(state) {
  const size_t count = loaded.instance.plan().buffers.size();
  if (state.args.buffers.size() != count)
    throw Error(ErrorKind::user, fmt::format("plan {} has {} buffers, the launch binds {}", loaded.name(), count,
                                             state.args.buffers.size()));
  buffers_.resize(count);
  for (size_t b = 0; b < count; ++b) resolve(static_cast<int>(b));
}

void Memory::allocate_scratch() {
  for (size_t b = 0; b < buffers_.size(); ++b)
    if (binding_of(static_cast<int>(b)) < 0 && is_known(static_cast<int>(b))) resolve_scratch(static_cast<int>(b));
  state_.scratch_version = loaded_.scratch_version;
}

// The buffer whose binding stands for this one: itself, else the first bound one of those that share its memory; -1:
// scratch.
int Memory::binding_of(int buffer) const {
  const auto& bindings = state_.args.buffers;
  if (is_bound(bindings[static_cast<size_t>(buffer)])) return buffer;
  const int root = loaded_.instance.buffer_root(buffer);
  if (is_bound(bindings[static_cast<size_t>(root)])) return root;
  for (size_t b = 0; b < bindings.size(); ++b)
    if (is_bound(bindings[b]) && loaded_.instance.buffer_root(static_cast<int>(b)) == root) return static_cast<int>(b);
  return -1;
}

void Memory::resolve(int buffer) {
  const plan::Buffer& text = buffer_of(loaded_, buffer);
  const int from = binding_of(buffer);
  if (from < 0) return check_scratch(buffer);
  if (text.depth > 0 && text.role == plan::Buffer::Role::scratch)
    throw Error(
        ErrorKind::user,
        fmt::format("buffer {} is scratch that holds {} chunks in turn and cannot be bound", text.name, text.depth),
        "leave its binding empty");
  const plan::Binding& binding = state_.args.buffers[static_cast<size_t>(from)];
  BufferMemory& memory = buffers_[static_cast<size_t>(buffer)];
  const bool shared = text.mapped && loaded_.instance.ranks() > 1;
  const int64_t elements = is_known(buffer) ? state_.extents->elements(loaded_.instance.buffer_space(buffer)) : 0;
  if (const auto* dense = std::get_if<plan::Dense>(&binding)) {
    memory.data = static_cast<std::byte*>(dense->data);
    if (!memory.data && elements > 0)
      throw Error(ErrorKind::user,
                  fmt::format("buffer {} is bound to a null pointer and has {} elements", text.name, elements));
    if (shared && memory.data) find_window(buffer, memory.data, memory.window, memory.offset);
  } else if (const auto* strided = std::get_if<plan::Strided>(&binding)) {
    memory.kind = BufferMemory::Kind::strided;
    memory.data = static_cast<std::byte*>(strided->data);
    memory.strided = strided;
    if (strided->shape.size() != strided->stride_elements.size())
      throw Error(ErrorKind::user, fmt::format("buffer {}: {} dimensions and {} strides", text.name,
                                               strided->shape.size(), strided->stride_elements.size()));
    if (shared) find_window(buffer, memory.data, memory.window, memory.offset);
  } else {
    memory.kind = BufferMemory::Kind::segments;
    for (void* data : std::get<plan::Segments>(binding).data) {
      memory.segments.push_back(static_cast<std::byte*>(data));
      if (!shared) continue;
      memory.segment_windows.emplace_back(), memory.segment_offsets.push_back(0);
      if (data) find_window(buffer, data, memory.segment_windows.back(), memory.segment_offsets.back());
    }
  }
}

void Memory::find_window(int buffer, const void* data, std::shared_ptr<transport::Window>& window,
                         int64_t& offset) const {
  window = loaded_.owner.find_symmetric(data, offset);
  if (window) state_.holds.push_back(window);
  if (window) return;
  throw Error(ErrorKind::user,
              fmt::format("buffer {} of plan {} is mapped: peers access it, but its memory is private to rank {}",
                          buffer_of(loaded_, buffer).name, loaded_.name(), loaded_.rank()),
              "take its memory from Communicator::allocate, at the same offset on all ranks, or use a plan with links");
}

int64_t Memory::scratch_bytes(int buffer, BufferMemory& memory) const {
  const plan::Instance& instance = loaded_.instance;
  const plan::Buffer& text = buffer_of(loaded_, buffer);
  const int space = instance.buffer_space(buffer);
  const int64_t bytes = size_bytes(instance.dtype(buffer));
  if (text.depth > 0) {
    memory.kind = BufferMemory::Kind::turns;
    memory.depth = text.depth;
    memory.capacity_bytes = (largest_chunk(loaded_, *state_.extents, space) * bytes + 63) / 64 * 64;
    return memory.capacity_bytes * text.depth * instance.parts(space) * instance.channels();
  }
  if (!text.own) return state_.extents->elements(space) * bytes;
  int64_t most = 0;  // over all parts, so that it is the same on all ranks
  for (int64_t part = 0; part < instance.parts(space); ++part)
    most = std::max(most, state_.extents->part_size(space, part));
  return most * bytes;
}

// Counts that are read while the plan runs: their scratch comes when they are there.
bool Memory::is_known(int buffer) const {
  return !std::holds_alternative<plan::OnDevice>(
      state_.extents->spaces()[static_cast<size_t>(loaded_.instance.buffer_space(buffer))].extent);
}

void Memory::check_scratch(int buffer) const {
  const plan::Buffer& text = buffer_of(loaded_, buffer);
  if (text.role != plan::Buffer::Role::scratch &&
      buffer_of(loaded_, loaded_.instance.buffer_root(buffer)).role != plan::Buffer::Role::scratch)
    throw Error(ErrorKind::user, fmt::format("buffer {} of plan {} is not bound", text.name, loaded_.name()),
                "only scratch may be left to the runtime");
}

void Memory::resolve_scratch(int buffer) {
  const plan::Instance& instance = loaded_.instance;
  const plan::Buffer& text = buffer_of(loaded_, buffer);
  const int root = instance.buffer_root(buffer);
  BufferMemory& memory = buffers_[static_cast<size_t>(buffer)];
  int64_t bytes = 0;
  bool mapped = false;
  for (size_t b = 0; b < buffers_.size(); ++b) {  // all that share the memory: the largest decides
    if (instance.buffer_root(static_cast<int>(b)) != root || binding_of(static_cast<int>(b)) >= 0 ||
        !is_known(static_cast<int>(b)))
      continue;
    BufferMemory other;
    bytes = std::max(bytes, scratch_bytes(static_cast<int>(b), other));
    mapped |= buffer_of(loaded_, static_cast<int>(b)).mapped && instance.ranks() > 1;
  }
  if (mapped && !is_agreed(loaded_, instance.buffer_space(buffer)))
    throw Error(ErrorKind::unsupported,
                fmt::format("mapped scratch {} over a space whose counts are not agreed", text.name),
                "use links for it");
  scratch_bytes(buffer, memory);
  const Scratch& scratch = this->scratch(root, bytes, mapped);
  memory.data = scratch.data;
  memory.window = scratch.window;
}

// Grows, never shrinks: what is there is used again by later launches.
Scratch& Memory::scratch(int root, int64_t bytes, bool mapped) {
  Scratch& scratch = loaded_.scratch[root];
  if (scratch.data && scratch.bytes >= bytes) return scratch;
  const std::string what = fmt::format("scratch {} of plan {}", buffer_of(loaded_, root).name, loaded_.name());
  if (scratch.keep) state_.holds.push_back(scratch.keep);
  ++loaded_.scratch_version;
  if (mapped) {
    scratch.window = loaded_.owner.transport.allocate(bytes, what);
    scratch.keep = scratch.window;
    scratch.data = scratch.window->at[static_cast<size_t>(loaded_.rank())];
  } else {
    const int64_t rounded = transport::rounded_block_bytes(bytes),
                  free = rounded > (1 << 20) ? free_memory_bytes() : INT64_MAX;
    if (rounded > free)
      throw Error(ErrorKind::io,
                  fmt::format("not enough memory for {}: {} needed, {} free", what,
                              human_bytes(static_cast<double>(rounded)), human_bytes(static_cast<double>(free))),
                  "use smaller sizes, fewer ranks or a plan with less scratch");
    auto mapping = std::make_shared<transport::Mapping>(-1, rounded, what);
    scratch.keep = mapping;
    scratch.data = mapping->data();
  }
  scratch.bytes = bytes;
  return scratch;
}

std::byte* Memory::base(int buffer, int rank) const {
  const BufferMemory& memory = buffers_[static_cast<size_t>(buffer)];
  if (rank == loaded_.rank() || !memory.window) return memory.data;
  return memory.window->at[static_cast<size_t>(rank)] + memory.offset;
}

std::byte* Memory::segment(int buffer, int rank, size_t segment) const {
  const BufferMemory& memory = buffers_[static_cast<size_t>(buffer)];
  if (rank == loaded_.rank() || memory.segment_windows.empty() || !memory.segment_windows[segment])
    return memory.segments[segment];
  return memory.segment_windows[segment]->at[static_cast<size_t>(rank)] + memory.segment_offsets[segment];
}

std::string Memory::registered() const {
  std::string text;
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const BufferMemory& memory = buffers_[b];
    if (memory.window) text += fmt::format(" {}@{}", loaded_.instance.plan().buffers[b].name, memory.offset);
    for (int64_t offset : memory.segment_offsets) text += fmt::format(",{}", offset);
  }
  return text;
}

}  // namespace weft::runtime
