// Groups: greedy in program order, each step asked of the K rules.
//
// Exhaustive partition is out of reach (LAMB's cut form has thousands) and pointless: a computation that can join a
// kernel saves a pass over memory and costs nothing that the rules do not forbid. So computations go into the latest
// group that takes them, and the only choice that is left is whether a collective runs with its computations inside.
#include "weft/schedule/groups.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/schedule/fuse_rules.h"

namespace weft::schedule {
namespace {

using Group = FuseRules::Group;

// Each of the first collectives with its group or without; those behind take theirs. 2 to the 6 forms of a program of up
// to 32 statements, fewer of longer ones.
size_t most_varied(const Form& form) {
  size_t vary = 6;
  while (vary > 1 && (form.program.ops.size() << vary) > 2048) --vary;
  return vary;
}

std::vector<ir::Name> names_of(const Form& form, const Group& group) {
  std::vector<ir::Name> names;
  for (size_t i : group.members) names.push_back(form.program.ops[i].name);
  return names;
}

std::string fresh_name(const Form& form, const std::string& base) {
  for (int i = 1;; ++i) {
    std::string name = i == 1 ? base : base + std::to_string(i);
    if (!check_block_name(form, name)) return name;
  }
}

// Adds the block, if its members are free and no two blocks then wait for each other. Each is legal by itself.
bool join(Form& form, const std::string& base, const std::vector<ir::Name>& members) {
  for (const ir::Name& member : members)
    if (block_of(form.program, member) != nullptr) return false;
  form.program.blocks.push_back({ir::Block::Kind::fuse, fresh_name(form, base), members});
  try {
    ir::units(form.program);
  } catch (const Error& error) {
    if (error.rule() != "F8") throw;
    form.program.blocks.pop_back();
    return false;
  }
  return true;
}

// What is computed of another collective's slice and not of this one's is left to that one.
bool belongs_elsewhere(const Form& form, const FuseRules& rules, size_t head, size_t op) {
  if (rules.needs(op, head)) return false;
  for (size_t other = 0; other < form.program.ops.size(); ++other)
    if (other != head && rules.starts(other) && rules.needs(op, other)) return true;
  return false;
}

Group group_around(const Form& form, const FuseRules& rules, size_t head) {
  Group group = rules.group({head});
  for (size_t i = 0; i < form.program.ops.size(); ++i) {
    if (group.inside[i] || rules.in_block(i)) continue;
    if (belongs_elsewhere(form, rules, head, i)) continue;
    Group trial = rules.with(group, i);
    FuseRules::Breach breach = rules.check(trial);
    if (breach.rule == 2) {
      trial = rules.group(rules.closed(group.members, i));
      breach = rules.check(trial);
    }
    if (breach.rule == 0) group = std::move(trial);
  }
  return group;
}

std::vector<Group> computation_groups(const Form& form, const FuseRules& rules) {
  std::vector<Group> groups;
  const auto joined = [&](size_t i) {
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
      Group trial = rules.with(*group, i);
      if (rules.check(trial).rule != 0) continue;
      *group = std::move(trial);
      return true;
    }
    return false;
  };
  for (size_t i = 0; i < form.program.ops.size(); ++i)
    if (rules.computation(i) && !rules.in_block(i) && !joined(i)) groups.push_back(rules.group({i}));
  std::erase_if(groups, [](const Group& g) { return g.members.size() < 2; });
  return groups;
}

bool is_big_unit(const ir::Unit& unit) {
  return std::any_of(unit.ops.begin(), unit.ops.end(),
                     [](const ir::Op* op) { return !is_computation(*op) || op->def->op_class == ir::OpClass::whole; });
}

bool feeds(const ir::Unit& a, const ir::Unit& b) {
  for (const ir::Op* consumer : b.ops)
    for (const ir::Name& arg : consumer->args)
      for (const ir::Op* producer : a.ops)
        if (producer->name == arg) return true;
  return false;
}

std::string unit_name(const ir::Unit& unit) { return unit.block != nullptr ? unit.block->name : unit.ops[0]->name; }

}  // namespace

std::vector<std::vector<ir::Name>> collective_groups(const Form& form) {
  FuseRules rules(form);
  std::vector<std::vector<ir::Name>> groups;
  for (size_t i = 0; i < form.program.ops.size(); ++i) {
    if (!is_scatter(form.program.ops[i]) || rules.in_block(i)) continue;
    Group group = group_around(form, rules, i);
    if (group.members.size() > 1) groups.push_back(names_of(form, group));
  }
  return groups;
}

void prefuse(Form& form) {
  FuseRules rules(form);
  std::vector<std::vector<ir::Name>> groups;
  for (const Group& group : computation_groups(form, rules)) groups.push_back(names_of(form, group));
  for (const std::vector<ir::Name>& group : groups)
    join(form, "k", group);  // those that would wait for each other stay
  canonicalize(form);
}

std::vector<Form> grouped(const Form& form) {
  std::vector<std::vector<ir::Name>> groups = collective_groups(form);
  const size_t vary = std::min(groups.size(), most_varied(form));
  std::vector<Form> result;
  for (size_t left_out = 0; left_out < size_t{1} << vary; ++left_out) {
    Form next = form;
    bool legal = true;
    for (size_t i = 0; i < groups.size() && legal; ++i)
      if (i >= vary || !(left_out >> i & 1)) legal = join(next, "f", groups[i]) || i >= vary;
    if (!legal) continue;
    canonicalize(next);
    prefuse(next);
    result.push_back(std::move(next));
  }
  return result;
}

int count_links(const Form& form) {
  constexpr size_t most = 64;  // statements: pairs are many, and nothing depends on the count
  if (form.program.ops.size() > most) return 0;
  std::vector<ir::Unit> units = ir::units(form.program);
  int links = 0;
  for (size_t i = 0; i < units.size(); ++i)
    for (size_t j = i + 1; j < units.size(); ++j)
      if (is_big_unit(units[i]) && is_big_unit(units[j]) && feeds(units[i], units[j]))
        links += !check_overlap(form, fresh_name(form, "o"), {unit_name(units[i]), unit_name(units[j])});
  return links;
}

ir::Program prefuse(const ir::Program& program) {
  Form form = form_of(program);
  canonicalize(form);
  prefuse(form);
  return form.program;
}

}  // namespace weft::schedule
