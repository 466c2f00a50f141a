// Completions by label and index, and what an await means: between two loops the same chunk or one k chunks earlier,
// otherwise that the lane has left the block (docs/plan.md, "Awaits").
#include "weft/sim/progress.h"

namespace weft::sim {

void Progress::scan(int rank, int lane, int channel) {
  scanned_ = true;
  plan::Walk walk(instance_, rank, lane, channel);
  plan::FlatStep step;
  while (walk.next_block()) {
    const plan::Block& block = walk.block();
    const int64_t iterations =
        block.loop ? cells_.extents().iterations({block.spaces.data(), block.spaces.size()}, channel) : 1;
    left_.resize(static_cast<size_t>(block.ordinal) + 1);
    while (walk.next(step)) {
      if (step.label == plan::FlatStep::no_label) continue;
      Label& label = labels_[step.label];
      label.block = block.ordinal;
      label.loop = block.loop;
      label.iterations = iterations;
      ++label.instances;
    }
  }
}

bool Progress::completed(const plan::FlatStep& step, Time time, Time all_seen, uint32_t record) {
  const auto found = labels_.find(step.label);
  if (found == labels_.end()) return false;
  Label& label = found->second;
  label.of[{step.index.begin(), step.index.end()}].add(time, all_seen, record);
  if (++label.completions % label.instances == 0) label.whole.add(time, all_seen, record);
  return true;
}

void Progress::left(int block, Time time, Time all_seen, uint32_t record) {
  left_[static_cast<size_t>(block)].add(time, all_seen, record);
}

Progress::Place Progress::find(const plan::FlatAwait& await, int64_t chunk, int launch) const {
  const auto found = labels_.find(await.label);
  if (found == labels_.end()) return {};  // this rank has no such step
  const Label& label = found->second;
  const bool together = chunk >= 0 && label.loop;
  if (await.lag == 0 && !(together && chunk < label.iterations))
    return {&left_[static_cast<size_t>(label.block)], launch};
  const int64_t need = launch * label.iterations + std::max<int64_t>(chunk, 0) - await.lag;
  if (need < 0) return {};
  if (!await.has_index) return {&label.whole, need};
  const auto one = label.of.find({await.index.begin(), await.index.end()});
  static const History nothing;
  return {one == label.of.end() ? &nothing : &one->second, need};
}

}  // namespace weft::sim
