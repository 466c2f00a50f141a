// One block per rank, buffers one behind the other: dense ones on a page, tensors of a list on a cache line each.
//
// Offsets are those of the rank that needs most, so that one number says where a buffer lies on every rank: peers map the
// block once and address it by offset.
#include "weft/api/memory.h"

#include <algorithm>

namespace weft::api {
namespace {

constexpr int64_t tensor_align = 64, buffer_align = 4096;

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// Scattered: the value ranges over `tensors P` and this rank holds all of it, so every tensor is a block of its own.
bool scattered(const lower::Lowered& lowered, int buffer) {
  const plan::Buffer& b = lowered.plan.buffers[static_cast<size_t>(buffer)];
  const int space = plan::find_space(lowered.plan, b.space);
  // A value per tensor (#P) has a fixed space beside P's: one dense buffer.
  const bool listed = !lowered.spaces[static_cast<size_t>(space)].tensors.empty() &&
                      lowered.plan.spaces[static_cast<size_t>(space)].kind != plan::Space::Kind::fixed;
  return listed && !b.own && b.role != plan::Buffer::Role::scratch;
}

Placement place(const lower::Lowered& lowered, const ir::Sizes& sizes, int rank, int buffer, int64_t& at) {
  Placement out;
  out.bound = true;
  out.bytes = lower::buffer_bytes(lowered, sizes, rank, buffer);
  out.offset = at;
  int64_t most = out.bytes;  // the same offsets on all ranks
  for (int other = 0; other < sizes.ranks; other++)
    most = std::max(most, lower::buffer_bytes(lowered, sizes, other, buffer));
  if (!scattered(lowered, buffer)) {
    at = round_up(at + most, buffer_align);
    return out;
  }
  const plan::Buffer& b = lowered.plan.buffers[static_cast<size_t>(buffer)];
  const int space = plan::find_space(lowered.plan, b.space);
  const int64_t element = size_bytes(*parse_dtype(b.dtype));
  for (const int64_t length : ir::tensors_lengths(sizes, lowered.spaces[static_cast<size_t>(space)].tensors)) {
    out.tensor_offsets.push_back(at);
    at = round_up(at + length * element, tensor_align);
  }
  at = round_up(at, buffer_align);
  return out;
}

}  // namespace

Layout lay_out(const lower::Lowered& lowered, const ir::Sizes& sizes, int rank, bool with_scratch) {
  Layout layout;
  for (size_t i = 0; i < lowered.plan.buffers.size(); i++) {
    const plan::Buffer& buffer = lowered.plan.buffers[i];
    const bool whole_scratch = with_scratch && buffer.depth == 0 && buffer.alias.empty();
    const bool ours = buffer.role != plan::Buffer::Role::scratch || whole_scratch;
    layout.buffers.push_back(ours ? place(lowered, sizes, rank, static_cast<int>(i), layout.total_bytes) : Placement{});
  }
  layout.total_bytes += buffer_align;  // what is empty and lies last is still within: peers ask whose memory it is
  return layout;
}

std::map<int, plan::Binding> bindings(const Layout& layout, std::byte* base) {
  std::map<int, plan::Binding> out;
  for (size_t i = 0; i < layout.buffers.size(); i++) {
    const Placement& place = layout.buffers[i];
    if (!place.tensor_offsets.empty()) {
      plan::Segments segments;
      for (const int64_t offset : place.tensor_offsets) segments.data.push_back(base + offset);
      out[static_cast<int>(i)] = segments;
    } else if (place.bound) {
      out[static_cast<int>(i)] = plan::Dense{base + place.offset};
    }
  }
  return out;
}

plan::LaunchArgs launch_args(const lower::Lowered& lowered, const ir::Sizes& sizes, int rank, const Layout& layout,
                             std::byte* base) {
  plan::LaunchArgs args = lower::launch_args(lowered, sizes, rank, {});
  for (auto& [buffer, binding] : bindings(layout, base)) args.buffers[static_cast<size_t>(buffer)] = binding;
  return args;
}

int buffer_of(const lower::Lowered& lowered, const ir::Name& name) {
  for (size_t i = 0; i < lowered.buffers.size(); i++)
    if (lowered.buffers[i].is(name)) return static_cast<int>(i);
  return -1;
}

std::vector<Piece> pieces(const lower::Lowered& lowered, const ir::Sizes& sizes, int rank, int buffer,
                          const plan::Binding& binding) {
  const plan::Instance instance(lowered.plan, sizes.ranks);
  const plan::LaunchArgs args = lower::launch_args(lowered, sizes, rank, {});
  const plan::Extents extents(instance, args.spaces, plan::default_chunk(instance, 256 << 10));
  const int space = instance.buffer_space(buffer);
  const int64_t element = size_bytes(instance.dtype(buffer));
  std::vector<Piece> out;
  if (const auto* segments = std::get_if<plan::Segments>(&binding)) {
    int64_t position = 0;
    const auto& lengths = args.spaces[static_cast<size_t>(space)].segments->lengths;
    for (size_t i = 0; i < lengths.size(); i++) {
      out.push_back({segments->data[i], position, lengths[i]});
      position += lengths[i];
    }
    return out;
  }
  if (instance.own_part(buffer, rank) == expr::none) return out;  // another rank has it
  const auto* dense = std::get_if<plan::Dense>(&binding);
  WEFT_CHECK(dense, "pieces of a buffer that is neither dense nor scattered");
  std::byte* base = static_cast<std::byte*>(dense->data);
  const int64_t own = instance.own_part(buffer, rank);
  if (own < 0) return {{base, 0, extents.elements(space)}};  // the whole value, row-major
  extents.runs(space, own, {0, extents.part_size(space, own)}, [&](int64_t offset, int64_t position, int64_t count) {
    out.push_back({base + offset * element, position, count});
  });
  return out;
}

}  // namespace weft::api
