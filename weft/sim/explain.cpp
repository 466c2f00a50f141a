// Why a run stopped: no event is left and lanes still wait. Follows who waits for whom until it closes a circle.
#include <algorithm>

#include "weft/sim/engine.h"

namespace weft::sim {

std::string Engine::describe(uint32_t id) const {
  const Lane& me = lanes_[id];
  const plan::Lane& text = instance_.plan().lanes[me.lane];
  const std::string where = fmt::format("rank {} lane {} channel {}", me.rank, text.name, me.channel);
  if (me.state == Lane::State::done) return where + " (done)";
  if (!me.step) return where;
  const plan::Step& step = instance_.step(me.lane, me.step->source_step);
  return fmt::format("{} step {} chunk {}", where,
                     step.label.empty() ? fmt::format("{}", me.step->source_step) : step.label, me.chunk);
}

// `on`: the lane that would have to act, nobody if there is none.
std::string Engine::waits(const Lane& me, uint32_t& on) const {
  on = nobody;
  if (me.state == Lane::State::await) {
    on = me.waits_for;
    return fmt::format("waits for a step of {}", describe(on));
  }
  const Link& link = links_[me.waits_for];
  const std::string& family = instance_.plan().families[link.family].name;
  if (me.state == Lane::State::message) {
    on = link.sender;
    return fmt::format("waits for message {} of link {} from {}", link.taken, family,
                       on == nobody ? "a rank that never sends on it" : describe(on));
  }
  on = link.receiver;
  return fmt::format("waits for one of the {} slots of link {} to {}", link.slots, family,
                     on == nobody ? "a rank that never receives on it" : describe(on));
}

// A lane opens a link when it comes to it, and one that hangs may not have come so far: so who would be at the other end
// is read off the walks of that rank.
void Engine::open_links_of(uint32_t rank) {
  plan::FlatStep flat;
  StepInfo info;
  std::vector<Connection> connections;
  for (uint32_t id = lane_id(rank, 0, 0); id < lane_id(rank + 1, 0, 0); ++id) {
    const Lane& me = lanes_[id];
    plan::Walk walk(instance_, static_cast<int>(rank), me.lane, me.channel);
    while (walk.next_block())
      while (walk.next(flat)) {
        steps_.decode(me.channel, me.lane, walk.block(), flat, info, connections);
        for (const Connection& c : connections) open_link(me, c);
      }
  }
}

void Engine::deadlock() {
  uint32_t at = nobody;
  size_t waiting = 0;
  for (uint32_t id = 0; id < lanes_.size(); ++id)
    if (lanes_[id].state != Lane::State::done) {
      if (at == nobody) at = id;
      ++waiting;
    }
  std::vector<uint32_t> path;
  while (at != nobody && lanes_[at].state != Lane::State::done &&
         std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    const Lane& me = lanes_[at];
    if (me.state == Lane::State::message || me.state == Lane::State::slot) {
      const Link link = links_[me.waits_for];  // a copy: opening links moves them
      if (link.sender == nobody) open_links_of(link.from);
      if (link.receiver == nobody) open_links_of(link.rank);
    }
    waits(lanes_[path.back()], at);
  }
  const auto circle = std::find(path.begin(), path.end(), at);
  if (circle != path.end()) path.erase(path.begin(), circle);
  std::string text = fmt::format("deadlock: {} of {} lanes wait for ever", waiting, lanes_.size());
  for (size_t i = 0; i < path.size() && i < 8; ++i) {
    uint32_t on = nobody;
    text += fmt::format("\n    {} {}", describe(path[i]), waits(lanes_[path[i]], on));
  }
  if (path.size() > 8) text += fmt::format("\n    ... and {} more", path.size() - 8);
  throw Error(ErrorKind::plan, text,
              circle != path.end() || path.empty()
                  ? "they wait in a circle: more slots, another order of steps, or another lane"
                  : "the last one waits for what nobody does",
              "V8");
}

}  // namespace weft::sim
