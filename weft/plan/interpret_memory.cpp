#include "weft/plan/interpret_memory.h"

#include <cstring>

namespace weft::plan {

namespace {

constexpr int poison = 0xff;

void* strided_address(const Strided& strided, int64_t position, int64_t size) {
  int64_t element = 0;
  for (size_t d = strided.shape.size(); d > 0; --d) {
    element += position % strided.shape[d - 1] * strided.stride_elements[d - 1];
    position /= strided.shape[d - 1];
  }
  return static_cast<std::byte*>(strided.data) + element * size;
}

void* segment_address(const Segments& segments, const SegmentTable* table, int64_t position, int64_t size,
                      const Id& name) {
  if (table == nullptr)
    throw Error(ErrorKind::user,
                fmt::format("buffer {} is a list of tensors, and its space has no segment table", name),
                "give the lengths in the launch");
  for (size_t s = 0; s < table->lengths.size(); ++s) {
    if (position < table->lengths[s]) return static_cast<std::byte*>(segments.data.at(s)) + position * size;
    position -= table->lengths[s];
  }
  throw Error(ErrorKind::internal, fmt::format("element behind the segments of {}", name), "");
}

}  // namespace

void convert_element(Dtype from, const void* source, Dtype to, void* target) {
  if (from == to)
    std::memcpy(target, source, static_cast<size_t>(size_bytes(from)));
  else if (!is_float(from) && !is_float(to))
    store_i64(to, target, load_i64(from, source));
  else if (is_float(from) && !is_float(to) && to != Dtype::boolean)
    store_i64(to, target, load_i64(from, source));
  else
    store_f64(to, target, load_f64(from, source));
}

Values converted(const Values& values, Dtype to) {
  if (values.dtype == to) return values;
  Values out(to, values.count());
  for (int64_t i = 0; i < values.count(); ++i) convert_element(values.dtype, values.at(i), to, out.at(i));
  return out;
}

// A buffer without memory of its own (monostate) that is an alias lies where its original lies.
Memory::Memory(const Instance& instance, const std::vector<LaunchArgs>& args, std::vector<Extents>& extents)
    : instance_(&instance), extents_(&extents) {
  const auto& buffers = instance.plan().buffers;
  for (size_t rank = 0; rank < args.size(); ++rank) {
    if (args[rank].buffers.size() != buffers.size())
      throw Error(
          ErrorKind::user,
          fmt::format("rank {} binds {} buffers, the plan has {}", rank, args[rank].buffers.size(), buffers.size()),
          "one binding per buffer, in the plan's order");
    std::vector<Region> regions(buffers.size());
    std::vector<int> homes(buffers.size());
    for (size_t b = 0; b < buffers.size(); ++b) {
      const Binding& binding = args[rank].buffers[b];
      regions[b].binding = binding;
      regions[b].ours = std::holds_alternative<std::monostate>(binding);
      regions[b].tracked = buffers[b].role == Buffer::Role::scratch ||
                           (buffers[b].role == Buffer::Role::out && buffers[b].alias.empty());
      homes[b] = static_cast<int>(b);
      if (regions[b].ours && !buffers[b].alias.empty()) homes[b] = instance.buffer_root(static_cast<int>(b));
      const bool elsewhere = instance.own_part(static_cast<int>(b), static_cast<int>(rank)) == expr::none;
      if (regions[b].ours && homes[b] == static_cast<int>(b) && buffers[b].role != Buffer::Role::scratch && !elsewhere)
        throw Error(ErrorKind::user, fmt::format("rank {} does not bind {}", rank, buffers[b].name),
                    "only scratch is the runtime's own");
    }
    regions_.push_back(std::move(regions));
    homes_.push_back(std::move(homes));
  }
}

void* Memory::own_address(Region& region, int rank, int buffer, int64_t part, int64_t offset, const Place& place) {
  const int depth = instance_->plan().buffers[static_cast<size_t>(buffer)].depth;
  const int64_t size = size_bytes(instance_->dtype(buffer));
  const Extents& extents = (*extents_)[static_cast<size_t>(rank)];
  const int64_t copies = depth > 0 ? place.channel * depth + place.turn % depth : 0;
  const int64_t elements = depth > 0 ? place.chunk_size : extents.part_size(instance_->buffer_space(buffer), part);
  if (depth > 0) offset -= place.chunk_begin;
  std::vector<std::byte>& bytes = region.own[{part, copies}];
  if (bytes.size() < static_cast<size_t>(elements * size)) {  // reserved far ahead: addresses stay
    if (bytes.capacity() < static_cast<size_t>(elements * size))
      bytes.reserve(static_cast<size_t>(std::max<int64_t>(elements, 64) * size * 4));
    bytes.resize(static_cast<size_t>(elements * size), std::byte{poison});
  }
  return bytes.data() + offset * size;
}

void* Memory::address(int rank, int buffer, int64_t part, int64_t offset, const Place& place) {
  Region& where = region(rank, buffer);
  if (where.ours) return own_address(where, rank, buffer, part, offset, place);
  const int64_t size = size_bytes(instance_->dtype(buffer));
  const int space = instance_->buffer_space(buffer);
  const Extents& extents = (*extents_)[static_cast<size_t>(rank)];
  int64_t position = offset, count = 0;  // an owned part is bound alone
  if (instance_->own_part(buffer, rank) == -1) position = extents.run_at(space, part, offset, offset + 1, count);
  if (const auto* dense = std::get_if<Dense>(&where.binding))
    return static_cast<std::byte*>(dense->data) + position * size;
  if (const auto* strided = std::get_if<Strided>(&where.binding)) return strided_address(*strided, position, size);
  return segment_address(std::get<Segments>(where.binding), extents.spaces()[static_cast<size_t>(space)].segments,
                         position, size, instance_->plan().buffers[static_cast<size_t>(buffer)].name);
}

void Memory::check_written(int rank, int buffer, const void* address, int launch, const std::string& who) const {
  const Region& where = region(rank, buffer);
  if (!where.tracked) return;
  const auto written = where.written.find(address);
  if (written != where.written.end() && written->second == launch) return;
  throw Error(ErrorKind::plan,
              fmt::format("{} reads {}@{}, which nobody wrote in this launch", who,
                          instance_->plan().buffers[static_cast<size_t>(buffer)].name, rank),
              "write it first", "V10");
}

void Memory::mark_written(int rank, int buffer, const void* address, int launch) {
  Region& where = region(rank, buffer);
  if (where.tracked) where.written[address] = launch;
}

}  // namespace weft::plan
