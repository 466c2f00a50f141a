// K2 to K7 over indices; see fuse_rules.h and fuse.cpp.
#include "weft/schedule/fuse_rules.h"

#include <algorithm>
#include <unordered_map>

#include "weft/base/error.h"

namespace weft::schedule {
namespace {

bool one(const ir::Size& size) { return size.name.empty() && size.value == 1; }

// Loops over one space: equal sizes, aligned from the right, extent 1 and "#P" beside P being broadcast.
bool same_loop(const ir::Shape& a, const ir::Shape& b) {
  for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const ir::Size &x = a[a.size() - i], &y = b[b.size() - i];
    bool coarse = x.name == y.name && x.per_tensor != y.per_tensor;
    if (!(x == y) && !one(x) && !one(y) && !coarse) return false;
  }
  return true;
}

}  // namespace

FuseRules::FuseRules(const Form& form) : form_(form) {
  const ir::Program& program = form.program;
  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    nodes_.push_back(node(program.ops[i]));
    for (const ir::Name& arg : program.ops[i].args)
      if (auto found = index.find(arg); found != index.end()) nodes_[i].args.push_back(found->second);
    index[program.ops[i].name] = i;
  }
  for (size_t b = 0; b < program.blocks.size(); ++b) {  // fuse blocks first, overlaps take theirs over
    for (const ir::Name& member : program.blocks[b].members) {
      if (auto found = index.find(member); found != index.end()) nodes_[found->second].block = static_cast<int>(b);
      for (size_t inner = 0; inner < b; ++inner)
        if (program.blocks[inner].name == member)
          for (Node& n : nodes_)
            if (n.block == static_cast<int>(inner)) n.block = static_cast<int>(b);
    }
  }
  number_places();
  find_writers();
  close_reach();
}

FuseRules::Node FuseRules::node(const ir::Op& op) const {
  Node n;
  n.op = &op;
  n.small = ir::is_small(form_.types.at(op.name));
  n.fold_or_map = op.def->op_class == ir::OpClass::map || op.def->op_class == ir::OpClass::fold;
  n.head = is_scatter(op);
  n.tail = is_gather(op) || is_op(op, "send");
  n.whole_reduce = is_op(op, "all_reduce") && !n.small;
  n.heavy = !n.fold_or_map && !n.head && !n.tail && !is_op(op, "all_reduce");
  n.site = site(op, n.small);
  return n;
}

FuseRules::Site FuseRules::site(const ir::Op& op, bool small) const {
  if (is_computation(op)) return computation_site(op, small);
  if (small && is_op(op, "all_reduce")) return {};
  const ir::Type& type = form_.types.at(is_scatter(op) ? op.name : op.args[0]);
  Site s{Site::Kind::whole, 0, "", type.shape};
  if (const auto* root = std::get_if<ir::Root>(&type.layout)) s.kind = Site::Kind::root, s.root = root->rank;
  if (const auto* sliced = std::get_if<ir::Sliced>(&type.layout)) {
    s.kind = Site::Kind::sliced;
    s.from_right = static_cast<int>(type.shape.size()) - sliced->dim;
  }
  return s;
}

FuseRules::Site FuseRules::computation_site(const ir::Op& op, bool small) const {
  Cut cut = cut_of(form_, op);
  Site s{Site::Kind::whole, 0, cut.root, iteration_shape(form_, op)};
  if (cut.kind == Cut::Kind::root) s.kind = Site::Kind::root;
  if (cut.kind == Cut::Kind::factor) {
    s.kind = Site::Kind::sliced;
    s.from_right = static_cast<int>(s.loop.size()) - cut.factor;
  }
  bool loops = op.def->op_class == ir::OpClass::fold &&
               std::any_of(op.args.begin(), op.args.end(),
                           [this](const ir::Name& arg) { return !ir::is_small(form_.types.at(arg)); });
  if (cut.kind == Cut::Kind::whole && small && !loops) return {};
  return s;
}

void FuseRules::number_places() {
  std::map<std::string, int> places, groups;
  for (Node& n : nodes_) {
    n.group = groups.emplace(form_.types.at(n.op->name).group, static_cast<int>(groups.size())).first->second;
    if (n.site.kind == Site::Kind::any) continue;
    const std::string text = fmt::format("{} {} {} {}", static_cast<int>(n.site.kind), n.site.from_right, n.site.root,
                                         ir::print(n.site.loop));
    n.place = places.emplace(text, static_cast<int>(places.size())).first->second;
  }
}

void FuseRules::find_writers() {
  std::unordered_map<std::string_view, std::vector<size_t>> readers;
  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    index[nodes_[i].op->name] = i;
    for (const ir::Name& arg : nodes_[i].op->args) readers[arg].push_back(i);
  }
  for (const ir::Update& update : form_.program.updates)
    if (auto writer = index.find(update.value); writer != index.end())
      writers_.push_back({writer->second, readers[update.state]});
}

// What each unit feeds and needs, to a fixed point: one pass where statements stand in order, a few where blocks do not.
void FuseRules::close_reach() {
  std::vector<size_t> of_block(form_.program.blocks.size(), nodes_.size());
  size_t units = 0;
  for (Node& n : nodes_) {
    n.unit = units;
    if (n.block >= 0) {
      size_t& unit = of_block[static_cast<size_t>(n.block)];
      if (unit == nodes_.size()) unit = units;
      n.unit = unit;
    }
    units += n.unit == units;
  }
  const size_t words = units / 64 + 1;
  after_.assign(units, Bits(words, 0));
  before_.assign(units, Bits(words, 0));
  const auto join = [words](Bits& into, const Bits& from, size_t unit) {
    bool changed = false;
    for (size_t w = 0; w < words; ++w) {
      const uint64_t more = into[w] | from[w] | (w == unit / 64 ? uint64_t{1} << (unit % 64) : 0);
      changed |= more != into[w];
      into[w] = more;
    }
    return changed;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t k = 0; k < nodes_.size(); ++k) {
      const Node &n = nodes_[k], &back = nodes_[nodes_.size() - 1 - k];
      for (size_t arg : n.args)
        if (nodes_[arg].unit != n.unit) changed |= join(before_[n.unit], before_[nodes_[arg].unit], nodes_[arg].unit);
      for (size_t arg : back.args)
        if (nodes_[arg].unit != back.unit) changed |= join(after_[nodes_[arg].unit], after_[back.unit], back.unit);
    }
  }
}

// The units that `from` feeds (forwards) or needs.
FuseRules::Bits FuseRules::reach(const std::vector<size_t>& from, bool forwards) const {
  Bits reached(after_.empty() ? 1 : after_[0].size(), 0);
  for (size_t i : from) {
    const Bits& row = (forwards ? after_ : before_)[nodes_[i].unit];
    for (size_t w = 0; w < reached.size(); ++w) reached[w] |= row[w];
  }
  return reached;
}

FuseRules::Group FuseRules::group(std::vector<size_t> members) const {
  Group made{std::move(members), std::vector<bool>(nodes_.size(), false), {}, {}};
  for (size_t m : made.members) made.inside[m] = true;
  made.after = reach(made.members, true);
  made.before = reach(made.members, false);
  return made;
}

FuseRules::Group FuseRules::with(const Group& group, size_t op) const {
  Group made = group;
  made.members.insert(std::upper_bound(made.members.begin(), made.members.end(), op), op);
  made.inside[op] = true;
  const Bits &after = after_[nodes_[op].unit], &before = before_[nodes_[op].unit];
  for (size_t w = 0; w < after.size(); ++w) made.after[w] |= after[w], made.before[w] |= before[w];
  return made;
}

FuseRules::Breach FuseRules::check_convex(const Group& group) const {
  const auto& [members, inside, after, before] = group;
  bool any = false;
  for (size_t w = 0; w < after.size(); ++w) any |= (after[w] & before[w]) != 0;
  if (!any) return {};
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (inside[i] || !has(after, nodes_[i].unit) || !has(before, nodes_[i].unit)) continue;
    Breach breach{2, i, i, i};
    for (size_t m : members) {
      if (breach.other == i && has(before_[nodes_[i].unit], nodes_[m].unit)) breach.other = m;
      if (breach.third == i && has(after_[nodes_[i].unit], nodes_[m].unit)) breach.third = m;
    }
    return breach;
  }
  return {};
}

// K7: the group writes a state part by part while a member needs the old one whole.
FuseRules::Breach FuseRules::check_states(const std::vector<size_t>& members, const std::vector<bool>& inside) const {
  auto parts = [this](size_t m) {
    return nodes_[m].site.kind == Site::Kind::sliced || nodes_[m].site.kind == Site::Kind::root;
  };
  for (const Writer& writer : writers_) {
    if (!inside[writer.op] || !parts(writer.op)) continue;
    for (size_t m : members)
      if (nodes_[m].site.kind == Site::Kind::whole &&
          std::find(writer.readers.begin(), writer.readers.end(), m) != writer.readers.end())
        return {7, m, writer.op, m};
  }
  return {};
}

FuseRules::Breach FuseRules::check_sites(const std::vector<size_t>& members) const {
  const size_t none = nodes_.size();
  size_t first = none;
  for (size_t m : members) {
    const Site& s = nodes_[m].site;
    if (s.kind == Site::Kind::any) continue;
    if (first == none) first = m;
    const Site& f = nodes_[first].site;
    if (nodes_[m].place == nodes_[first].place) continue;
    if (s.kind != f.kind || s.from_right != f.from_right || s.root != f.root || !same_loop(s.loop, f.loop))
      return {3, m, first, m};
  }
  for (size_t m : members)
    if (nodes_[m].group != nodes_[members[0]].group) return {3, m, members[0], m};
  return {};
}

FuseRules::Breach FuseRules::check_collectives(const std::vector<size_t>& members) const {
  const size_t none = nodes_.size();
  size_t head = none;
  for (size_t m : members) {
    if (nodes_[m].whole_reduce) return {4, m, m, m};
    if (!nodes_[m].head) continue;
    if (head != none) return {4, m, head, m};
    head = m;
  }
  return {};
}

FuseRules::Breach FuseRules::check(const std::vector<size_t>& members) const { return check(group(members)); }

FuseRules::Breach FuseRules::check(const Group& group) const {
  const std::vector<size_t>& members = group.members;
  for (size_t m : members)
    if (nodes_[m].heavy) return {6, m, m, m};
  for (size_t m : members)
    for (size_t arg : nodes_[m].args)
      if (group.inside[arg] && nodes_[arg].tail) return {5, m, arg, m};
  Breach breach = check_collectives(members);
  if (breach.rule == 0) breach = check_states(members, group.inside);
  if (breach.rule == 0) breach = check_sites(members);
  if (breach.rule == 0) breach = check_convex(group);
  return breach;
}

std::vector<size_t> FuseRules::closed(const std::vector<size_t>& members, size_t op) const {
  const Bits after = reach(members, true), &before = before_[nodes_[op].unit];
  std::vector<size_t> result;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const bool between = has(after, nodes_[i].unit) && has(before, nodes_[i].unit);
    if (between || i == op || std::binary_search(members.begin(), members.end(), i)) result.push_back(i);
  }
  return result;
}

std::string FuseRules::place(const Site& site) const {
  std::string shape = ir::print(site.loop);
  if (site.kind == Site::Kind::root) return fmt::format("{} on root({})", shape, site.root);
  if (site.kind == Site::Kind::sliced)
    return fmt::format("{} in slices of dimension {}", shape, static_cast<int>(site.loop.size()) - site.from_right);
  return fmt::format("all of {}", shape);
}

Refusal FuseRules::refusal(const Breach& breach) const {
  const ir::Name &op = nodes_[breach.op].op->name, &other = nodes_[breach.other].op->name,
                 &third = nodes_[breach.third].op->name;
  switch (breach.rule) {
    case 2:
      return {"K2",
              op,
              fmt::format("{} needs {} and feeds {}, but is not in the group: the group would wait for itself", op,
                          other, third),
              fmt::format("add {} to the group, or leave {} out", op, third),
              {op, other, third}};
    case 3:
      if (const std::string& here = form_.types.at(op).group, &there = form_.types.at(other).group; here != there)
        return {"K3",
                op,
                fmt::format("{} lives on {}, {} on {}", other, there, op, here),
                "one kernel runs on one group of ranks",
                {other, op}};
      return {"K3",
              op,
              fmt::format("{} works on {}, {} on {}", other, place(nodes_[breach.other].site), op,
                          place(nodes_[breach.op].site)),
              "split and reorder until all work on one slicing, or fuse them apart",
              {other, op}};
    case 4:
      if (breach.op == breach.other)
        return {"K4",
                op,
                fmt::format("{} is a whole all_reduce", op),
                fmt::format("split {} first: computations run where its slice is final", op),
                {op}};
      return {"K4",
              op,
              fmt::format("two collectives would start the group: {} and {}", other, op),
              "make a group around each",
              {other, op}};
    case 5:
      return {"K5",
              op,
              fmt::format("{} needs all of {}, which the group only finishes at its end", op, other),
              fmt::format("reorder {}, or leave it out", op),
              {op, other}};
    case 6:
      return {"K6",
              op,
              fmt::format("{} is {}, no part of a fused kernel", op, nodes_[breach.op].op->def->name),
              "overlap it",
              {op}};
    default:
      return {"K7",
              op,
              fmt::format("{} reads all of a state while the group updates it in parts with {}", op, other),
              fmt::format("cut {} too, or leave it out", op),
              {op, other}};
  }
}

}  // namespace weft::schedule
