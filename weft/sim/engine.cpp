// Running: sends, arrivals, and lanes going on as far as they can.
#include "weft/sim/engine.h"

#include <cmath>

namespace weft::sim {
namespace {

Time ps(double ns) {
  if (!(ns >= 0) || ns > 1e15)
    throw Error(ErrorKind::user, fmt::format("a cost of {} ns in the machine", ns), "costs are 0 or more, below 1e15");
  return std::llround(ns * 1000);
}

Time lookahead(const Network& network) {
  double least = network.await_ns;
  for (const LinkCost& c : network.costs) {
    least = std::min(least, c.latency_ns);
    if (c.credit_ns >= 0) least = std::min(least, c.credit_ns);
  }
  return ps(least);
}

}  // namespace

Engine::Engine(const plan::Instance& instance, Cells& cells, const Network& network, const Options& options,
               int64_t ranks)
    : instance_(instance),
      cells_(cells),
      network_(network),
      options_(options),
      ranks_(ranks),
      all_ranks_(instance.ranks()),
      lanes_per_rank_(static_cast<int>(instance.plan().lanes.size())),
      channels_(instance.channels()),
      steps_(instance, cells, network, options),
      agenda_(static_cast<size_t>(ranks), lookahead(network)) {
  for (const LinkCost& c : network.costs)
    costs_.push_back({ps(c.latency_ns), ps(c.send_ns), ps(c.receive_ns), ps(c.gap_ns),
                      c.credit_ns < 0 ? ps(c.latency_ns) : ps(c.credit_ns), c.port_ns_per_byte * 1000,
                      c.lane_ns_per_byte * 1000, c.wire});
  await_ = ps(network.await_ns);
  step_ps_ = ps(network.step.step_ns);
  const auto rank_count = static_cast<size_t>(ranks);
  const size_t ports = rank_count * static_cast<size_t>(network.ports);
  send_port_.resize(ports), receive_port_.resize(ports), send_busy_.resize(ports), receive_busy_.resize(ports);
  open_.resize(rank_count), launch_.resize(rank_count, -1), latest_.resize(rank_count);
  launch_end_.resize(static_cast<size_t>(options.launches));
  if (network.fabric) {
    if (network.fabric->hosts() < instance.ranks())
      throw Error(ErrorKind::user,
                  fmt::format("{} ranks on a fabric of {} hosts", instance.ranks(), network.fabric->hosts()),
                  "take a larger fabric");
    flows_.emplace(network.fabric->capacities());
  }
  make_lanes();
  if (options.trace) recorder_ = std::make_unique<Recorder>(*options.trace, lanes_.size(), ports, rank_count);
}

Prediction Engine::run() {
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    const bool late = rank < network_.start_ns.size();
    next_launch(rank, late ? ps(network_.start_ns[rank]) : 0);
    resume_all();
  }
  const auto act = [this](const Entry& entry) {
    if (entry.tie & arrival_bit)
      arrive(entry.what);
    else
      send(entry.what, entry.time);
    resume_all();
  };
  while (agenda_.window(act, starts_.empty() ? next_flow() : std::min(starts_.front().begin, next_flow()))) {
    advance_flows();
    if (options_.most_messages && sends_ > options_.most_messages)
      throw Error(ErrorKind::timeout, fmt::format("the simulation passed {} messages", options_.most_messages),
                  "raise the limit, fold ranks, or take larger chunks");
  }
  for (const Lane& lane : lanes_)
    if (lane.state != Lane::State::done) deadlock();
  if (recorder_) recorder_->finish(launch_end_.back(), launch_, latest_);
  return predict();
}

// The receiving port takes messages in the order in which their first bytes come.
void Engine::arrive(uint32_t id) {
  Link& link = links_[id];
  const Cost& cost = costs_[link.cost];
  Slot& slot = slots_[link.slot(link.arrived)];
  const size_t at = size_t{link.rank} * static_cast<size_t>(network_.ports) + link.receive_port;
  Time& port = receive_port_[at];
  const Time begin = std::max(slot.time, port);
  const double rest = flows_ ? 0 : static_cast<double>(slot.bytes - 1);  // of a flow all bytes are there
  const Time busy = cost.gap + static_cast<Time>(rest * cost.port_byte);
  port = begin + busy;
  receive_busy_[at] += busy;
  const Time first = slot.time;
  slot.time = begin + static_cast<Time>(rest * std::max(cost.port_byte, cost.lane_byte));
  if (recorder_) recorder_->arrival(link.slot(link.arrived), at, first, begin, busy, slot.time);
  ++link.arrived;
  ++arrivals_;
  if (!flows_ && link.sent > link.arrived)
    agenda_.push(link.rank, {id, link.tie, slots_[link.slot(link.arrived)].time});
  if (link.receiver_waits) {
    link.receiver_waits = false;
    wake(link.receiver);
  }
}

void Engine::send(uint32_t id, Time now) {
  Lane& me = lanes_[id];
  const StepInfo& step = *me.step;
  const uint32_t to = link_of(me, step.links[step.receives + me.sending++]);
  Link& link = links_[to];
  const Cost& cost = costs_[link.cost];
  const int64_t bytes = std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(me.elements * steps_.wire_bytes(link.family)) * cost.wire));
  const double rest = static_cast<double>(bytes - 1);
  const size_t at = size_t{me.rank} * static_cast<size_t>(network_.ports) + link.send_port;
  Time& port = send_port_[at];
  const Time begin = std::max(now, port);
  const Time busy = cost.gap + (flows_ ? 0 : static_cast<Time>(rest * cost.port_byte));
  port = begin + busy;
  send_busy_[at] += busy;
  const Time end = begin + cost.send + static_cast<Time>(rest * cost.lane_byte);
  Slot& slot = slots_[link.slot(link.sent)];
  slot.time = begin + cost.send + cost.latency;
  slot.bytes = bytes;
  ++sends_;
  bytes_ += static_cast<double>(bytes);
  if (recorder_) recorder_->message(id, link, at, bytes, {now, begin, busy, end});
  if (flows_)
    queue_flow(to, begin + cost.send, bytes);
  else if (link.sent++ == link.arrived)
    agenda_.push(link.rank, {to, link.tie, slot.time});
  if (me.sending < step.sends) {
    agenda_.push(me.rank, {id, id - lane_id(me.rank, 0, 0), end});
    return;
  }
  me.state = finish_step(id, me, end) ? Lane::State::next : Lane::State::slice;
  wake(id);
}

void Engine::resume_all() {
  while (!woken_.empty()) {
    const uint32_t lane = woken_.back();
    woken_.pop_back();
    resume(lane);
  }
}

void Engine::resume(uint32_t id) {
  Lane& me = lanes_[id];
  if (me.state == Lane::State::next && !fetch(id, me)) return lane_done(id, me);
  for (;;) {
    const StepInfo& step = *me.step;
    Time start = me.ready;
    if (!ready_to_start(id, me, start)) return;
    me.state = Lane::State::running;
    me.begin = start;
    if (recorder_) record_start(id, me, start);
    if (me.elements > 0) {
      for (uint16_t i = 0; i < step.receives; ++i) {
        Link& link = links_[me.links[step.links[i]]];
        start += costs_[link.cost].receive;
        ++link.taken;
      }
      receives_ += step.receives;
      if (steps_.work()) start += step_ps_ + static_cast<Time>(static_cast<double>(me.elements) * step.element_ps);
      if (step.sends > 0) {
        me.sending = 0;
        agenda_.push(me.rank, {id, id - lane_id(me.rank, 0, 0), start});
        return;
      }
    }
    if (finish_step(id, me, start) && !fetch(id, me)) return lane_done(id, me);
  }
}

// Everything a step waits for is known with its time, or the lane is parked at the first thing that is not.
bool Engine::ready_to_start(uint32_t id, Lane& me, Time& start) {
  if (me.step->awaits && me.slice == 0 && !awaits_hold(id, me, start)) return false;
  return me.elements == 0 || (messages_there(me, start) && slots_free(me, start));
}

bool Engine::messages_there(Lane& me, Time& start) {
  const StepInfo& step = *me.step;
  for (uint16_t i = 0; i < step.receives; ++i) {
    const uint32_t id = link_of(me, step.links[i]);
    Link& link = links_[id];
    const uint32_t message = to_take(me, i, id);
    if (message >= link.arrived) {
      link.receiver_waits = true;
      park(me, Lane::State::message, id);
      return false;
    }
    start = std::max(start, slots_[link.slot(message)].time);
  }
  return true;
}

bool Engine::slots_free(Lane& me, Time& start) {
  const StepInfo& step = *me.step;
  for (uint16_t i = 0; i < step.sends; ++i) {
    const uint32_t id = link_of(me, step.links[step.receives + i]);
    Link& link = links_[id];
    const uint32_t message = to_send(me, i, id);
    if (message < link.slots) continue;
    if (message - link.returned >= link.slots) {
      link.sender_waits = true;
      park(me, Lane::State::slot, id);
      return false;
    }
    start = std::max(start, slots_[link.slot(message)].time);
  }
  return true;
}

bool Engine::awaits_hold(uint32_t id, Lane& me, Time& start) {
  for (const plan::FlatAwait& await : walkers_[id].flat->after)
    for (int32_t p = 0; p < await.peer_count; ++p) {
      const int64_t peer = (await.peer_first + p) % all_ranks_;
      const Time delay = peer == me.rank ? 0 : await_;
      for (int32_t c = 0; c < await.channel_count; ++c) {
        const int channel = (await.channel_first + c) % channels_;
        const uint32_t target = lane_id(peer % ranks_, await.lane, channel);
        if (target != id && !progress_[target].scanned())
          progress_[target].scan(static_cast<int>(peer % ranks_), await.lane, channel);
        const Time since =
            progress_[target].since(await, walkers_[id].walk.block().loop ? me.chunk : -1, launch_[me.rank]);
        if (since == never) {
          waiters_[target].push_back(id);
          me.state = Lane::State::await;
          me.waits_for = target;
          return false;
        }
        start = std::max(start, since + delay);
      }
    }
  return true;
}

void Engine::return_credits(uint32_t id, Lane& me, Time end) {
  for (uint16_t i = 0; i < me.step->receives; ++i) {
    Link& link = links_[me.links[me.step->links[i]]];
    const uint32_t slot = link.slot(link.returned++);
    slots_[slot].time = end + costs_[link.cost].credit;
    if (recorder_) recorder_->credit(slot, id);
    if (!link.sender_waits) continue;
    link.sender_waits = false;
    wake(link.sender);
  }
}

// The slice is complete: slots go back. True after the last slice: then the instance is complete.
bool Engine::finish_step(uint32_t id, Lane& me, Time end) {
  if (me.elements > 0) {
    return_credits(id, me, end);
    me.busy += end - me.begin;
  }
  if (recorder_) recorder_->end(id, end);
  me.ready = end;
  ++steps_done_;
  if (++me.slice < me.step->slices) {
    set_elements(me);
    return false;
  }
  if (tracked(me) && progress_[id].completed(*walkers_[id].flat, end, agenda_.window_begin() - await_, last_record(id)))
    wake_waiters(id);
  return true;
}

void Engine::wake_waiters(uint32_t id) {
  for (const uint32_t waiter : waiters_[id]) wake(waiter);
  waiters_[id].clear();
}

}  // namespace weft::sim
