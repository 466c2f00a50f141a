// Messages over a fabric. A flow that begins in a window ends at the earliest then and arrives a latency later, which is
// behind the window: so ranks go through the window first, and the flows follow, in the order of time.
#include <algorithm>
#include <cmath>

#include "weft/sim/engine.h"

namespace weft::sim {

// Messages of one connection follow each other: the next begins when this one is over.
void Engine::queue_flow(uint32_t id, Time begin, int64_t bytes) {
  Link& link = links_[id];
  Slot& slot = slots_[link.slot(link.sent)];
  slot.time = begin;
  slot.bytes = bytes;
  flown_.resize(std::max<size_t>(flown_.size(), links_.size()));
  if (link.sent++ == flown_[id]) starts_.push_back({id, begin});
}

void Engine::start_flow(uint32_t id, double now_ns) {
  const Link& link = links_[id];
  std::vector<uint32_t> route;
  network_.fabric->route(static_cast<int>(link.from), static_cast<int>(link.rank), route);
  const uint32_t flow = flows_->start(now_ns, route, static_cast<double>(slots_[link.slot(flown_[id])].bytes));
  if (flow >= link_of_flow_.size()) link_of_flow_.resize(flow + 1);
  link_of_flow_[flow] = id;
}

Time Engine::next_flow() {
  if (!flows_) return never;
  const double next = flows_->next_ns();
  return std::isfinite(next) ? static_cast<Time>(next * 1000) : never;
}

// Starts and ends of this window, in order. What ends arrives a latency later.
void Engine::advance_flows() {
  if (!flows_) return;
  const Time end = agenda_.window_end();
  std::sort(starts_.begin(), starts_.end());
  std::vector<Waiting> later;
  std::vector<uint32_t> over;
  size_t at = 0;
  for (;;) {
    const Time begin = at < starts_.size() ? starts_[at].begin : never;
    const Time next = next_flow();
    if (std::min(begin, next) >= end) break;
    if (begin <= next) {
      start_flow(starts_[at].link, static_cast<double>(begin) / 1000);
      ++at;
      continue;
    }
    const double now_ns = flows_->next_ns();
    flows_->take_completed(now_ns, over);
    for (const uint32_t flow : over) {
      const uint32_t id = link_of_flow_[flow];
      Link& link = links_[id];
      Slot& slot = slots_[link.slot(flown_[id]++)];
      slot.time = static_cast<Time>(std::ceil(now_ns * 1000)) + costs_[link.cost].latency;
      agenda_.push(link.rank, {id, link.tie, slot.time});
      if (link.sent == flown_[id]) continue;
      const Time again = std::max(slots_[link.slot(flown_[id])].time, static_cast<Time>(std::ceil(now_ns * 1000)));
      const auto place =
          std::upper_bound(starts_.begin() + static_cast<std::ptrdiff_t>(at), starts_.end(), Waiting{id, again});
      starts_.insert(place, {id, again});
    }
  }
  later.assign(starts_.begin() + static_cast<std::ptrdiff_t>(at), starts_.end());
  starts_ = std::move(later);
}

}  // namespace weft::sim
