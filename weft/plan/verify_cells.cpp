#include "weft/plan/verify_cells.h"

#include <algorithm>
#include <numeric>

namespace weft::plan {

namespace {

constexpr int given_chunks = 3;  // counts are drawn from {0, 1, 3}
constexpr uint64_t kind_shift = 60;

bool like(const Plan& plan, size_t a, size_t b) {
  const auto root = [&](size_t space) {
    for (size_t hops = 0; hops < plan.spaces.size() && !plan.spaces[space].like.empty(); ++hops)
      space = static_cast<size_t>(find_space(plan, plan.spaces[space].like));
    return space;
  };
  return root(a) == root(b);
}

Coord without_part(Coord coord) {
  coord.part = 0;
  return coord;
}

}  // namespace

Spaces::Spaces(const Instance& instance, const Assembly& assembly, const Variant& variant) : ragged_(variant.ragged) {
  const Plan& plan = instance.plan();
  shapes_.resize(plan.spaces.size());
  for (size_t s = 0; s < shapes_.size(); ++s) {
    shapes_[s].kind = plan.spaces[s].kind;
    shapes_[s].parts = static_cast<int>(instance.parts(static_cast<int>(s)));
    shapes_[s].twin = static_cast<int>(s);
  }
  for (const AssembledLane& lane : assembly.lanes)
    for (const AssembledBlock& block : lane.blocks)
      for (uint16_t s : block.head.spaces) {
        shapes_[s].cut = true;
        shapes_[s].slices = std::lcm(shapes_[s].slices, block.head.slices);
        join(block.head.spaces[0], s);
      }
  for (size_t s = 0; s < shapes_.size(); ++s) {
    SpaceShape& shape = shapes_[s];
    if (shape.cut) {
      shape.shares = instance.channels();
      shape.chunks = shape.kind == Space::Kind::given ? std::max(given_chunks, variant.chunks) : variant.chunks;
    }
    const int64_t count = shape.kind == Space::Kind::fixed ? instance.fixed_count(static_cast<int>(s)) : -1;
    shape.key = count >= 0 ? static_cast<uint64_t>(count) : (uint64_t{1} << 58) + s;
    for (size_t t = 0; t < s; ++t) {
      const bool same = shape.kind == Space::Kind::equal && shapes_[t].kind == shape.kind && like(plan, s, t);
      const bool both_fixed =
          shape.kind == Space::Kind::fixed && shapes_[t].kind == shape.kind && shape.key == shapes_[t].key;
      if (same) shape.key = shapes_[t].key;
      if (same || both_fixed) join(static_cast<int>(t), static_cast<int>(s));
    }
  }
}

void Spaces::join(int a, int b) {
  const int from = std::max(shapes_[static_cast<size_t>(a)].twin, shapes_[static_cast<size_t>(b)].twin);
  const int to = std::min(shapes_[static_cast<size_t>(a)].twin, shapes_[static_cast<size_t>(b)].twin);
  for (SpaceShape& shape : shapes_)
    if (shape.twin == from) shape.twin = to;
}

uint64_t Spaces::size_key(int space, const Coord& coord) const {
  const SpaceShape& shape = (*this)[space];
  switch (shape.kind) {
    case Space::Kind::even: return uint64_t{1} << kind_shift | static_cast<uint64_t>(space) << 40 | pack(coord);
    case Space::Kind::given: return uint64_t{2} << kind_shift | pack(without_part(coord));
    case Space::Kind::equal: return uint64_t{3} << kind_shift | (shape.key & 0xffff) << 40 | pack(without_part(coord));
    case Space::Kind::fixed: break;
  }
  return shape.cut ? uint64_t{4} << kind_shift | static_cast<uint64_t>(space) << 40 | pack(without_part(coord))
                   : uint64_t{5} << kind_shift | shape.key;
}

int Spaces::chunks(int space, int part) const {
  const SpaceShape& shape = (*this)[space];
  return shape.cut && ragged_ && shape.kind == Space::Kind::even && part % 2 == 1 ? shape.chunks - 1 : shape.chunks;
}

// ---- memory
CellMemory::CellMemory(const Instance& instance, const Spaces& spaces, bool alias)
    : spaces_(&spaces), instance_(&instance) {
  const Plan& plan = instance.plan();
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    roots_.push_back(alias ? instance.buffer_root(static_cast<int>(b)) : static_cast<int>(b));
    const SpaceShape& shape = spaces[instance.buffer_space(static_cast<int>(b))];
    const int depth = plan.buffers[b].depth;
    sizes_.push_back(static_cast<size_t>(shape.parts) * static_cast<size_t>(shape.shares) *
                     static_cast<size_t>(shape.slices) *
                     static_cast<size_t>(depth && shape.cut ? depth : shape.chunks));
  }
  size_t total = 0;
  for (int rank = 0; rank < instance.ranks(); ++rank)
    for (size_t size : sizes_) {
      bases_.push_back(total);
      total += size;
    }
  cells_.resize(total);
}

size_t CellMemory::index(int rank, int buffer, const Coord& coord, int64_t turn) const {
  const int depth = instance_->plan().buffers[static_cast<size_t>(buffer)].depth;
  const SpaceShape& shape = (*spaces_)[instance_->buffer_space(buffer)];
  const bool deep = depth > 0 && shape.cut;
  const int chunks = deep ? depth : shape.chunks;
  const int chunk = deep ? static_cast<int>(turn % depth) : coord.chunk;
  return buffer_base(rank, buffer) +
         static_cast<size_t>(((coord.part * shape.shares + coord.share) * chunks + chunk) * shape.slices + coord.slice);
}

int CellMemory::access(Cell& cell, int actor, const uint32_t* clock, bool write) {
  const auto ordered = [&](const Epoch& epoch) { return epoch.actor < 0 || clock[epoch.actor] >= epoch.time; };
  int race = ordered(cell.writer) ? -1 : cell.writer.actor;
  const Epoch mine{actor, clock[actor]};
  if (write) {
    for (const Epoch& reader : cell.readers)
      if (!ordered(reader)) race = reader.actor;
    cell.writer = mine;
    cell.readers.clear();
    return race;
  }
  size_t kept = 0;  // a later write that is ordered after us is ordered after those before us
  for (size_t i = 0; i < cell.readers.size(); ++i)
    if (!ordered(cell.readers[i])) cell.readers[kept++] = cell.readers[i];
  while (cell.readers.size() > kept) cell.readers.pop_back();
  cell.readers.push_back(mine);
  return race;
}

}  // namespace weft::plan
