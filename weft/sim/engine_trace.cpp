// Recording: what decided each start, told from the same state from which the engine decided it.
#include <algorithm>

#include "weft/sim/engine.h"

namespace weft::sim {

void Recorder::check_room(size_t records) const {
  if (records < trace.most) return;
  throw Error(ErrorKind::timeout, fmt::format("the trace passed {} steps or messages", trace.most),
              "raise --most-spans, or record less: fewer ranks, channels, launches, or larger chunks");
}

void Recorder::message(uint32_t lane_id, const Link& link, size_t port, int64_t bytes, const Sending& s) {
  check_room(trace.messages.size());
  const auto id = static_cast<uint32_t>(trace.messages.size());
  TracedStep& step = trace.steps[lane[lane_id]];
  TracedMessage m;
  m.sender = lane[lane_id];
  m.sent_before = step.last_sent;
  if (s.begin > s.asked) m.send_after = send_port[port];
  m.from = link.from, m.to = link.rank;
  m.send_port = link.send_port, m.receive_port = link.receive_port, m.family = link.family;
  m.bytes = bytes;
  m.asked_ps = s.asked, m.begin_ps = s.begin, m.send_busy_ps = s.busy, m.sent_ps = s.sent;
  step.last_sent = send_port[port] = id;
  const uint32_t at = link.slot(link.sent);
  if (slot.size() <= at) slot.resize(at + 1, no_record);
  slot[at] = id;
  trace.messages.push_back(m);
}

void Recorder::arrival(uint32_t slot_id, size_t port, Time first, Time begin, Time busy, Time there) {
  TracedMessage& m = trace.messages[slot[slot_id]];
  if (begin > first) m.receive_after = receive_port[port];
  m.first_ps = first, m.receive_begin_ps = begin, m.receive_busy_ps = busy, m.there_ps = there;
  receive_port[port] = slot[slot_id];
}

void Recorder::finish(Time end, const std::vector<int>& launch, const std::vector<Time>& rank_end) {
  trace.end_ps = end;
  const int last = *std::max_element(launch.begin(), launch.end());
  for (size_t rank = 0; rank < rank_end.size(); ++rank)
    if (launch[rank] == last && rank_end[rank] == end && trace.last == no_record) trace.last = rank_last[rank];
}

// Slices without elements that nobody awaits and that wait for nothing take no time: they are no records.
void Engine::record_start(uint32_t id, const Lane& me, Time start) {
  Recorder& r = *recorder_;
  r.open[id] = me.elements > 0 || start > me.ready || me.step->awaits || tracked(me);
  if (!r.open[id]) return;
  r.check_room(r.trace.steps.size());
  TracedStep step;
  step.rank = me.rank;
  step.lane = me.lane, step.channel = me.channel, step.step = me.step->source_step;
  step.slice = me.slice;
  step.chunk = me.chunk, step.launch = static_cast<uint32_t>(launch_[me.rank]);
  step.elements = me.elements;
  step.ready_ps = me.ready, step.begin_ps = start;
  decide(id, me, start, step);
  r.lane[id] = static_cast<uint32_t>(r.trace.steps.size());
  r.trace.steps.push_back(step);
  if (me.elements == 0) return;
  for (uint16_t i = 0; i < me.step->receives; ++i) {
    const uint32_t link = me.links[me.step->links[i]];
    r.trace.messages[r.slot[links_[link].slot(to_take(me, i, link))]].receiver = r.lane[id];
  }
}

// Of several that come to the same instant the first: each of them did precede.
void Engine::decide(uint32_t id, const Lane& me, Time start, TracedStep& step) const {
  const Recorder& r = *recorder_;
  const auto take = [&step](Cause cause, uint32_t from) {
    step.cause = from == no_record ? Cause::begin : cause;
    step.from = from;
  };
  if (start == me.ready) return take(Cause::lane, r.lane[id]);
  if (me.step->awaits && me.slice == 0 && decided_by_await(id, me, start, step)) return;
  for (uint16_t i = 0; me.elements > 0 && i < me.step->receives; ++i) {
    const uint32_t link = me.links[me.step->links[i]];
    const uint32_t slot = links_[link].slot(to_take(me, i, link));
    if (slots_[slot].time == start) return take(Cause::message, r.slot[slot]);
  }
  for (uint16_t i = 0; me.elements > 0 && i < me.step->sends; ++i) {
    const uint32_t link = me.links[me.step->links[me.step->receives + i]];
    const uint32_t message = to_send(me, i, link);
    const uint32_t slot = links_[link].slot(message);
    if (message >= links_[link].slots && slots_[slot].time == start) return take(Cause::slot, r.slot[slot]);
  }
  WEFT_CHECK(false, "nothing decided the start of {} at {} ps", describe(id), start);
}

bool Engine::decided_by_await(uint32_t id, const Lane& me, Time start, TracedStep& step) const {
  const int64_t chunk = walkers_[id].walk.block().loop ? me.chunk : -1;
  for (const plan::FlatAwait& await : walkers_[id].flat->after)
    for (int32_t p = 0; p < await.peer_count; ++p)
      for (int32_t c = 0; c < await.channel_count; ++c) {
        const int64_t peer = (await.peer_first + p) % all_ranks_;
        const uint32_t target = lane_id(peer % ranks_, await.lane, (await.channel_first + c) % channels_);
        const Time since = progress_[target].since(await, chunk, launch_[me.rank]);
        if (since + (peer == me.rank ? 0 : await_) != start) continue;
        step.from = progress_[target].record(await, chunk, launch_[me.rank]);
        step.cause = step.from == no_record ? Cause::begin : Cause::await;
        return true;
      }
  return false;
}

}  // namespace weft::sim
