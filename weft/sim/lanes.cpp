// Lanes: made, fed with steps from programs or walks, and their links opened.
#include <cmath>

#include "weft/sim/engine.h"

namespace weft::sim {

void Engine::make_lanes() {
  const size_t count = static_cast<size_t>(ranks_) * static_cast<size_t>(lanes_per_rank_ * channels_);
  lanes_.resize(count);
  if (!steps_.programs()) walkers_.reserve(count);
  if (steps_.any_awaited()) {
    progress_.reserve(count);
    for (size_t i = 0; i < count; ++i) progress_.emplace_back(instance_, cells_);
    waiters_.resize(count);
  }
  size_t at = 0, links = 0;
  for (int rank = 0; rank < ranks_; ++rank)
    for (int lane = 0; lane < lanes_per_rank_; ++lane)
      for (int channel = 0; channel < channels_; ++channel) {
        Lane& me = lanes_[at++];
        me.rank = static_cast<uint32_t>(rank);
        me.lane = static_cast<uint16_t>(lane);
        me.channel = static_cast<uint16_t>(channel);
        if (steps_.programs()) {
          links += steps_.program(rank, lane, channel).connections.size();
        } else {
          walkers_.emplace_back(plan::Walk(instance_, rank, lane, channel));
          if (steps_.any_awaited()) walkers_.back().flat = std::make_unique<plan::FlatStep>();
        }
      }
  lane_links_.assign(links, nobody);
  uint32_t* next = lane_links_.data();
  if (steps_.programs())
    for (Lane& me : lanes_) {
      me.links = next;
      next += steps_.program(me.rank, me.lane, me.channel).connections.size();
    }
}

void Engine::next_launch(uint32_t rank, Time begin) {
  const bool first = ++launch_[rank] == 0;
  open_[rank] = lanes_per_rank_ * channels_;
  for (uint32_t id = lane_id(rank, 0, 0); id < lane_id(rank + 1, 0, 0); ++id) {
    Lane& me = lanes_[id];
    me.ready = begin;
    me.state = Lane::State::next;
    me.step = nullptr;
    me.repeat = 0;
    if (recorder_ && !first) recorder_->lane[id] = recorder_->rank_last[rank];
    if (!steps_.programs()) {
      if (!first) walkers_[id].walk = plan::Walk(instance_, static_cast<int>(rank), me.lane, me.channel);
      walkers_[id].in_block = false;
    }
    wake(id);
  }
}

void Engine::lane_done(uint32_t id, Lane& me) {
  me.state = Lane::State::done;
  if (recorder_) recorder_->done(id, me.rank, me.ready >= latest_[me.rank]);
  latest_[me.rank] = std::max(latest_[me.rank], me.ready);
  if (--open_[me.rank] > 0) return;
  const Time end = latest_[me.rank];
  Time& all = launch_end_[static_cast<size_t>(launch_[me.rank])];
  all = std::max(all, end);
  if (launch_[me.rank] + 1 < options_.launches) next_launch(me.rank, end);
}

// The next step instance; false: the lane has none left.
bool Engine::fetch(uint32_t id, Lane& me) {
  if (!steps_.programs()) return fetch_walked(id, me);
  const Program& program = steps_.program(me.rank, me.lane, me.channel);
  if (me.step && me.repeat > 0) {
    --me.repeat;
  } else {
    if (!me.step) {
      me.chunk = 0;
      me.step = program.steps.data();
      if (program.steps.empty()) return me.step = nullptr, false;
    } else if (!me.step->last) {
      ++me.step;
    } else if (++me.chunk < program.blocks[me.step->block].iterations) {
      me.step = &program.steps[program.blocks[me.step->block].first];
    } else {
      me.chunk = 0;
      if (me.step == &program.steps.back()) return false;
      ++me.step;
    }
    me.repeat = me.step->repeat - 1;
  }
  me.slice = 0;
  set_elements(me);
  return true;
}

bool Engine::fetch_walked(uint32_t id, Lane& me) {
  Walker& w = walkers_[id];
  static thread_local plan::FlatStep scratch;
  plan::FlatStep& flat = w.flat ? *w.flat : scratch;
  for (;;) {
    if (!w.in_block) {
      if (tracked(me) && !progress_[id].scanned()) progress_[id].scan(static_cast<int>(me.rank), me.lane, me.channel);
      if (!w.walk.next_block()) return false;
      const plan::Block& block = w.walk.block();
      w.in_block = true;
      w.iterations =
          block.loop ? cells_.extents().iterations({block.spaces.data(), block.spaces.size()}, me.channel) : 1;
      me.chunk = 0;
      if (w.iterations == 0) {
        w.in_block = false;
        leave_block(id, me, block.ordinal);
        continue;
      }
    }
    if (w.walk.next(flat)) break;
    if (++me.chunk < w.iterations) {
      w.walk.rewind_block();
    } else {
      w.in_block = false;
      leave_block(id, me, w.walk.block().ordinal);
    }
  }
  steps_.decode(me.channel, me.lane, w.walk.block(), flat, w.info, w.connections);
  if (!w.info.point && !w.info.share) {
    const int main = steps_.main_operand(me.lane, w.walk.block(), flat);
    w.main = flat.operands[static_cast<size_t>(main)];
  }
  if (me.rank < network_.slowdown.size()) w.info.element_ps *= network_.slowdown[me.rank];
  w.links.clear();
  for (size_t i = 0; i < w.connections.size(); ++i) {
    Walker::Recent& recent = w.recent[(static_cast<size_t>(w.connections[i].peer) & 1) * 2 + w.connections[i].sends];
    if (recent.link == nobody || !(recent.connection == w.connections[i]))
      recent = {w.connections[i], open_link(me, w.connections[i])};
    w.links.push_back(recent.link);
    if (w.numbers.size() <= i) w.numbers.push_back(static_cast<uint16_t>(i));
  }
  w.info.links = w.numbers.data();
  me.links = w.links.data();
  me.step = &w.info;
  me.slice = 0;
  set_elements(me);
  return true;
}

void Engine::set_elements(Lane& me) {
  const StepInfo& step = *me.step;
  if (step.share) {
    me.elements = step.share->elements(me.chunk, me.slice) * step.parts;
  } else if (steps_.programs() || step.point) {
    me.elements = step.elements;
  } else {
    const Walker& w = walkers_[static_cast<size_t>(&me - lanes_.data())];
    me.elements = steps_.elements(w.main, w.walk.block(), me.channel, me.chunk, me.slice);
  }
}

void Engine::leave_block(uint32_t id, const Lane& me, int ordinal) {
  if (!tracked(me)) return;
  progress_[id].left(ordinal, me.ready, agenda_.window_begin() - await_, last_record(id));
  wake_waiters(id);
}

// Of a folded run: who receives is the representative, and the sender is as far from it as it is from the real one.
uint32_t Engine::open_link(const Lane& me, const Connection& connection) {
  const int64_t n = all_ranks_, peer = connection.peer;
  const int64_t to = connection.sends ? peer % ranks_ : me.rank;
  const int64_t from = connection.sends ? ((me.rank - peer + to) % n + n) % n : peer;
  const int family = connection.family;
  const auto fresh = static_cast<uint32_t>(links_.size());
  const uint32_t id = table_.find_or_add(LinkTable::key(family, me.channel, from, to), fresh);
  if (id == fresh) {
    Link link;
    const Route route =
        network_.route ? network_.route(family, me.channel, static_cast<int>(from), static_cast<int>(to)) : Route{};
    if (route.cost >= costs_.size() || route.send_port >= network_.ports || route.receive_port >= network_.ports)
      throw Error(ErrorKind::user,
                  fmt::format("the machine has no cost or port for the way from rank {} to {}", from, to),
                  "give every route a cost below costs.size() and ports below `ports`");
    link.cost = route.cost, link.send_port = route.send_port, link.receive_port = route.receive_port;
    link.family = static_cast<uint16_t>(family);
    link.rank = static_cast<uint32_t>(to);
    link.from = static_cast<uint32_t>(from % ranks_);
    link.slots = static_cast<uint32_t>(instance_.plan().families[connection.family].slots);
    link.first_slot = static_cast<uint32_t>(slots_.size());
    const int64_t distance = ((from - to) % n + n) % n;
    link.tie = arrival_bit | static_cast<uint32_t>(((family * channels_ + me.channel) * n + distance) & 0x7fffffff);
    slots_.resize(slots_.size() + link.slots);
    links_.push_back(link);
  }
  const uint32_t lane = lane_id(me.rank, me.lane, me.channel);
  (connection.sends ? links_[id].sender : links_[id].receiver) = lane;
  return id;
}

Prediction Engine::predict() const {
  Prediction p;
  const auto ns = [](Time t) { return static_cast<double>(t) / 1000; };
  for (const Time t : launch_end_) p.launch_end_ns.push_back(ns(t));
  p.end_ns = p.launch_end_ns.back();
  for (const Time t : latest_) p.rank_end_ns.push_back(ns(t));
  p.simulated_ranks = static_cast<int>(ranks_);
  p.messages = sends_;
  p.events = sends_ + arrivals_ + receives_;
  p.steps = steps_done_;
  p.bytes = bytes_;
  for (size_t i = 0; i < send_busy_.size(); ++i)
    p.busiest_port_ns = std::max(p.busiest_port_ns, ns(std::max(send_busy_[i], receive_busy_[i])));
  for (const Lane& lane : lanes_) p.busiest_lane_ns = std::max(p.busiest_lane_ns, ns(lane.busy));
  return p;
}

}  // namespace weft::sim
