// Groups: `world.split(k)` is k runs of n/k ranks, `across` the ranks with one place in all of them. What a rank is in
// its group, and which rank of the world a member is, are integer expressions, so one text still serves all ranks.
#include "weft/lower/groups.h"

#include "weft/algo/build.h"

namespace weft::lower {

namespace {

const ir::GroupDecl* find_group(const ir::Program& program, const std::string& name) {
  for (const ir::HeaderDecl& decl : program.header)
    if (const auto* group = std::get_if<ir::GroupDecl>(&decl); group && group->name == name) return group;
  internal_failure(__FILE__, __LINE__, "group", name);
}

}  // namespace

GroupMap::GroupMap(const ir::Program& program, const std::string& name) {
  if (name == "world") return;
  const ir::GroupDecl* group = find_group(program, name);
  name_ = name;
  across_ = group->across;
  if (across_) group = find_group(program, group->of);
  const expr::Expr parts = expr::substitute(group->parts, ir::lets(program));
  if (parts->op != expr::Op::integer || parts->integer < 1)
    throw Error(ErrorKind::unsupported,
                fmt::format("group {}: the number of groups is known only at launch", group->name),
                fmt::format("write it as a number: group {} = world.split(2)", group->name));
  parts_ = parts->integer;
}

std::string GroupMap::size() const { return is_world() ? "n" : across_ ? std::to_string(parts_) : run("n"); }
std::string GroupMap::size_of_launch() const {
  return is_world() ? "ranks" : across_ ? std::to_string(parts_) : run("ranks");
}
std::string GroupMap::rank_of_launch() const {
  if (is_world()) return "rank";
  return across_ ? "(rank/" + run("ranks") + ")" : "(rank%" + run("ranks") + ")";
}
std::string GroupMap::groups() const { return across_ ? run("n") : std::to_string(parts_); }
std::string GroupMap::id() const { return across_ ? "(r%" + run("n") + ")" : "(r/" + run("n") + ")"; }

std::string GroupMap::peer(const std::string& e) const {
  if (is_world()) return e;
  const std::string base = across_ ? "r%" + run("n") : "r-r%" + run("n");
  return across_ ? fmt::format("{}+({})*{}", base, e, run("n")) : fmt::format("{}+({})", base, e);
}

std::string GroupMap::shifted(const std::string& peer, int groups) const {
  if (groups == 0) return peer;
  const std::string there = fmt::format("{}+({})", id(), groups);
  return fmt::format("sel({} >= 0 and {} < {}, {}+({})*{}, none)", there, there, this->groups(), peer, groups,
                     across_ ? "1" : run("n"));
}

std::string GroupMap::present(const ir::Presence& presence) const {
  if (is_world() || (presence.first == 0 && presence.last == 0)) return "";
  return fmt::format("{} >= {} and {} < {} - {}", id(), presence.first, id(), groups(), presence.last);
}

std::string GroupMap::receiver(int hops, const ir::Presence& there) const {
  const std::string id = fmt::format("{}+({})", this->id(), hops);
  return fmt::format("sel({} >= {} and {} < {} - {}, r+({})*{}, none)", id, there.first, id, groups(), there.last, hops,
                     across_ ? "1" : run("n"));
}

std::string GroupMap::sender(int hops, const ir::Presence& there) const {
  return fmt::format("sel({} >= {} and {} < {} - {}, r-({})*{}, none)", id(), there.first, id(), groups(), there.last,
                     hops, across_ ? "1" : run("n"));
}

plan::Expr GroupMap::place(const plan::Expr& e) const {
  if (is_world() || !e) return e;
  std::map<std::string, expr::Expr> to = renamed_;
  to["r"] = algo::number(across_ ? "r/" + run("n") : "r%" + run("n"));
  to["n"] = algo::number(size());
  return expr::substitute(e, to);
}

// Single peers wrap within the group; ranges are runs of members.
void GroupMap::place(plan::Peers& peers) const {
  std::map<std::string, expr::Expr> to;
  const bool range = peers.last != nullptr;
  if (range && across_)
    throw Error(ErrorKind::unsupported, fmt::format("group {}: its members do not lie side by side", name_),
                "take an algorithm that speaks to one rank at a time: launch * chain, or ring with order any");
  to["e"] = place(peers.first);
  peers.first = expr::substitute(algo::number(peer(range ? "e" : "e % " + size())), to);
  if (!range) return;
  to["e"] = place(peers.last);
  peers.last = expr::substitute(algo::number(peer("e")), to);
}

void GroupMap::place(plan::Parts& parts) const {
  for (plan::Expr* e : {&parts.first, &parts.count, &parts.by, &parts.run}) *e = place(*e);
}

void GroupMap::place(plan::Step& step) const {
  for (auto* list : {&step.reduced, &step.others, &step.targets})
    for (plan::Operand& operand : *list) {
      const bool between_groups = operand.name.starts_with(between);  // it names ranks of the world already
      if (operand.peers && !between_groups) place(*operand.peers);
      place(operand.parts);
    }
  for (plan::Await& await : step.after) {
    if (await.peers) place(*await.peers);
    for (plan::Expr& e : await.index) e = place(e);
  }
}

void GroupMap::place(plan::Body& body) const {
  if (is_world()) return;
  for (plan::Item& item : body) {
    if (auto* step = std::get_if<plan::Step>(&item)) {
      place(*step);
    } else if (auto* each = std::get_if<plan::For>(&item)) {
      each->lo = place(each->lo), each->hi = place(each->hi);
      place(each->body);
    } else if (auto* when = std::get_if<plan::When>(&item)) {
      when->cond = place(when->cond);
      place(when->body);
    } else {
      place(std::get<plan::Loop>(item).body);
    }
  }
}

void GroupMap::place(plan::Let& let) {
  if (is_world()) return;
  let.value = place(let.value);
  renamed_[let.name] = expr::name(let.name + "_" + name_);
  let.name += "_" + name_;
}

}  // namespace weft::lower
