// Connecting awaits when a plan is loaded: counters here, words pushed by peers.
//
// An await of a peer's step needs a word that lies with the waiter (it is polled there) and is pushed by who completes
// the step. Waiter and pusher must find the same word without a message: everybody walks the awaits of all ranks in the
// same order and numbers the words of each waiter as they appear. A word counts completed instances of a step, or how
// often its block was left, over all launches: monotone, one writer, never reset.
#include <algorithm>
#include <tuple>

#include "weft/runtime/loaded.h"

namespace weft::runtime {
namespace {

constexpr int64_t word_bytes = 64;  // a line each: words of different pushers do not disturb one another
constexpr int left = -1;            // instead of a step: the block was left

struct Connection {
  int waiter, lane, block, step;
  int64_t number;
};

const plan::AssembledLane& lane_of(const plan::Assembly& assembly, int lane) {
  return assembly.lanes[static_cast<size_t>(lane)];
}

LoadedAwait facts(const plan::Assembly& assembly, int lane, size_t block, const plan::Awaited& awaited) {
  const plan::AssembledLane& target = lane_of(assembly, awaited.lane);
  const plan::Block& mine = lane_of(assembly, lane).blocks[block].head;
  const plan::Block& other = target.blocks[static_cast<size_t>(awaited.block)].head;
  LoadedAwait await;
  await.together = mine.loop && other.loop;
  await.same_loop = await.together && mine.spaces == other.spaces;
  await.lag = awaited.lag, await.awaited = awaited;
  await.rank = target.rank, await.channel = target.channel;
  await.remote = target.rank != lane_of(assembly, lane).rank;
  return await;
}

}  // namespace

class AwaitWords {
 public:
  explicit AwaitWords(const plan::Assembly& assembly) : count_(static_cast<size_t>(assembly.instance->ranks()), 0) {
    for (size_t l = 0; l < assembly.lanes.size(); ++l)
      for (size_t b = 0; b < assembly.lanes[l].blocks.size(); ++b)
        for (const plan::AssembledStep& step : assembly.lanes[l].blocks[b].steps)
          for (const plan::Awaited& awaited : step.after)
            note(facts(assembly, static_cast<int>(l), b, awaited), assembly.lanes[l].rank);
  }
  int64_t most() const { return count_.empty() ? 0 : *std::max_element(count_.begin(), count_.end()); }
  const std::vector<Connection>& connections() const { return connections_; }
  // Number of the word, -1 where there is none.
  int64_t find(int waiter, int lane, int block, int step) const {
    const auto at = numbers_.find({waiter, lane, block, step});
    return at == numbers_.end() ? -1 : at->second;
  }

 private:
  void note(const LoadedAwait& await, int waiter) {
    if (!await.remote) return;
    if (await.together) number(waiter, await.awaited.lane, await.awaited.block, await.awaited.step);
    if (await.lag == 0 && !await.same_loop) number(waiter, await.awaited.lane, await.awaited.block, left);
  }
  void number(int waiter, int lane, int block, int step) {
    int64_t& next = count_[static_cast<size_t>(waiter)];
    if (!numbers_.try_emplace({waiter, lane, block, step}, next).second) return;
    connections_.push_back({waiter, lane, block, step, next++});
  }

  std::map<std::tuple<int, int, int, int>, int64_t> numbers_;
  std::vector<int64_t> count_;  // per waiter
  std::vector<Connection> connections_;
};

void Loaded::connect_awaits() {
  const AwaitWords words(assembly);
  if (words.most() > 0) words_ = owner.transport.allocate_mirrored(words.most() * word_bytes, "words of awaits");
  std::map<int, LoadedLane*> mine;
  for (LoadedLane& lane : lanes) mine[lane.assembled] = &lane;
  for (const Connection& c : words.connections()) {
    if (lane_of(assembly, c.lane).rank != rank()) continue;
    LoadedBlock& block = mine.at(c.lane)->blocks[static_cast<size_t>(c.block)];
    Push push{word(c.waiter, c.number), &owner.transport.parked(c.waiter), c.waiter, {}};
    if (!owner.transport.mappable(c.waiter)) push.mirror = {&owner.transport, words_.get()};
    (c.step == left ? block.pushes : block.steps[static_cast<size_t>(c.step)].pushes).push_back(push);
  }
  for (LoadedLane& lane : lanes)
    for (size_t b = 0; b < lane.blocks.size(); ++b)
      for (LoadedStep& step : lane.blocks[b].steps)
        for (const plan::Awaited& awaited : step.text->after) {
          LoadedAwait await = facts(assembly, lane.assembled, b, awaited);
          if (await.remote)
            connect_remote(await, words);
          else
            connect_here(await, *mine.at(awaited.lane));
          step.awaits.push_back(await);
        }
}

Word* Loaded::word(int of_rank, int64_t number) const {
  return number < 0 ? nullptr : reinterpret_cast<Word*>(words_->at[static_cast<size_t>(of_rank)] + number * word_bytes);
}

void Loaded::connect_here(LoadedAwait& await, LoadedLane& lane) {
  LoadedBlock& block = lane.blocks[static_cast<size_t>(await.awaited.block)];
  await.block = block.counter;
  await.done = block.steps[static_cast<size_t>(await.awaited.step)].done;
}

// Iterations of a peer's block are counted here too: agreed extents make them the same.
void Loaded::connect_remote(LoadedAwait& await, const AwaitWords& words) {
  const plan::Awaited& awaited = await.awaited;
  BlockCounter*& shadow = shadows_[{awaited.lane, awaited.block}];
  if (!shadow) {
    shadow = counters_.emplace_back(std::make_unique<BlockCounter>()).get();
    shadows.push_back(shadow);
    shadows_of.push_back({awaited.lane, awaited.block, 0, 0});
  }
  await.block = shadow;
  await.done_word = word(rank(), words.find(rank(), awaited.lane, awaited.block, awaited.step));
  await.left_word = word(rank(), words.find(rank(), awaited.lane, awaited.block, left));
}

}  // namespace weft::runtime
