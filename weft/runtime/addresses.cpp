// Addresses of operands for one binding (addresses.h).
#include "weft/runtime/addresses.h"

#include <algorithm>

namespace weft::runtime {
namespace {

constexpr int64_t table_limit =
    16384;  // ranges kept per part and block; beyond, a chunk is work enough to compute them

}  // namespace

const Cells* Addresses::cells(const plan::Block& block, int space, int64_t part, int channel) {
  const auto key = std::make_tuple(&block, space, part);
  if (const auto at = known_.find(key); at != known_.end() && at->second->channel == channel) return at->second;
  Cells& cells = storage_->cells.emplace_back();
  const plan::Extents& extents = *state_.extents;
  cells.extents = &extents, cells.space = space, cells.part = part, cells.channel = channel,
  cells.slices = block.slices;
  cells.loop = std::find(block.spaces.begin(), block.spaces.end(), static_cast<uint16_t>(space)) != block.spaces.end();
  cells.whole = {0, extents.part_size(space, part)};
  if (cells.loop) {
    cells.chunks = extents.chunks(space, channel);
    if (cells.chunks * block.slices <= table_limit)
      for (int64_t chunk = 0; chunk < cells.chunks; ++chunk)
        for (int slice = 0; slice < block.slices; ++slice)
          cells.table.push_back(extents.slice(space, part, channel, chunk, slice, block.slices));
  }
  return known_[key] = &cells;
}

std::shared_ptr<const SegmentIndex> Addresses::segments(int space) {
  const plan::SegmentTable* table = state_.args.spaces[static_cast<size_t>(space)].segments;
  if (!table) {
    const plan::Space& text = instance_.plan().spaces[static_cast<size_t>(space)];
    if (text.derived != plan::Space::Derived::no) return segments(plan::find_space(instance_.plan(), text.of));
    throw Error(ErrorKind::user,
                fmt::format("space {} of plan {} has no segment table in this launch", text.name, loaded_.name()));
  }
  auto& index = indexes_[table];
  if (!index) index = std::make_shared<SegmentIndex>(table->lengths);
  return index;
}

// The part's own elements [0, size) are contiguous in the whole value, from this position on.
bool Addresses::contiguous(int space, int64_t part, int64_t& position) const {
  const int64_t size = state_.extents->part_size(space, part);
  int64_t count = 0;
  position = size > 0 ? state_.extents->run_at(space, part, 0, size, count) : 0;
  return count >= size;
}

Address Addresses::slice(const plan::Block& block, int buffer, int rank, int64_t part, int channel) {
  const BufferMemory& memory = memory_[buffer];
  const int space = instance_.buffer_space(buffer);
  const bool own = instance_.plan().buffers[static_cast<size_t>(buffer)].own != nullptr;
  Address address;
  address.stride = size_bytes(instance_.dtype(buffer));
  int64_t position = 0;
  switch (memory.kind) {
    case BufferMemory::Kind::dense:
      address.base = memory_.base(buffer, rank);
      if (own) break;
      if (contiguous(space, part, position))
        address.base += position * address.stride;
      else
        address.kind = Address::Kind::value;
      break;
    case BufferMemory::Kind::turns: {
      if (!block.loop)
        throw Error(ErrorKind::plan,
                    fmt::format("buffer {} holds chunks in turn and is used outside a loop",
                                instance_.plan().buffers[static_cast<size_t>(buffer)].name),
                    "", "V2");
      address.kind = Address::Kind::turn;
      address.depth = memory.depth, address.capacity = memory.capacity_bytes;
      address.base =
          memory_.base(buffer, rank) + (part * instance_.channels() + channel) * memory.depth * memory.capacity_bytes;
      break;
    }
    case BufferMemory::Kind::strided: strided_address(address, memory, buffer, rank, own); break;
    case BufferMemory::Kind::segments: segment_address(address, memory, buffer, rank); break;
  }
  return address;
}

void Addresses::strided_address(Address& address, const BufferMemory& memory, int buffer, int rank, bool own) {
  address.kind = own ? Address::Kind::strided_own : Address::Kind::strided;
  address.base = memory_.base(buffer, rank);
  StridedView& view = storage_->views.emplace_back();
  int64_t elements = 1;
  for (size_t d = 0; d < memory.strided->shape.size(); ++d) {
    view.shape.push_back(memory.strided->shape[d]);
    view.stride_bytes.push_back(memory.strided->stride_elements[d] * address.stride);
    elements *= memory.strided->shape[d];
  }
  const int space = instance_.buffer_space(buffer);
  const int64_t want =
      own ? state_.extents->part_size(space, instance_.own_part(buffer, rank)) : state_.extents->elements(space);
  if (elements != want)
    throw Error(ErrorKind::user,
                fmt::format("buffer {} is bound to a view of {} elements, its space has {}",
                            instance_.plan().buffers[static_cast<size_t>(buffer)].name, elements, want));
  address.view = &view;
}

void Addresses::segment_address(Address& address, const BufferMemory& memory, int buffer, int rank) {
  address.kind = Address::Kind::segments;
  const Scattered*& known = scattered_[{buffer, rank}];
  if (!known) {
    Scattered& scattered = storage_->scattered.emplace_back();
    scattered.index = segments(instance_.buffer_space(buffer));
    if (scattered.index->segments() != static_cast<int64_t>(memory.segments.size()))
      throw Error(ErrorKind::user, fmt::format("buffer {} is bound to {} tensors, its space has {}",
                                               instance_.plan().buffers[static_cast<size_t>(buffer)].name,
                                               memory.segments.size(), scattered.index->segments()));
    if (const int64_t want = state_.extents->elements(instance_.buffer_space(buffer));
        scattered.index->elements() != want)
      throw Error(ErrorKind::user, fmt::format("the tensors of buffer {} have {} elements together, its space has {}",
                                               instance_.plan().buffers[static_cast<size_t>(buffer)].name,
                                               scattered.index->elements(), want));
    for (size_t i = 0; i < memory.segments.size(); ++i) scattered.data.push_back(memory_.segment(buffer, rank, i));
    known = &scattered;
  }
  address.scattered = known;
}

const Meet* Addresses::meet(int space) {
  const Meet*& known = meets_[space];
  if (known) return known;
  const plan::Space& text = instance_.plan().spaces[static_cast<size_t>(space)];
  const plan::SpaceExtent& extent = state_.args.spaces[static_cast<size_t>(space)];
  Meet& meet = storage_->meets.emplace_back();
  const bool column = text.derived == plan::Space::Derived::column;
  if (text.derived == plan::Space::Derived::segment && !extent.meeting) {
    meet.index = segments(space);
  } else if (extent.meeting) {
    meet.shape = extent.meeting->shape, meet.stride = extent.meeting->stride;
    const bool fits = meet.shape.size() == meet.stride.size() && !meet.shape.empty() &&
                      (meet.shape.back() <= 1 || meet.stride.back() == (column ? 1 : 0));
    if (!fits)
      throw Error(ErrorKind::user, fmt::format("space {} of plan {}: the meeting of this launch does not fit `by {}`",
                                               text.name, loaded_.name(), column ? "column" : "row"));
  } else if (text.derived == plan::Space::Derived::block && instance_.block_elements(space) > 0) {
    meet.block = instance_.block_elements(space);
  } else {
    throw Error(ErrorKind::user,
                fmt::format("space {} of plan {} needs a meeting in the launch's extents", text.name, loaded_.name()));
  }
  return known = &meet;
}

// An operand that does not go through the step cell by cell.
Address Addresses::apart(const plan::Block& block, const OperandTyping& typing, const plan::FlatOperand& flat,
                         bool tile) {
  const int space = instance_.buffer_space(flat.name);
  Address address = slice(block, flat.name, typing.peer, plan::part_at(flat, 0, instance_.parts(space)), 0);
  // All parts of a value are the value, as it lies in memory, however it is cut.
  const bool all_parts = flat.part_count > 1 && flat.part_count == instance_.parts(space);
  if (tile && all_parts && address.kind == Address::Kind::value) address.kind = Address::Kind::flat;
  if (tile || address.kind != Address::Kind::flat) {
    if (address.kind != Address::Kind::flat)
      throw Error(
          ErrorKind::unsupported,
          fmt::format("buffer {} is read whole and is not contiguous", instance_.plan().buffers[flat.name].name),
          "bind it densely");
    return address;
  }
  if (typing.derived) {
    address.kind = Address::Kind::derived;
    address.meet = meet(space);
    address.one_cell = typing.accumulate &&
                       instance_.plan().spaces[static_cast<size_t>(space)].derived == plan::Space::Derived::column;
    return address;
  }
  if (const int64_t size = state_.extents->part_size(space, plan::part_at(flat, 0, instance_.parts(space))); size > 1)
    throw Error(ErrorKind::plan,
                fmt::format("operand {} has {} elements in a part and no meeting with the step's cells",
                            instance_.plan().buffers[flat.name].name, size),
                "derive its space from the loop's", "V2");
  address.stride = 0;
  return address;
}

Address Addresses::constant(Dtype dtype, double value) {
  std::array<double, 2>& memory = storage_->constants.emplace_back();
  if (dtype == Dtype::f64x2)
    memory = {value, value};
  else
    store_f64(dtype, memory.data(), value);
  Address address;
  address.base = reinterpret_cast<std::byte*>(memory.data());
  return address;
}

}  // namespace weft::runtime
