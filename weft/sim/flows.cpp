// Changes are collected until somebody asks for a time or a rate; then the flows they touched are filled again.
#include "weft/sim/flows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/base/error.h"

namespace weft::sim {
namespace {

constexpr double slack = 1e-9;  // relative: rates that differ by less are equal
constexpr uint32_t most_hops = 64;
constexpr double forever = std::numeric_limits<double>::infinity();

}  // namespace

FlowNetwork::FlowNetwork(std::vector<double> capacities) : links_(capacities.size()) {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (!(capacities[i] > 0) || !std::isfinite(capacities[i]))
      throw Error(ErrorKind::user, fmt::format("link {} has a bandwidth of {} bytes per ns", i, capacities[i]),
                  "bandwidths are positive and finite");
    links_[i].capacity = capacities[i];
  }
}

uint32_t FlowNetwork::start(double now_ns, std::span<const uint32_t> route, double bytes) {
  if (route.size() > most_hops)
    fail(ErrorKind::unsupported, "a route of {} links; {} is the most", route.size(), most_hops);
  now_ = std::max(now_, now_ns);
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(flows_.size()));
    flows_.emplace_back();
    flows_.back().first_hop = static_cast<uint32_t>(hops_.size());
    hops_.resize(hops_.size() + most_hops);
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  Flow& flow = flows_[number];
  flow.hops = static_cast<uint32_t>(route.size());
  flow.left = std::max(bytes, 0.0);
  flow.since = now_;
  flow.rate = 0;
  flow.active = true;
  flow.bottleneck = std::numeric_limits<uint32_t>::max();
  ++active_;
  for (uint32_t i = 0; i < flow.hops; ++i) {
    if (route[i] >= links_.size()) fail(ErrorKind::user, "a route over link {} of {}", route[i], links_.size());
    Link& link = links_[route[i]];
    hops(flow)[i] = {route[i], static_cast<uint32_t>(link.flows.size())};
    link.flows.push_back(number * most_hops + i);
  }
  flow.listed = forever;
  if (route.empty()) {
    flow.end = now_;
    list(number);
  } else {
    pending_.push_back(number);
  }
  return number;
}

void FlowNetwork::remove(uint32_t number) {
  Flow& flow = flows_[number];
  for (const Hop& hop : hops(flow)) {
    Link& link = links_[hop.link];
    const uint32_t moved = link.flows.back();
    link.flows[hop.place] = moved;
    hops_[flows_[moved / most_hops].first_hop + moved % most_hops].place = hop.place;
    link.flows.pop_back();
    for (const uint32_t other : link.flows)
      if (flows_[other / most_hops].bottleneck == hop.link) pending_.push_back(other / most_hops);
  }
  flow.active = false;
  ++flow.version;
  free_.push_back(number);
  --active_;
}

// One entry in the list of ends counts for each flow, and it is never later than the flow's end: an end that moves back
// is only looked at again when its entry comes up.
void FlowNetwork::list(uint32_t number) {
  Flow& flow = flows_[number];
  flow.listed = flow.end;
  ends_.push_back({flow.end, number, ++flow.version});
  std::push_heap(ends_.begin(), ends_.end());
}

// False: the entry on top was no flow's end, and has been taken away.
bool FlowNetwork::on_top_is_true() {
  const End top = ends_.front();
  const Flow& flow = flows_[top.flow];
  const bool counts = flow.active && flow.version == top.version;
  if (counts && flow.end <= top.time) return true;
  std::pop_heap(ends_.begin(), ends_.end());
  ends_.pop_back();
  if (counts) list(top.flow);
  return false;
}

double FlowNetwork::next_ns() {
  settle();
  while (!ends_.empty())
    if (on_top_is_true()) return ends_.front().time;
  return forever;
}

void FlowNetwork::take_completed(double now_ns, std::vector<uint32_t>& completed) {
  completed.clear();
  const double next = next_ns();
  if (next > now_ns) return;
  now_ = std::max(now_, next);
  while (!ends_.empty() && ends_.front().time <= next) {
    if (!on_top_is_true()) continue;
    completed.push_back(ends_.front().flow);
    std::pop_heap(ends_.begin(), ends_.end());
    ends_.pop_back();
    remove(completed.back());
  }
}

double FlowNetwork::rate(uint32_t flow) {
  settle();
  return flows_[flow].rate;
}

void FlowNetwork::settle() {
  if (pending_.empty()) return;
  for (const uint32_t flow : pending_)
    if (flows_[flow].active) include(flow);
  pending_.clear();
  while (!filling_.empty()) {
    fill();
    if (!include_violated()) break;
  }
  for (const uint32_t number : filling_) {
    set_rate(flows_[number], number, flows_[number].filled);
    flows_[number].filling = false;
  }
  refilled_ += filling_.size();
  filling_.clear();
  for (const uint32_t link : touched_) links_[link].touched = false;
  touched_.clear();
}

void FlowNetwork::set_rate(Flow& flow, uint32_t number, double rate) {
  if (rate == flow.rate) return;
  flow.left = std::max(0.0, flow.left - (now_ - flow.since) * flow.rate);
  flow.since = now_;
  flow.rate = rate;
  flow.end = now_ + flow.left / rate;
  if (flow.end < flow.listed) list(number);
}

void FlowNetwork::include(uint32_t number) {
  Flow& flow = flows_[number];
  if (flow.filling) return;
  flow.filling = true;
  filling_.push_back(number);
  for (const Hop& hop : hops(flow)) {
    touch(hop.link);
    links_[hop.link].others += flow.rate;
    ++links_[hop.link].filling;
  }
}

void FlowNetwork::touch(uint32_t link) {
  Link& l = links_[link];
  if (l.touched) return;
  l.touched = true;
  l.filling = 0;
  l.others = l.capacity;
  for (const uint32_t entry : l.flows) l.others -= flows_[entry / most_hops].rate;
  touched_.push_back(link);
}

// Progressive filling of the flows in `filling_` in what the others leave: the link with the least share stops its
// flows. Few links are touched, so the least is found by looking at all.
void FlowNetwork::fill() {
  for (const uint32_t number : filling_) flows_[number].set = false;
  shares_.resize(touched_.size());
  for (size_t i = 0; i < touched_.size(); ++i) {
    Link& link = links_[touched_[i]];
    link.rest = std::max(0.0, link.others);
    link.open = link.filling;
    link.share = link.fastest = 0;
    link.place = static_cast<uint32_t>(i);
    shares_[i] = link.open > 0 ? link.rest / link.open : forever;
  }
  for (;;) {
    size_t least = 0;
    for (size_t i = 1; i < shares_.size(); ++i)
      if (shares_[i] < shares_[least]) least = i;
    if (shares_.empty() || shares_[least] == forever) return;
    stop_at(touched_[least], shares_[least]);
  }
}

void FlowNetwork::stop_at(uint32_t id, double share) {
  links_[id].share = share;
  for (const uint32_t entry : links_[id].flows) {
    Flow& flow = flows_[entry / most_hops];
    if (!flow.filling || flow.set) continue;
    flow.set = true;
    flow.filled = share;
    flow.bottleneck = id;
    for (const Hop& hop : hops(flow)) {
      Link& link = links_[hop.link];
      link.rest -= share;
      link.fastest = share;  // shares only grow
      shares_[link.place] = --link.open > 0 ? std::max(0.0, link.rest) / link.open : forever;
    }
  }
}

// A flow that kept its rate is wrong if it is faster than those that were stopped at a link of its way, or if its own
// bottleneck has room again or a faster flow.
bool FlowNetwork::include_violated() {
  const size_t before = filling_.size();
  const size_t links = touched_.size();
  for (size_t i = 0; i < links; ++i) {
    const uint32_t id = touched_[i];
    const Link& link = links_[id];
    if (link.filling == link.flows.size()) continue;  // nobody here kept a rate
    const double fastest = link.fastest;
    const bool stops = link.share > 0 || (link.rest <= slack * link.capacity && fastest == 0);
    const bool room = link.rest > slack * link.capacity;
    for (const uint32_t entry : link.flows) {
      const Flow& flow = flows_[entry / most_hops];
      if (flow.filling) continue;
      const bool too_fast = stops && flow.rate > link.share * (1 + slack);
      const bool too_slow = flow.bottleneck == id && (room || fastest > flow.rate * (1 + slack));
      if (too_fast || too_slow) include(entry / most_hops);
    }
  }
  return filling_.size() > before;
}

std::vector<double> max_min_rates(const std::vector<double>& capacities,
                                  const std::vector<std::vector<uint32_t>>& routes) {
  std::vector<double> rates(routes.size(), forever), rest = capacities;
  std::vector<bool> open(routes.size(), true);
  for (;;) {
    std::vector<int> count(rest.size());
    for (size_t f = 0; f < routes.size(); ++f)
      for (const uint32_t l : routes[f]) count[l] += open[f];
    double least = forever;
    size_t at = 0;
    for (size_t l = 0; l < rest.size(); ++l)
      if (count[l] > 0 && rest[l] / count[l] < least) least = rest[l] / count[l], at = l;
    if (least == forever) return rates;
    for (size_t f = 0; f < routes.size(); ++f) {
      if (!open[f] || std::find(routes[f].begin(), routes[f].end(), at) == routes[f].end()) continue;
      open[f] = false;
      rates[f] = least;
      for (const uint32_t l : routes[f]) rest[l] -= least;
    }
  }
}

}  // namespace weft::sim
