// Runs the plan once on the event machine with counters for clocks: a message or an await of another rank is one hop
// more than what it follows. Slots are as many as the plan states, but a slot given back is no hop: it is asked for long
// before it is needed where slots suffice. Long loops repeat themselves, so a few chunks are run and the rest follows
// from how much the last one added.
#include "weft/plan/hops.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "weft/plan/machine_step.h"

namespace weft::plan {
namespace {

constexpr int most_ranks = 128, run_chunks = 4;

class Hops : public Domain {
 public:
  Hops(const Assembly& assembly, const Extents& extents, int64_t limit)
      : assembly_(assembly),
        extents_(extents),
        limit_(limit),
        clock_(assembly.lanes.size()),
        links_(assembly.links.size()) {}

  void begin_launch(int, int) override {}
  void end_launch(int, int) override {}
  int64_t iterations(int lane, int block, int) override {
    const Block& head = lane_at(lane).blocks[static_cast<size_t>(block)].head;
    const int64_t all = extents_.iterations({head.spaces.data(), head.spaces.size()}, lane_at(lane).channel);
    longest_ = std::max(longest_, all);
    return std::min(all, limit_);
  }
  bool empty(const Event& event) override { return cells(event) == 0; }

  void perform(const Event& event) override {
    int64_t& now = clock_[static_cast<size_t>(event.lane)];
    for (const Cause& cause : event.causes)
      now = std::max(now, of(cause) + (lane_at(cause.lane).rank == lane_at(event.lane).rank ? 0 : 1));
    if (!event.empty) {
      for (const int link : event.what->receives) {
        std::deque<int64_t>& queue = links_[static_cast<size_t>(link)];
        if (queue.empty()) continue;
        now = std::max(now, queue.front() + 1);
        queue.pop_front();
      }
      for (const int link : event.what->sends) links_[static_cast<size_t>(link)].push_back(now);
    }
    if (event.last_slice) done_[{event.lane, event.block, event.step}].push_back(now);
  }
  void left(int lane, int block, int) override {
    done_[{lane, block, -1}].push_back(clock_[static_cast<size_t>(lane)]);
  }

  std::vector<int64_t> per_rank(int ranks) const {
    std::vector<int64_t> most(static_cast<size_t>(ranks));
    for (size_t i = 0; i < clock_.size(); ++i) {
      int64_t& of = most[static_cast<size_t>(assembly_.lanes[i].rank)];
      of = std::max(of, clock_[i]);
    }
    return most;
  }
  int64_t longest() const { return longest_; }

 private:
  const AssembledLane& lane_at(int lane) const { return assembly_.lanes[static_cast<size_t>(lane)]; }

  int64_t of(const Cause& cause) const {
    const auto found = done_.find({cause.lane, cause.block, cause.step < 0 ? -1 : cause.step});
    const auto index = static_cast<size_t>(std::max<int64_t>(0, cause.index));
    return found == done_.end() || index >= found->second.size() ? 0 : found->second[index];
  }

  int64_t cells(const Event& event) const {
    const Instance& instance = *assembly_.instance;
    const AssembledLane& lane = lane_at(event.lane);
    const AssembledBlock& block = lane.blocks[static_cast<size_t>(event.block)];
    const FlatStep& flat = event.what->flat;
    const int main = main_operand(instance, block, flat);
    if (main < 0) return 1;  // a point to wait for
    const FlatOperand& o = flat.operands[static_cast<size_t>(main)];
    const int space = instance.buffer_space(o.name);
    int64_t elements = 0;
    for (int64_t i = 0; i < o.part_count && elements == 0; ++i) {
      const int64_t part = part_at(o, i, instance.parts(space));
      elements += block.head.loop
                      ? extents_.slice(space, part, lane.channel, event.chunk, event.slice, block.head.slices).size()
                      : extents_.part_size(space, part);
    }
    return elements;
  }

  const Assembly& assembly_;
  const Extents& extents_;
  const int64_t limit_;
  int64_t longest_ = 0;
  std::vector<int64_t> clock_;  // per lane: hops behind what it did last
  std::vector<std::deque<int64_t>> links_;
  std::map<std::array<int, 3>, std::vector<int64_t>> done_;  // (lane, block, step or -1: left) -> per completion
};

}  // namespace

std::vector<int64_t> critical_hops(const Instance& instance, const Extents& extents) {
  const int ranks = instance.ranks();
  if (ranks > most_ranks) return std::vector<int64_t>(static_cast<size_t>(ranks));
  const Assembly assembly = assemble(instance);
  const auto run = [&](int64_t chunks, int64_t& longest) {
    Hops hops(assembly, extents, chunks);
    Machine(assembly, hops, {}).run();  // a plan that stops half-way has the hops it came to: the verifier says more
    longest = hops.longest();
    return hops.per_rank(ranks);
  };
  int64_t longest = 0;
  std::vector<int64_t> hops = run(run_chunks, longest);
  if (longest <= run_chunks) return hops;
  const std::vector<int64_t> before = run(run_chunks - 1, longest);
  for (size_t rank = 0; rank < hops.size(); ++rank) hops[rank] += (hops[rank] - before[rank]) * (longest - run_chunks);
  return hops;
}

}  // namespace weft::plan
