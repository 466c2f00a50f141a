// Pass 5: one loop. Collectives take their text from the registry; computations stand at the joint.
//
// A group is at most one reducing half, its maps as one kernel, its folds as steps right behind, and a spreading half
// for every gather. `sum(contributions), other operands -> kernel -> homes, what the gathers send`: the kernel's
// outputs follow the targets as written. avg is a division at the joint.
#include <algorithm>

#include "weft/lower/emit.h"

namespace weft::lower {

using namespace plan;

namespace {

algo::Collective scatter_collective(const ir::Op& op) {
  if (is_op(op, "all_reduce")) return algo::Collective::all_reduce;
  return is_op(op, "reduce") ? algo::Collective::reduce : algo::Collective::reduce_scatter;
}

algo::Collective gather_collective(const ir::Op& op) {
  if (is_op(op, "all_reduce")) return algo::Collective::all_reduce;
  return is_op(op, "broadcast") ? algo::Collective::broadcast : algo::Collective::all_gather;
}

Expr root_of(const Site& site) { return site.kind == Site::Kind::root ? algo::number(site.root) : nullptr; }

std::string suffix(int k) { return k == 1 ? "" : std::to_string(k); }

}  // namespace

void Emitter::loop(const Group& group) {
  at(group.value);
  prepare_folds(group);
  Body moves = move_steps(group);
  const bool apart = !present_.empty() || spaces_of_moves(group).size() > 1;  // not everywhere, or over other rows too
  if (group.head || !group.maps.empty() || !group.gathers.empty() || !group.folds.empty())
    compute_loop(group, apart ? Body{} : std::exchange(moves, {}));
  if (moves.empty()) return;
  at_all_of(group.value);
  add(Loop{spaces_of_moves(group), 1, moves});
}

// Rows that the other side counts are another space than those that are sent.
std::vector<Id> Emitter::spaces_of_moves(const Group& group) const {
  std::vector<Id> names = {work_.out.plan.spaces[static_cast<size_t>(group.space)].name};
  for (const ir::Op* op : group.moves)
    if (const Id from = work_.out.plan.spaces[static_cast<size_t>(work_.value(op->args[0]).space)].name;
        !std::count(names.begin(), names.end(), from))
      names.insert(names.begin(), from);
  return names;
}

void Emitter::compute_loop(const Group& group, const Body& moves) {
  if (group.head || !group.maps.empty() || !group.gathers.empty()) {
    Main main = main_step(group);
    Body behind = fold_steps(group, main.folds);
    behind.insert(behind.end(), moves.begin(), moves.end());
    return emit_loop(group, std::move(main), std::move(behind));
  }
  Body body = fold_steps(group, {});
  if (group.site.kind == Site::Kind::root && !body.empty()) body = {algo::when(at_root(group.site), body)};
  body.insert(body.end(), moves.begin(), moves.end());
  add(Loop{{work_.out.plan.spaces[static_cast<size_t>(group.space)].name}, 1, body});
}

Emitter::Main Emitter::main_step(const Group& group) {
  Main main;
  main.step.label = label(group.head ? "fin" : group.gathers.empty() ? "map" : group.maps.empty() ? "own" : "upd");
  const Id handshake = earlier_handshake(group);
  if (group.head) add_scatter(main, group, handshake);
  const auto keep = [&](const ir::Op& op) {
    for (const Operand& home : homes(op.name, group.site)) main.targets.push_back({home, op.name});
  };
  if (group.head && !is_op(*group.head, "all_reduce")) keep(*group.head);
  for (const ir::Op* op : group.maps) keep(*op);
  add_gathers(main, group, handshake);
  add_sources(main, group);
  add_folds(main, group);
  add_kernel(main, group);
  return main;
}

// A `ready` of this launch serves again if peers will touch nothing that this rank has used since.
Id Emitter::earlier_handshake(const Group& group) const {
  if (handshake_.empty()) return "";
  if (group.head && work_.value(group.head->args[0]).op) return "";
  const auto fresh = [&](const ir::Name& name) {
    const std::vector<Home>& homes = work_.value(name).homes;
    return std::none_of(homes.begin(), homes.end(), [&](const Home& home) { return touched_.count(home.buffer) > 0; });
  };
  if (group.head && is_op(*group.head, "all_reduce") && !fresh(group.head->name)) return "";
  const bool all_fresh =
      std::all_of(group.gathers.begin(), group.gathers.end(), [&](const ir::Op* op) { return fresh(op->name); });
  return all_fresh ? handshake_ : "";
}

void Emitter::add_scatter(Main& main, const Group& group, const Id& handshake) {
  const ir::Op& op = *group.head;
  const Choice& choice = work_.choices[static_cast<size_t>(group.unit)];
  const Value& contribution = work_.value(op.args[0]);
  if (std::holds_alternative<ir::Root>(contribution.type->layout) ||
      std::holds_alternative<ir::Sliced>(contribution.type->layout))
    unsupported(op, fmt::format("{} is {}", op.args[0], ir::print(contribution.type->layout)),
                "reduce what every rank has");
  algo::ScatterSite site;
  site.collective = scatter_collective(op);
  site.buffer = contribution.homes[0].buffer;
  site.space = work_.out.plan.spaces[static_cast<size_t>(group.space)].name;
  site.dtype = weft::name(contribution.type->dtype);
  site.all = all(group.space);
  site.joint = main.step.label;
  site.handshake = handshake;
  site.reduction = reduction(*op.attrs.reduce);
  site.root = root_of(group.site);
  site.protocol = choice.protocol;
  site.suffix = suffix(++collectives_);
  site.family = choice.algorithm->needs_mapped() ? "" : family_name("main", choice.protocol, site.slots, site.dtype);
  main.scatter = choice.algorithm->scatter(site);
  await_contribution(*main.scatter, contribution, choice.algorithm->needs_mapped());
}

namespace {

void add_to_steps(Body& body, const std::vector<Await>& awaits) {
  for (Item& item : body) {
    if (auto* step = std::get_if<Step>(&item))
      algo::add_new(step->after, awaits);
    else if (auto* repeat = std::get_if<For>(&item))
      add_to_steps(repeat->body, awaits);
    else if (auto* when = std::get_if<When>(&item))
      add_to_steps(when->body, awaits);
    else
      add_to_steps(std::get<Loop>(item).body, awaits);
  }
}

}  // namespace

// Channel 0 made what is reduced: whoever reads it waits, on all ranks where peers read it in place. The waits stand in
// the loop, since steps between two loops are one block, which is left as a whole.
void Emitter::await_contribution(algo::Half& half, const Value& contribution, bool mapped) {
  std::vector<Await> awaits;
  add_await(awaits, contribution.name, true);
  if (awaits.empty()) return;
  if (mapped)
    awaits[0].peers = algo::everyone();
  else
    add_to_steps(half.head, awaits);
  algo::add_new(half.joint.after, awaits);
}

void Emitter::add_gathers(Main& main, const Group& group, const Id& handshake) {
  if (group.head && is_op(*group.head, "all_reduce")) add_gather(main, group, *group.head, group.head->name, handshake);
  for (const ir::Op* op : group.gathers) add_gather(main, group, *op, op->args[0], handshake);
}

void Emitter::add_gather(Main& main, const Group& group, const ir::Op& op, const ir::Name& value, const Id& handshake) {
  const Choice& choice = work_.choices[static_cast<size_t>(group.unit)];
  const algo::Algorithm& algorithm = *choice.algorithm;
  algo::GatherSite site;
  site.collective = gather_collective(op);
  for (const Home& home : work_.value(op.name).homes) site.homes.push_back(home.buffer);
  if (site.homes.empty()) return;
  site.space = work_.out.plan.spaces[static_cast<size_t>(group.space)].name;
  site.all = all(group.space);
  site.joint = main.step.label;
  site.handshake = handshake;
  site.root = root_of(group.site);
  if (!site.root && !op.attrs.root.empty()) site.root = algo::number(op.attrs.root);  // of a local value, one rank's
  site.protocol = choice.protocol;
  // Halves over mapped memory share one handshake, so they have one suffix; others have links and labels of their own.
  const bool shares = algorithm.needs_mapped() && site.collective != algo::Collective::broadcast &&
                      (main.scatter || !main.gathers.empty());
  const bool joined = main.scatter && main.gathers.empty();
  site.suffix = suffix(shares || joined ? collectives_ : ++collectives_);
  const std::string dtype(weft::name(work_.types.at(op.name).dtype));
  const Id own = main.gathers.empty() ? algo::own_gather_family(algorithm) : "ag";
  if (own == "down" || (own == "ag" && !main.gathers.empty()))
    site.family = algorithm.needs_mapped() ? "" : work_.fresh(own);
  else if (!algorithm.needs_mapped())
    site.family = family_name(own.empty() ? "main" : own, choice.protocol, site.slots, dtype);
  main.gathers.push_back(algorithm.gather(site));
  main.homes.insert(main.homes.end(), site.homes.begin(), site.homes.end());
  for (const Operand& target : main.gathers.back().joint.targets) main.targets.push_back({target, value});
}

// The family `base` where it has these settings, else another one of that name.
Id Emitter::family_name(const std::string& base, Protocol protocol, int slots, const std::string& dtype) {
  for (int k = 1;; ++k) {
    const Id name = base + suffix(k);
    const int known = find_family(work_.out.plan, name);
    if (known < 0 && k > 1 && work_.taken.count(name)) continue;
    if (known < 0) {
      work_.taken.insert(name);
      work_.out.plan.families.push_back(algo::family(name, protocol, slots, ""));
      carries_[name] = dtype;
    }
    const Family& family = work_.out.plan.families[static_cast<size_t>(find_family(work_.out.plan, name))];
    if (family.protocol == protocol && family.slots == slots && carries_[name] == dtype)
      return name == "main" ? "" : name;
  }
}

void Emitter::add_sources(Main& main, const Group& group) {
  std::vector<ir::Name> made;
  if (group.head) made.push_back(group.head->name);
  for (const ir::Op* op : group.maps) made.push_back(op->name);
  const auto take = [&](const ir::Name& name) {
    if (std::count(made.begin(), made.end(), name) || std::count(main.sources.begin(), main.sources.end(), name))
      return;
    main.sources.push_back(name);
    main.step.others.push_back(read(name, group.site, group.space));
    add_await(main.step.after, name, true);
  };
  for (const ir::Op* op : group.maps)
    for (const ir::Name& arg : op->args) take(arg);
  for (const ir::Op* op : group.gathers) take(op->args[0]);
}

// What the step makes or reads anyway is folded there, in registers: a step behind it would read a chunk again, twice for
// two norms. A value narrower than what it is computed in must be folded as it is stored, so that stays a step of its own.
void Emitter::add_folds(Main& main, const Group& group) {
  std::vector<ir::Name> at_hand = main.sources;
  if (group.head) at_hand.push_back(group.head->name);
  for (const ir::Op* op : group.maps) at_hand.push_back(op->name);
  const auto usable = [&](const ir::Name& name) {
    return std::count(at_hand.begin(), at_hand.end(), name) && size_bytes(work_.value(name).type->dtype) >= 4;
  };
  for (const ir::Op* op : group.folds) {
    if (!std::all_of(op->args.begin(), op->args.end(), usable)) continue;
    Fold& fold = fold_of(*op);
    fold.label = main.step.label;
    main.folds.push_back(op);
    main.targets.push_back({partial_of(fold), op->name});
  }
}

void Emitter::add_kernel(Main& main, const Group& group) {
  std::vector<Id> outputs;
  for (const Target& target : main.targets) {
    main.step.targets.push_back(target.operand);
    outputs.push_back(work_.id(target.value));
  }
  WEFT_CHECK(!outputs.empty(), "the step {} makes nothing that anybody reads", main.step.label);
  const bool average = group.head && *group.head->attrs.reduce == ir::ReduceOp::avg;
  const bool one_source = main.sources.size() + (group.head ? 1 : 0) == 1;
  if (!average && group.maps.empty() && main.folds.empty() && one_source) return;  // a copy
  KernelMaker kernel(work_, work_.id(group.maps.empty() ? main.targets[0].value : group.maps[0]->name));
  if (group.head) kernel.input(work_.id(group.head->name));
  for (const ir::Name& source : main.sources) kernel.input(work_.id(source));
  if (average) kernel.average(work_.id(group.head->name), work_.group(group.head->name));
  for (const ir::Op* op : group.maps) kernel.map(*op);
  for (const ir::Op* op : main.folds) kernel.fold(*op);
  main.step.kernel = kernel.finish(std::move(outputs));
}

// To the next group: whoever has one sends, whoever has one before it receives.
Body Emitter::send_steps(const ir::Op& op, Operand source, const std::vector<Operand>& homes) {
  const GroupMap& group = work_.group(op.name);
  const ir::Presence there = work_.types.at(op.name).presence;
  const bool big = work_.value(op.name).grade == Grade::big;
  const std::string dtype(weft::name(work_.types.at(op.name).dtype));
  const Id family = family_name(between, Protocol::simple, big ? 4 : 1, dtype);
  Step put = algo::copy(label("put"), std::move(source),
                        {algo::send(family, algo::peer(group.receiver(op.attrs.hops, there)))});
  add_await(put.after, op.args[0], big);
  const Step get =
      algo::copy(label("get"), algo::receive(family, algo::peer(group.sender(op.attrs.hops, there))), homes);
  work_.value(op.name).made_by = get.label;
  return {put, get};
}

// all_to_all: part p goes to rank p, what comes from rank p is part p. The own part comes last, so that behind it all is
// there.
Body Emitter::exchange_steps(const ir::Op& op) {
  const Id family = family_name("main", Protocol::simple, 4, std::string(weft::name(work_.types.at(op.name).dtype)));
  const Id x = work_.value(op.args[0]).homes[0].buffer;
  const auto at_home = [&](const char* part) {
    std::vector<Operand> list;
    for (const Home& home : work_.value(op.name).homes) list.push_back(algo::slice(home.buffer, algo::part(part)));
    return list;
  };
  Step put = algo::copy(label("put"), algo::slice(x, algo::part("r+j")), {algo::send(family, algo::peer("r+j"))});
  const Step get = algo::copy(label("get"), algo::receive(family, algo::peer("r-j")), at_home("r-j"));
  Step own = algo::copy(label("own"), algo::slice(x, algo::part("r")), at_home("r"));
  add_await(own.after, op.args[0], true);
  put.after = own.after;
  work_.value(op.name).made_by = own.label;
  return {algo::each("j", "1", "n", {put, get}), own};
}

// gather: everybody's part to the root; scatter: the root's parts to everybody.
Body Emitter::move_steps(const Group& group) {
  Body body;
  for (const ir::Op* op : group.moves) {
    if (is_op(*op, "send")) {
      const Operand source = read(op->args[0], group.site, group.space);
      for (const Item& item : send_steps(*op, source, homes(op->name, group.site))) body.push_back(item);
      continue;
    }
    if (is_op(*op, "all_to_all")) {
      for (const Item& item : exchange_steps(*op)) body.push_back(item);
      continue;
    }
    const bool gathers = is_op(*op, "gather");
    const auto* from = std::get_if<ir::Root>(&work_.types.at(op->args[0]).layout);
    const Site root{Site::Kind::root, gathers ? op->attrs.root : from->rank};
    const Id family = family_name("main", Protocol::simple, 4, std::string(weft::name(work_.types.at(op->name).dtype)));
    const Id x = work_.value(op->args[0]).homes[0].buffer;
    const auto at_home = [&](const char* part) {
      std::vector<Operand> list;
      for (const Home& home : work_.value(op->name).homes) list.push_back(algo::slice(home.buffer, algo::part(part)));
      return list;
    };
    Step own = algo::copy(label("own"), algo::slice(x, algo::part("r")), at_home("r"));
    add_await(own.after, op->args[0], true);
    const Id mine = label(gathers ? "put" : "get"), theirs = label(gathers ? "get" : "put");
    Step many, one;
    if (gathers) {
      one = algo::copy(mine, algo::slice(x, algo::part("r")), {algo::send(family, algo::peer(root.root))});
      many = algo::copy(theirs, algo::receive(family, algo::peer("r+j")), at_home("r+j"));
    } else {
      one = algo::copy(mine, algo::receive(family, algo::peer(root.root)), at_home("r"));
      many = algo::copy(theirs, algo::slice(x, algo::part("r+j")), {algo::send(family, algo::peer("r+j"))});
    }
    (gathers ? one : many).after = own.after;
    body.push_back(algo::when(at_root(root), {own, algo::each("j", "1", "n", {many})}));
    body.push_back(algo::when(algo::other(algo::number("r"), algo::number(root.root)), {one}));
    work_.value(op->name).made_by = gathers ? theirs : mine;
  }
  return body;
}

Emitter::Fold& Emitter::fold_of(const ir::Op& op) {
  return *std::find_if(folds_.begin(), folds_.end(), [&](const Fold& f) { return f.op == &op; });
}

Operand Emitter::partial_of(const Fold& fold) {
  const std::string part = fold.partial == 0 ? "c" : fmt::format("{}+c", fold.partial);
  return algo::accumulate(fold.buffer, algo::part(part));
}

// Each other fold reads what the main step left in memory, while the chunk is in cache.
Body Emitter::fold_steps(const Group& group, const std::vector<const ir::Op*>& but) {
  Body body;
  for (const ir::Op* op : group.folds) {
    if (std::count(but.begin(), but.end(), op)) continue;
    const Fold& fold = fold_of(*op);
    Step step;
    step.label = fold.label;
    KernelMaker kernel(work_, work_.id(op->name));
    for (const ir::Name& arg : op->args) {
      kernel.input(work_.id(arg));
      step.others.push_back(read(arg, group.site, group.space));
      add_await(step.after, arg, true);
    }
    kernel.fold(*op);
    step.kernel = kernel.finish({work_.id(op->name)});
    step.targets = {partial_of(fold)};
    body.push_back(step);
  }
  return body;
}

void Emitter::emit_loop(const Group& group, Main main, Body folds) {
  const bool guarded = group.site.kind == Site::Kind::root && !main.scatter && main.gathers.empty();
  algo::Joined joined = algo::join(main.scatter ? &*main.scatter : nullptr, main.gathers, main.step, std::move(folds));
  if (guarded) joined.loop = {algo::when(at_root(group.site), joined.loop)};
  Plan& plan = work_.out.plan;
  GroupMap place = group_;
  for (Let& let : joined.lets) place.place(let);
  algo::add_new(plan.lets, joined.lets);
  for (Family& family : joined.families)
    if (find_family(plan, family.name) < 0) plan.families.push_back(family);
  for (const Buffer& scratch : joined.scratch) {
    plan.buffers.push_back(scratch);
    work_.out.buffers.emplace_back();
  }
  for (const Id& mapped : joined.mapped) plan.buffers[static_cast<size_t>(find_buffer(plan, mapped))].mapped = true;
  group_ = place;
  for (Lane& lane : joined.lanes) lane.body = placed(std::move(lane.body));
  lanes_.insert(lanes_.end(), joined.lanes.begin(), joined.lanes.end());
  for (const Item& item : joined.before) {
    add(item);
    if (const auto* step = std::get_if<Step>(&item)) handshake_ = step->label;
  }
  add(Loop{{plan.spaces[static_cast<size_t>(group.space)].name}, 1, joined.loop});
  note_made(group, main, joined);
  // What a reducing half waits for behind the loop is only that its contribution is free again: the end of the launch
  // needs it, or nobody, if a later handshake comes.
  const Value* contribution = group.head ? &work_.value(group.head->args[0]) : nullptr;
  const bool only_reduces = main.gathers.empty() || work_.choices[static_cast<size_t>(group.unit)].algorithm->owner(
                                                        algo::Collective::all_reduce) == algo::Owner::everyone;
  const bool mapped = work_.choices[static_cast<size_t>(group.unit)].algorithm->needs_mapped();
  if (mapped && !joined.behind.empty() && std::holds_alternative<Step>(joined.behind[0])) pending_done_.clear();
  if (only_reduces && contribution && !(contribution->decl && contribution->decl->state))
    pending_done_ = placed(joined.behind);
  else
    for (const Item& item : joined.behind) add(item);
}

// The step behind which all of a value's homes are written: for gathers the one behind the loop, if there is one.
void Emitter::note_made(const Group& group, const Main& main, const algo::Joined& joined) {
  Id complete = main.step.label;
  for (const Item& item : joined.behind)
    if (const auto* step = std::get_if<Step>(&item)) complete = step->label;
  for (const ir::Op* op : group.maps) work_.value(op->name).made_by = main.step.label;
  const auto made_behind = [&](const ir::Op& op) {
    work_.value(op.name).made_by = complete;
    work_.value(op.name).made_between_loops = complete != main.step.label;
  };
  for (const ir::Op* op : group.gathers) made_behind(*op);
  if (group.head)
    is_op(*group.head, "all_reduce") ? made_behind(*group.head)
                                     : void(work_.value(group.head->name).made_by = main.step.label);
}

}  // namespace weft::lower
