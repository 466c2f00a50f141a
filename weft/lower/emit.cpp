// Passes 5 to 7, the frame: units in order, groups of a unit by phase and loop, copies into states at the end, and what
// all steps share: operands, awaits, labels, channel 0.
//
// Sequences share lane `main`: the same channel handles the same share of a value in every loop, so lane order is all
// the order they need. Channels meet only where something is done once: matmuls, folds' totals, small values. Those run
// under `when c == 0`, and whoever reads what another channel made awaits its step.
#include "weft/lower/emit.h"

#include <algorithm>

namespace weft::lower {

using namespace plan;

void emit(Work& work) { Emitter(work).run(); }

void Emitter::run() {
  for (size_t u = 0; u < work_.units.size(); ++u) unit(static_cast<int>(u));
  copies();
  add_placed(std::exchange(pending_done_, {}));
  flush();
  Plan& plan = work_.out.plan;
  plan.lanes.push_back({"main", lane_});
  plan.lanes.insert(plan.lanes.end(), lanes_.begin(), lanes_.end());
}

void Emitter::unit(int unit) {
  const std::vector<const ir::Op*>& ops = work_.units[static_cast<size_t>(unit)].ops;
  int last = -1;
  for (const ir::Op* op : ops) last = std::max(last, work_.value(op->name).phase);
  for (int phase = -1; phase <= last; ++phase) {
    std::set<int> spaces;
    for (const ir::Op* op : ops)
      if (work_.value(op->name).phase == phase) spaces.insert(loop_space(work_, *op));
    for (const int space : spaces)
      if (space >= 0) loop(group(unit, phase, space));
    smalls(unit, phase);
  }
}

Group Emitter::group(int unit, int phase, int space) const {
  Group group;
  group.unit = unit;
  group.space = space;
  bool first = true;
  for (const ir::Op* op : work_.units[static_cast<size_t>(unit)].ops) {
    if (work_.value(op->name).phase != phase || loop_space(work_, *op) != space) continue;
    const Site s = site(work_, *op);
    if (!first && !(s == group.site))
      unsupported(*op, "works on other parts than the rest of its group", "fuse what works on one cut");
    const auto presence = [&](const ir::Name& name) { return work_.types.at(name).presence; };
    const ir::Name& where = is_op(*op, "send") ? op->args[0] : op->name;
    if (!first && !(presence(where) == presence(group.value)))
      unsupported(*op, "is on fewer groups of ranks than the rest of its loop", "leave it out of the fuse block");
    group.site = s;
    group.value = where;
    first = false;
    if (is_map(*op))
      group.maps.push_back(op);
    else if (is_fold(*op))
      group.folds.push_back(op);
    else if (is_gather(*op))
      group.gathers.push_back(op);
    else if (is_move(*op))
      group.moves.push_back(op);
    else if (!group.head)
      group.head = op;
    else
      unsupported(*op, fmt::format("{} and it would start one loop", group.head->name), "make a group around each");
  }
  return group;
}

// States whose old content was read until the end. A state is overwritten only when nobody still copies from it.
void Emitter::copies() {
  struct Copy {
    ir::Name value;
    Id state;
  };
  std::vector<Copy> left;
  for (const Value& v : work_.values)
    for (const Id& state : v.copies) left.push_back({v.name, state});
  while (!left.empty()) {
    const auto free = std::find_if(left.begin(), left.end(), [&](const Copy& copy) {
      return std::none_of(left.begin(), left.end(), [&](const Copy& other) {
        return &other != &copy && work_.value(other.value).homes[0].buffer == copy.state;
      });
    });
    WEFT_CHECK(free != left.end(), "{} is in a ring of states (prepare.cpp)", left[0].value);
    const Value& v = work_.value(free->value);
    at(v.name);
    const Site where = std::holds_alternative<ir::Sliced>(v.type->layout) ? Site{Site::Kind::part, ""} : Site{};
    Site s = where;
    if (const auto* root = std::get_if<ir::Root>(&v.type->layout)) s = {Site::Kind::root, root->rank};
    const Id text = label("copy");
    const bool big = v.grade == Grade::big;
    Step step = algo::copy(text, read(v.name, s, big ? v.space : -1),
                           {algo::slice(free->state, big ? parts(v.space, s) : algo::part("0"))});
    add_await(step.after, v.name, big);
    Item item = step;
    if (s.kind == Site::Kind::root) item = algo::when(at_root(s), {step});
    if (big)
      add(Loop{{work_.out.plan.spaces[static_cast<size_t>(v.space)].name}, 1, {item}});
    else
      add_once(item);
    left.erase(free);
  }
}

// ---- shared
Parts Emitter::all(int space) const {
  return work_.spaces[static_cast<size_t>(space)].in_parts ? algo::parts("0", "n") : algo::part("0");
}

Parts Emitter::parts(int space, const Site& site) const {
  return site.kind == Site::Kind::part ? algo::part("r") : all(space);
}

// A replicated value is read in its part where the step works on parts: the choice cannot be forgotten.
Operand Emitter::read(const ir::Name& name, const Site& site, int loop) {
  const Value& v = work_.value(name);
  WEFT_CHECK(!v.homes.empty(), "{} is read and has no place", name);
  if (v.grade != Grade::big) return algo::slice(v.homes[0].buffer, v.homes[0].parts);
  WEFT_CHECK(loop < 0 || v.space == loop, "{} is read in a loop over another space", name);
  const bool sliced = std::holds_alternative<ir::Sliced>(v.type->layout);
  return algo::slice(v.homes[0].buffer, sliced ? algo::part("r") : parts(v.space, site));
}

std::vector<Operand> Emitter::homes(const ir::Name& name, const Site& site) {
  const Value& v = work_.value(name);
  std::vector<Operand> operands;
  for (const Home& home : v.homes)
    operands.push_back(algo::slice(home.buffer, v.grade == Grade::big ? parts(v.space, site) : home.parts));
  return operands;
}

Expr Emitter::at_root(const Site& site) const { return algo::same(algo::number("r"), algo::number(site.root)); }

// In a loop, elementwise readers need nothing but what channel 0 made once; outside, all channels must be through.
void Emitter::add_await(std::vector<Await>& awaits, const ir::Name& name, bool in_loop) const {
  const Value& v = work_.value(name);
  if (work_.channels == 1 || v.made_by.empty() || in_loop != v.by_channel_zero) return;
  Await await = algo::after(v.made_by);
  await.lane = "main";
  if (!in_loop && !v.made_between_loops)
    await.all_channels = true;
  else
    await.channel = expr::integer(0);
  if (in_loop || await.all_channels) return algo::add_new(awaits, std::vector{await});
  // A step between loops is in one block with this one, so channel 0 must not wait for itself.
  for (int c = 1; c < work_.channels; ++c) {
    await.channel = expr::integer(c);
    algo::add_new(awaits, std::vector{await});
  }
}

Id Emitter::label(const std::string& base) {
  const int k = ++labels_[base];
  return k == 1 ? base : fmt::format("{}{}", base, k);
}

// A handshake serves one group; what another waits for at its end is waited for before a group's next steps.
void Emitter::at(const ir::Name& value) {
  const ir::Type& type = work_.types.at(value);
  const std::string present = work_.group(value).present(type.presence);
  if (work_.group(value).id() != group_.id() || work_.group(value).is_world() != group_.is_world() ||
      present != present_) {
    handshake_.clear();
    add_placed(std::exchange(pending_done_, {}));
  }
  group_ = work_.group(value);
  present_ = present;
}

void Emitter::at_all_of(const ir::Name& value) {
  at(value);
  present_.clear();
}

Body Emitter::placed(Body items) const {
  group_.place(items);
  if (present_.empty()) return items;
  return {algo::when(present_, std::move(items))};
}

void Emitter::add(Item item) { add_placed(placed({std::move(item)})); }

void Emitter::add_placed(Body items) {
  if (items.empty()) return;
  flush();
  touch(items);
  lane_.insert(lane_.end(), items.begin(), items.end());
}

void Emitter::add_once(Item item) {
  const Body items = placed({std::move(item)});
  touch(items);
  once_.insert(once_.end(), items.begin(), items.end());
}

void Emitter::add_once_at(const Site& site, Body steps) {
  if (site.kind == Site::Kind::root) return add_once(algo::when(at_root(site), std::move(steps)));
  for (Item& item : steps) add_once(std::move(item));
}

void Emitter::flush() {
  if (!once_.empty()) lane_.push_back(algo::when("c == 0", std::exchange(once_, {})));
}

void Emitter::touch(const Body& body) {
  for (const Item& item : body) {
    if (const auto* step = std::get_if<Step>(&item)) {
      for (const auto* list : {&step->reduced, &step->others, &step->targets})
        for (const Operand& operand : *list)
          if (operand.kind == Operand::Kind::slice) touched_.insert(operand.name);
    } else if (const auto* repeat = std::get_if<For>(&item))
      touch(repeat->body);
    else if (const auto* when = std::get_if<When>(&item))
      touch(when->body);
    else
      touch(std::get<Loop>(item).body);
  }
}

}  // namespace weft::lower
