// Rings for the links of a plan: how large their messages can get, and rings that hold them.
//
// Slots are allocated by all ranks together, so what decides their size must be the same everywhere: the text, agreed
// extents and chunk sizes; counts that are not agreed are bounded by their chunk. At load only chunks and stated counts
// are known; a launch whose messages outside loops are larger (norms of many tensors) gets larger rings.
#include <algorithm>
#include <map>

#include "weft/runtime/loaded.h"

namespace weft::runtime {
namespace {

constexpr int64_t unknown_elements = 2048;  // of a part whose size the launch says

int64_t cell_bound(const Loaded& loaded, const plan::Block& block, int space, const plan::Extents* extents) {
  const plan::Instance& instance = loaded.instance;
  if (block.loop) {
    const int64_t grain = std::max<int64_t>(1, instance.plan().spaces[static_cast<size_t>(space)].grain);
    const int64_t chunk = loaded.chunk_elements[static_cast<size_t>(space)] + grain;
    return block.slices == 1 ? chunk : (chunk + block.slices - 1) / block.slices + grain;
  }
  if (!extents) return instance.fixed_count(space) >= 0 ? instance.fixed_count(space) : unknown_elements;
  int64_t most = 0;
  for (int64_t part = 0; part < instance.parts(space); ++part) most = std::max(most, extents->part_size(space, part));
  return most;
}

}  // namespace

// Per family the largest message of any rank; -1: nobody sends.
void Loaded::measure_messages(const plan::Extents* extents) {
  message_bytes.assign(instance.plan().families.size(), -1);
  for (const plan::AssembledLane& lane : assembly.lanes)
    for (const plan::AssembledBlock& block : lane.blocks)
      for (const plan::AssembledStep& step : block.steps) {
        const int main = step.sends.empty() ? -1 : plan::main_operand(instance, block, step.flat);
        if (main < 0) continue;
        const plan::FlatOperand& operand = step.flat.operands[static_cast<size_t>(main)];
        const int64_t elements =
            operand.part_count * cell_bound(*this, block.head, instance.buffer_space(operand.name), extents);
        for (int link : step.sends) {
          const int family = assembly.links[static_cast<size_t>(link)].family;
          int64_t& most = message_bytes[static_cast<size_t>(family)];
          most = std::max(most, elements * size_bytes(typing->family(family)));
        }
      }
}

void Loaded::open_links(const plan::Extents* extents) {
  constexpr int64_t least_payload_bytes = 4096;
  measure_messages(extents);
  rings.resize(instance.plan().families.size(), nullptr);
  std::map<plan::Protocol, int> ordinals;
  for (size_t f = 0; f < rings.size(); ++f) {
    const plan::Family& family = instance.plan().families[f];
    const int ordinal = ordinals[family.protocol]++;
    if (message_bytes[f] < 0) continue;
    int64_t payload = least_payload_bytes;
    while (payload < message_bytes[f]) payload *= 2;
    const RingKey wanted{family.protocol, ordinal, instance.channels(), family.slots, payload};
    if (!rings[f] || !rings[f]->key().serves(wanted)) rings[f] = &owner.rings(wanted);
  }
}

}  // namespace weft::runtime
