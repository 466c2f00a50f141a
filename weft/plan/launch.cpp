// What a launch needs to know of a plan before it has sizes: the scalars of its kernels and the chunk of each space.
#include "weft/plan/launch.h"

#include <algorithm>
#include <limits>

namespace weft::plan {
namespace {

constexpr int64_t cache_sized_chunk = 64 * 1024;
constexpr int64_t unset = std::numeric_limits<int64_t>::max();

void add_scalars(const Body& body, std::vector<Id>& names) {
  for (const Item& item : body) {
    if (const auto* f = std::get_if<For>(&item)) add_scalars(f->body, names);
    if (const auto* w = std::get_if<When>(&item)) add_scalars(w->body, names);
    if (const auto* l = std::get_if<Loop>(&item)) add_scalars(l->body, names);
    const auto* step = std::get_if<Step>(&item);
    if (!step) continue;
    for (const Id& name : step->kernel.scalars)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
}

// Chunks in elements of the loop's base: a space of blocks of K counts K elements for each of its own.
class ChunkSizes {
 public:
  ChunkSizes(const Instance& instance, int64_t payload)
      : instance_(instance), payload_(payload), base_(instance.plan().spaces.size(), unset) {}

  std::vector<int64_t> sizes() {
    const int64_t ranks = std::min<int64_t>(instance_.ranks(), period(instance_));
    for (int rank = 0; rank < ranks; ++rank)
      for (int lane = 0; lane < static_cast<int>(instance_.plan().lanes.size()); ++lane)
        for (int channel = 0; channel < instance_.channels(); ++channel) walk(rank, lane, channel);
    std::vector<int64_t> chunks;
    for (int space = 0; space < static_cast<int>(base_.size()); ++space) chunks.push_back(rounded(space));
    return chunks;
  }

 private:
  int64_t scale(int space) const {
    const Space& s = instance_.plan().spaces[static_cast<size_t>(space)];
    return s.kind == Space::Kind::even ? std::max<int64_t>(1, instance_.block_elements(space)) : 1;
  }

  void walk(int rank, int lane, int channel) {
    Walk walk(instance_, rank, lane, channel);
    FlatStep step;
    while (walk.next_block()) {
      if (!walk.block().loop) continue;
      int64_t least = unset;
      while (walk.next(step)) least = std::min(least, fitting(step, walk.block()));
      for (const uint16_t space : walk.block().spaces) joint_.push_back({walk.block().spaces.front(), space});
      int64_t& first = base_[walk.block().spaces.front()];
      first = std::min(first, least);
    }
    join();
  }

  // Elements of a chunk whose slices fit one slot, for all messages of this step.
  int64_t fitting(const FlatStep& step, const Block& block) const {
    int64_t parts = 1, bytes = 1;
    bool linked = false;
    for (const FlatOperand& o : step.operands) {
      linked |= o.kind == Operand::Kind::send || o.kind == Operand::Kind::recv;
      if (o.kind != Operand::Kind::slice || o.accumulate) continue;
      const int space = instance_.buffer_space(o.name);
      if (std::find(block.spaces.begin(), block.spaces.end(), space) == block.spaces.end()) continue;
      parts = std::max(parts, o.part_count);
      bytes = std::max(bytes, size_bytes(instance_.dtype(o.name)));
    }
    if (!linked) return unset;
    int64_t least = unset;
    for (const FlatOperand& o : step.operands) {
      if (o.kind != Operand::Kind::send && o.kind != Operand::Kind::recv) continue;
      const std::optional<Dtype> wire = instance_.wire(o.name);
      least = std::min(least, payload_ * block.slices / (parts * (wire ? size_bytes(*wire) : bytes)));
    }
    return least;
  }

  void join() {
    for (size_t pass = 0; pass < base_.size(); ++pass)
      for (const auto& [a, b] : joint_) base_[a] = base_[b] = std::min(base_[a], base_[b]);
    std::sort(joint_.begin(), joint_.end());
    joint_.erase(std::unique(joint_.begin(), joint_.end()), joint_.end());
  }

  int64_t rounded(int space) const {
    const int64_t grain = instance_.plan().spaces[static_cast<size_t>(space)].grain;
    const int64_t base = base_[static_cast<size_t>(space)],
                  chunk = (base == unset ? cache_sized_chunk : base) / scale(space);
    return std::max(grain, chunk / grain * grain);
  }

  const Instance& instance_;
  const int64_t payload_;
  std::vector<int64_t> base_;
  std::vector<std::pair<uint16_t, uint16_t>> joint_;
};

}  // namespace

std::vector<Id> launch_scalars(const Plan& plan) {
  std::vector<Id> names;
  for (const Lane& lane : plan.lanes) add_scalars(lane.body, names);
  return names;
}

std::vector<int64_t> default_chunk(const Instance& instance, int64_t slot_payload_bytes) {
  if (slot_payload_bytes < 1)
    throw Error(ErrorKind::user, fmt::format("slots of {} bytes", slot_payload_bytes),
                "a slot holds at least one element");
  return ChunkSizes(instance, slot_payload_bytes).sizes();
}

}  // namespace weft::plan
