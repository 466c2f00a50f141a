// Who may go next, and what changes when it goes. See machine.h for why values live elsewhere.
//
// A plan is a Kahn network: whichever enabled lane goes next, the same events happen with the same contents. So the
// order here is free; round robin is the fast one and the shuffled one tests that claim.
#include "weft/plan/machine.h"

#include <algorithm>

namespace weft::plan {

namespace {

uint64_t next_random(uint64_t& state) {  // splitmix64
  state += 0x9e3779b97f4a7c15u;
  uint64_t x = state;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Times that `link` stands before position `end` in the list: a step may take two messages of one link.
int64_t before(const std::vector<int>& links, size_t end) {
  return std::count(links.begin(), links.begin() + static_cast<std::ptrdiff_t>(end), links[end]);
}

}  // namespace

Machine::Machine(const Assembly& assembly, Domain& domain, const MachineOptions& options)
    : assembly_(&assembly),
      domain_(&domain),
      options_(options),
      lanes_(assembly.lanes.size()),
      links_(assembly.links.size()) {
  const Instance& instance = *assembly.instance;
  open_.assign(static_cast<size_t>(instance.ranks()), 0);
  launch_.assign(static_cast<size_t>(instance.ranks()), -1);
  for (size_t i = 0; i < links_.size(); ++i)
    links_[i].slots = at(instance.plan().families, assembly.links[i].family).slots;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    for (const AssembledBlock& block : assembly.lanes[i].blocks) {
      lanes_[i].blocks.emplace_back().done.assign(block.steps.size(), 0);
      for (const AssembledStep& step : block.steps) {
        for (int link : step.receives) at(links_, link).receiver = static_cast<int>(i);
        for (int link : step.sends) at(links_, link).sender = static_cast<int>(i);
      }
    }
  }
}

// ---- awaits
// Between two loops: the same chunk. Otherwise, or when the other loop has fewer chunks: the lane has left the block.
bool Machine::holds(int lane, const Awaited& awaited, Cause& cause) const {
  if (awaited.lag > 0) return holds_lagging(lane, awaited, cause);
  const LaneState& me = at(lanes_, lane);
  const LaneState& other = at(lanes_, awaited.lane);
  const BlockState& block = at(other.blocks, awaited.block);
  const bool together = at(assembly_->lanes, lane).blocks[me.block].head.loop &&
                        at(at(assembly_->lanes, awaited.lane).blocks, awaited.block).head.loop;
  if (together && other.launch >= me.launch) {
    const int64_t base = at(block.base, me.launch);
    const int64_t end = other.launch > me.launch ? at(block.base, me.launch + 1) : INT64_MAX;
    const int64_t need = base + me.chunk;
    if (need < end && at(block.done, awaited.step) > need) {
      cause = {awaited.lane, awaited.block, awaited.step, need};
      return true;
    }
  }
  cause = {awaited.lane, awaited.block, -1, me.launch};
  return block.left > me.launch;
}

// k chunks earlier, counted over all launches. V6 allows a lag only between loops over the same spaces, so the waiting
// loop's own count of iterations serves for both.
bool Machine::holds_lagging(int lane, const Awaited& awaited, Cause& cause) const {
  const LaneState& me = at(lanes_, lane);
  const BlockState& mine = me.blocks[me.block];
  const BlockState& block = at(at(lanes_, awaited.lane).blocks, awaited.block);
  const int64_t need = at(mine.base, me.launch) + me.chunk - awaited.lag;
  cause = {awaited.lane, awaited.block, awaited.step, need};
  return need < 0 || at(block.done, awaited.step) > need;
}

const Awaited* Machine::first_unmet(int lane) const {
  const LaneState& me = at(lanes_, lane);
  if (me.slice > 0) return nullptr;  // the awaits are the instance's, not each slice's
  Cause cause;
  for (const Awaited& awaited : at(assembly_->lanes, lane).blocks[me.block].steps[me.step].after)
    if (!holds(lane, awaited, cause)) return &awaited;
  return nullptr;
}

int Machine::blocked_link(const AssembledStep& step, bool& is_slot) const {
  is_slot = false;
  for (size_t i = 0; i < step.receives.size(); ++i)
    if (unread(step.receives[i]) <= before(step.receives, i)) return step.receives[i];
  is_slot = true;
  for (size_t i = 0; i < step.sends.size(); ++i)
    if (unread(step.sends[i]) + before(step.sends, i) >= at(links_, step.sends[i]).slots) return step.sends[i];
  return -1;
}

// ---- one step
bool Machine::advance(int lane) {
  LaneState& me = at(lanes_, lane);
  const AssembledBlock& block = at(assembly_->lanes, lane).blocks[me.block];
  const AssembledStep& step = block.steps[me.step];
  causes_.clear();
  if (me.slice == 0) {
    for (const Awaited& awaited : step.after) {
      Cause cause;
      if (!holds(lane, awaited, cause)) return false;
      if (cause.index >= 0) causes_.push_back(cause);
    }
  }
  Event event{lane,
              static_cast<int>(me.block),
              static_cast<int>(me.step),
              me.launch,
              me.slice,
              me.chunk,
              at(me.blocks[me.block].base, me.launch) + me.chunk,
              false,
              me.slice + 1 == block.head.slices,
              &step,
              causes_};
  event.empty = domain_->empty(event);
  bool is_slot = false;
  if (!event.empty) {
    if (blocked_link(step, is_slot) >= 0) return false;
    for (int link : step.receives) ++at(links_, link).received;
    for (int link : step.sends) ++at(links_, link).sent;
  }
  domain_->perform(event);
  ++steps_;
  move_on(lane, event);
  return true;
}

void Machine::move_on(int lane, Event& event) {
  LaneState& me = at(lanes_, lane);
  const AssembledBlock& block = at(assembly_->lanes, lane).blocks[me.block];
  BlockState& state = me.blocks[me.block];
  me.slice = event.last_slice ? 0 : me.slice + 1;
  if (me.slice > 0) return;
  ++state.done[me.step];
  if (++me.step < block.steps.size()) return;
  me.step = 0;
  if (++me.chunk < state.iterations) return;
  me.chunk = 0;
  ++state.left;
  domain_->left(lane, static_cast<int>(me.block), me.launch);
  ++me.block;
  enter(lane);
  if (!me.busy) {
    const int rank = at(assembly_->lanes, lane).rank;
    if (--at(open_, rank) == 0) settle(rank);
  }
}

// The lane stands before block me.block: passes loops without iterations, or ends.
void Machine::enter(int lane) {
  LaneState& me = at(lanes_, lane);
  const auto& blocks = at(assembly_->lanes, lane).blocks;
  for (; me.block < blocks.size(); ++me.block) {
    BlockState& state = me.blocks[me.block];
    state.iterations =
        blocks[me.block].head.loop ? domain_->iterations(lane, static_cast<int>(me.block), me.launch) : 1;
    if (state.iterations > 0) return;
    ++state.left;
    domain_->left(lane, static_cast<int>(me.block), me.launch);
  }
  me.busy = false;
}

// ---- launches: those of a rank follow each other, without a barrier between ranks
void Machine::begin(int rank) {
  const int launch = ++at(launch_, rank);
  domain_->begin_launch(rank, launch);
  std::vector<int> mine;
  for (size_t i = 0; i < lanes_.size(); ++i)
    if (assembly_->lanes[i].rank == rank) mine.push_back(static_cast<int>(i));
  for (int lane : mine) {
    LaneState& me = at(lanes_, lane);
    me.launch = launch;
    me.block = 0;
    me.busy = true;
    for (BlockState& block : me.blocks) block.base.push_back(block.done[0]);
  }
  for (int lane : mine) {
    enter(lane);
    at(open_, rank) += at(lanes_, lane).busy;
  }
}

// With a barrier: whoever is last lets everybody go on.
void Machine::settle_all() {
  const auto resting = [&](int open) { return open == 0; };
  while (std::all_of(open_.begin(), open_.end(), resting) &&
         std::all_of(launch_.begin(), launch_.end(), [&](int l) { return l == launch_[0]; })) {
    for (size_t rank = 0; launch_[0] >= 0 && rank < open_.size(); ++rank)
      domain_->end_launch(static_cast<int>(rank), launch_[0]);
    if (launch_[0] + 1 >= options_.launches) return;
    if (launch_[0] >= 0) options_.between(launch_[0]);
    for (size_t rank = 0; rank < open_.size(); ++rank) begin(static_cast<int>(rank));
  }
}

void Machine::settle(int rank) {  // a launch in which no lane has work ends at once
  if (options_.between) return settle_all();
  while (at(open_, rank) == 0) {
    if (at(launch_, rank) >= 0) domain_->end_launch(rank, at(launch_, rank));
    if (at(launch_, rank) + 1 >= options_.launches) return;
    begin(rank);
  }
}

// True if a step was done.
bool Machine::round(std::vector<int>& order, uint64_t& random, bool may_sleep) {
  bool moved = false;
  if (options_.shuffle)
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next_random(random) % i]);
  for (int lane : order) {
    LaneState& me = at(lanes_, lane);
    if (!me.busy || (me.sleep > 0 && me.sleep-- > 0)) continue;
    int64_t burst = INT64_MAX;
    if (options_.shuffle) {
      constexpr int64_t bursts[] = {1, 1, 2, 5, 50};
      burst = bursts[next_random(random) % 5];
      const bool sleeps = static_cast<double>(next_random(random) >> 11) * 0x1p-53 < options_.delay;
      if (sleeps && may_sleep) me.sleep = static_cast<int>(next_random(random) % 8);
    }
    const int launch = me.launch;  // a burst ends with the launch, so that no rank runs far ahead by order alone
    while (burst-- > 0 && me.busy && me.launch == launch && advance(lane)) moved = true;
  }
  return moved;
}

bool Machine::run() {
  if (options_.between) settle_all();
  for (int rank = 0; !options_.between && rank < assembly_->instance->ranks(); ++rank) settle(rank);
  std::vector<int> order(lanes_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  uint64_t random = options_.seed;
  const auto asleep = [](const LaneState& lane) { return lane.busy && lane.sleep > 0; };
  bool moved = true, waiting = true;  // nobody falls asleep while nothing moves, so a deadlock is seen
  while (moved || waiting) {
    waiting = std::any_of(lanes_.begin(), lanes_.end(), asleep);
    moved = round(order, random, moved);
  }
  return std::none_of(lanes_.begin(), lanes_.end(), [](const LaneState& lane) { return lane.busy; });
}

// ---- reports
std::vector<Wait> Machine::waits() const {
  std::vector<Wait> list;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const LaneState& me = lanes_[i];
    if (!me.busy) continue;
    Wait wait;
    wait.lane = static_cast<int>(i);
    wait.block = static_cast<int>(me.block);
    wait.step = static_cast<int>(me.step);
    wait.chunk = me.chunk;
    if (const Awaited* unmet = first_unmet(wait.lane)) {
      wait.awaited = *unmet;
      wait.on = unmet->lane;
    } else {
      bool is_slot = false;
      wait.link = blocked_link(assembly_->lanes[i].blocks[me.block].steps[me.step], is_slot);
      if (wait.link < 0) continue;
      wait.what = is_slot ? Wait::For::slot : Wait::For::message;
      wait.on = is_slot ? at(links_, wait.link).receiver : at(links_, wait.link).sender;
    }
    list.push_back(wait);
  }
  return list;
}

std::string Machine::print(const Wait& wait) const {
  std::string text = assembly_->describe(wait.lane, wait.block, wait.step) + fmt::format(" (chunk {})", wait.chunk);
  if (wait.what == Wait::For::step) {
    text += " waits for " + assembly_->describe(wait.awaited.lane, wait.awaited.block, wait.awaited.step);
    return wait.awaited.lag ? text + fmt::format(" lag {}", wait.awaited.lag) : text;
  }
  const Link& link = at(assembly_->links, wait.link);
  const Id& family = at(assembly_->instance->plan().families, link.family).name;
  if (wait.what == Wait::For::slot)
    return text + fmt::format(" waits for a free slot of its link {} to rank {}", family, link.to);
  return text + fmt::format(" waits for a message from rank {} on link {}{}", link.from, family,
                            wait.on < 0 ? ", where nobody sends" : "");
}

std::string Machine::deadlock() const {
  const std::vector<Wait> list = waits();
  std::vector<int> by_lane(lanes_.size(), -1), seen(lanes_.size(), -1);
  for (size_t i = 0; i < list.size(); ++i) by_lane[static_cast<size_t>(list[i].lane)] = static_cast<int>(i);
  std::vector<int> path;
  int lane = list.empty() ? -1 : list[0].lane;
  while (lane >= 0 && at(by_lane, lane) >= 0 && at(seen, lane) < 0) {
    at(seen, lane) = static_cast<int>(path.size());
    path.push_back(at(by_lane, lane));
    lane = at(list, path.back()).on;
  }
  const bool circle = lane >= 0 && at(by_lane, lane) >= 0 && at(seen, lane) >= 0;
  const size_t from = circle ? static_cast<size_t>(at(seen, lane)) : 0;
  std::string text = circle ? "they wait for each other: " : "no lane can go on: ";
  for (size_t i = from; i < path.size() && i < from + 6; ++i) text += (i > from ? "; " : "") + print(at(list, path[i]));
  if (path.size() > from + 6) text += fmt::format("; and {} more", path.size() - from - 6);
  return text;
}

}  // namespace weft::plan
