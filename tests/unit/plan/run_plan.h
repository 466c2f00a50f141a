// Memory and arguments for interpreting a plan in a test: every bound buffer of every rank, inputs that encode rank and
// index, results poisoned, canaries behind.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "weft/plan/interpret.h"

namespace weft::plan::cases {

constexpr int canary_elements = 4;
constexpr unsigned char canary = 0xA5, poison = 0xEE;

struct PlanSizes {
  int64_t even = 0;               // elements of every even space
  int64_t equal_part = 0;         // elements of a part of an equal space
  int64_t fixed = 1;              // elements of a part whose count the launch says
  std::vector<int64_t> segments;  // lengths of the even spaces' tensors; empty: none
  std::function<int64_t(int space, int rank, int64_t part)> given;
  std::vector<expr::ScalarValue> scalars;
  std::optional<Meeting> row, column;  // how spaces derived by row and by column meet the others
};

class PlanRun {
 public:
  PlanRun(const Plan& plan, int ranks, const PlanSizes& sizes, const std::map<Id, std::string>& params = {})
      : instance(plan, ranks, params), sizes_(sizes) {
    table_.lengths = sizes.segments;
    for (int rank = 0; rank < ranks; ++rank) bind(rank);
  }

  void run(const InterpretOptions& options, const std::function<void(int)>& between = {}) {
    interpret(instance, args, options, between);
  }

  // fill(rank, position in the whole value) for inputs and states of this name.
  void fill(const Id& name, const std::function<double(int, int64_t)>& value) {
    each(name, [&](int rank, int64_t i, int64_t position) {
      store_f64(dtype(name), at(rank, name, i), value(rank, position));
    });
  }
  // f(rank, element of the bound memory, position in the whole value)
  void each(const Id& name, const std::function<void(int, int64_t, int64_t)>& f) {
    const int b = find_buffer(instance.plan(), name), space = instance.buffer_space(b);
    for (int rank = 0; rank < instance.ranks(); ++rank) {
      const Extents extents(instance, args[static_cast<size_t>(rank)].spaces, {});
      const int64_t own = instance.own_part(b, rank);
      for (int64_t part = 0; part < instance.parts(space); ++part) {
        if (own != -1 && own != part) continue;
        for (int64_t e = 0; e < extents.part_size(space, part); ++e) {
          int64_t count = 0;
          const int64_t position = extents.run_at(space, part, e, e + 1, count);
          f(rank, own != -1 ? e : position, position);
        }
      }
    }
  }
  Dtype dtype(const Id& name) const { return instance.dtype(find_buffer(instance.plan(), name)); }
  void* at(int rank, const Id& name, int64_t i) {
    return memory_[static_cast<size_t>(rank)][static_cast<size_t>(find_buffer(instance.plan(), name))].data() +
           i * size_bytes(dtype(name));
  }
  double value(int rank, const Id& name, int64_t i) { return load_f64(dtype(name), at(rank, name, i)); }
  void expect_canaries() const {
    for (const auto& rank : memory_)
      for (const auto& bytes : rank)
        for (size_t i = bytes.size() - std::min<size_t>(bytes.size(), canary_elements * 8); i < bytes.size(); ++i)
          ASSERT_EQ(bytes[i], canary) << "written behind a buffer";
  }
  // All results, byte for byte.
  std::vector<unsigned char> results() const {
    std::vector<unsigned char> all;
    for (const auto& rank : memory_)
      for (size_t b = 0; b < rank.size(); ++b)
        if (instance.plan().buffers[b].role != Buffer::Role::in) all.insert(all.end(), rank[b].begin(), rank[b].end());
    return all;
  }

  Instance instance;
  std::vector<LaunchArgs> args;

 private:
  SpaceExtent extent(int space, int rank) const {
    const Space& s = instance.plan().spaces[static_cast<size_t>(space)];
    SpaceExtent out;
    out.extent = Cut{1,
                     s.kind == Space::Kind::equal  ? sizes_.equal_part * instance.parts(space)
                     : s.kind == Space::Kind::even ? sizes_.even
                                                   : sizes_.fixed,
                     1};
    if (s.kind == Space::Kind::fixed && (s.derived != Space::Derived::no || instance.fixed_count(space) >= 0))
      out.extent = Cut{};
    if (s.derived == Space::Derived::row) out.meeting = sizes_.row;
    if (s.derived == Space::Derived::column) out.meeting = sizes_.column;
    if (s.kind == Space::Kind::given) {
      Given counts;
      for (int64_t p = 0; p < instance.parts(space); ++p) counts.counts.push_back(sizes_.given(space, rank, p));
      out.extent = counts;
    }
    if (s.kind == Space::Kind::even && !sizes_.segments.empty()) out.segments = &table_;
    return out;
  }

  void bind(int rank) {
    LaunchArgs launch;
    for (int s = 0; s < static_cast<int>(instance.plan().spaces.size()); ++s) launch.spaces.push_back(extent(s, rank));
    const Extents extents(instance, launch.spaces, {});
    std::vector<std::vector<unsigned char>> memory;
    for (int b = 0; b < static_cast<int>(instance.plan().buffers.size()); ++b) {
      const Buffer& buffer = instance.plan().buffers[static_cast<size_t>(b)];
      if (buffer.role == Buffer::Role::scratch) {
        memory.emplace_back();
        launch.buffers.emplace_back(std::monostate());
        continue;
      }
      const int64_t own = instance.own_part(b, rank), space = instance.buffer_space(b);
      const int64_t elements = own == expr::none ? 0
                               : own >= 0        ? extents.part_size(static_cast<int>(space), own)
                                                 : extents.elements(static_cast<int>(space));
      std::vector<unsigned char> bytes(static_cast<size_t>(elements * size_bytes(instance.dtype(b))), poison);
      bytes.insert(bytes.end(), canary_elements * 8, canary);
      memory.push_back(std::move(bytes));
      launch.buffers.emplace_back(Dense{memory.back().data()});
    }
    for (size_t b = 0; b < memory.size(); ++b)
      if (!memory[b].empty()) launch.buffers[b] = Dense{memory[b].data()};
    launch.scalars = sizes_.scalars;
    args.push_back(std::move(launch));
    memory_.push_back(std::move(memory));
  }

  PlanSizes sizes_;
  SegmentTable table_;
  std::vector<std::vector<std::vector<unsigned char>>> memory_;
};

}  // namespace weft::plan::cases
