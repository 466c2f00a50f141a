// The rules of dominance.
//
//   Z1  merge a split whose slice nobody uses
//   Z2  split an all_reduce all of whose readers are cut: the gather is dead
//   Z3  cut a value all of whose readers are cut
//   Z4  store what can be stored; but a state whose new value somebody gets whole anyway lies there whole
//   Z5  reorder, alone or with all that follow, where bytes on the wire do not grow and no collective is added
//   Z6  never cut a small value
//   Z7  values that meet element by element are cut along one dimension (two_cuts.h): no plan has others
//
// Z2, Z3 and Z5 name the change that is tried; whether it wins is measured on the cost vector, so a layout goes only for
// one that is as good in every coordinate and better in one. Safe wherever less work is not slower.
#include "weft/schedule/dominance.h"

#include <algorithm>

#include "weft/schedule/two_cuts.h"

namespace weft::schedule {
namespace {

constexpr double part = 0.25;  // any share below 1 gives the same order

double wire_share(const Form& form, const ir::Op& op) {
  if (is_op(op, "all_reduce")) return 2;
  return is_op(op, "send") && !is_replicated(form.types.at(op.name)) ? part : 1;
}

}  // namespace

Dominance::Dominance(const Layouts& layouts) : layouts_(layouts) {
  std::map<std::string, size_t> classes;
  auto class_of = [&classes](const ir::Shape& shape) {
    return classes.emplace(ir::print(shape), classes.size()).first->second;
  };
  const Form& naive = layouts.nodes()[0].form;
  for (const ir::Op& op : naive.program.ops)
    values_[op.name] = {class_of(naive.types.at(op.name).shape), class_of(iteration_shape(naive, op))};
  shapes_ = classes.size();
  const bool one_dimension = layouts.largest_choice() <= 1;
  for (const LayoutNode& node : layouts.nodes()) {
    costs_.push_back(cost_of(node.form));
    impossible_.push_back(!one_dimension && impossible_.size() > 0 && has_two_cuts(node.form));
  }
}

void Dominance::charge(const Form& form, const ir::Op& op, Cost& cost) const {
  auto known = values_.find(op.name);  // a program may have slices of its own
  const Value& value = known != values_.end() ? known->second : values_.at(origin(op.name));
  const ir::Type& type = form.types.at(op.name);
  bool small = ir::is_small(type);
  if (is_computation(op)) {
    if (small && op.def->op_class == ir::OpClass::map) return;
    cost[shapes_ + value.loop] += cut_of(form, op).kind == Cut::Kind::whole ? 1 : part;
    return;
  }
  if (!small) cost[value.shape] += static_cast<double>(size_bytes(type.dtype)) * wire_share(form, op);
  cost[2 * shapes_ + (small ? 1 : 0)] += 1;
}

Dominance::Cost Dominance::cost_of(const Form& form) const {
  Cost cost(2 * shapes_ + 2, 0.0);
  for (const ir::Op& op : form.program.ops) charge(form, op, cost);
  return cost;
}

bool Dominance::less(size_t a, size_t b) const {
  if (a == Layouts::no_node || impossible_[a]) return false;
  const Cost &x = costs_[a], &y = costs_[b];
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] > y[i]) return false;
  return x != y;
}

size_t Dominance::changed(size_t node, size_t coordinate, char choice) const {
  std::string key = layouts_.nodes()[node].key;
  if (key[coordinate] == choice) return Layouts::no_node;
  key[coordinate] = choice;
  return layouts_.find(key);
}

bool Dominance::better_choice(size_t node, size_t statement) const {
  for (size_t choice = 1; choice <= layouts_.largest_choice(); ++choice)
    if (less(changed(node, statement, static_cast<char>(choice)), node)) return true;
  return false;
}

// The update of the state would stay gathered if the state were stored: a part of it beside the whole is memory and a
// write for nothing.
bool Dominance::gathered_anyway(size_t node, size_t state) const {
  const Form& form = layouts_.nodes()[node].form;
  const auto update = std::find_if(form.program.updates.begin(), form.program.updates.end(),
                                   [&](const ir::Update& u) { return u.state == layouts_.states()[state]; });
  if (update == form.program.updates.end()) return false;
  if (is_replicated(form.types.at(update->state)))
    return ir::is_out(form.program, update->value) || !ir::uses(form.program, update->value).empty();
  const std::vector<const ir::Op*> readers = ir::uses(form.program, update->value);
  return std::any_of(readers.begin(), readers.end(), [](const ir::Op* reader) { return is_gather(*reader); });
}

size_t Dominance::all_stored(size_t node) const {
  for (size_t i = 0; i < layouts_.states().size(); ++i) {
    size_t stored = changed(node, layouts_.statements().size() + i, gathered_anyway(node, i) ? 0 : 1);
    if (stored != Layouts::no_node) node = stored;
  }
  return node;
}

size_t Dominance::reordered(size_t node, size_t statement) const {
  auto [at, fresh] = reordered_.try_emplace({node, statement}, Layouts::no_node);
  if (fresh) at->second = layouts_.reordered(node, statement);
  return at->second;
}

// Z5 for a set: everything whole that follows this gather, or the first k of it, and what can then be stored.
bool Dominance::better_behind(size_t node, const ir::Op& gather) const {
  const Form& form = layouts_.nodes()[node].form;
  std::map<ir::Name, bool> follows = {{gather.name, true}};
  std::vector<size_t> whole;
  for (const ir::Op& op : form.program.ops) {
    bool reads =
        std::any_of(op.args.begin(), op.args.end(), [&follows](const ir::Name& a) { return follows.count(a) > 0; });
    if (!reads) continue;
    follows[op.name] = true;
    const ir::Type& type = form.types.at(op.name);
    bool moves = (is_computation(op) && op.def->op_class != ir::OpClass::fold) || is_op(op, "send");
    if (moves && is_replicated(type) && !ir::is_small(type)) whole.push_back(layouts_.statement(op.name));
  }
  size_t at = node;
  for (size_t statement : whole) {
    size_t next = reordered(at, statement);
    if (next == Layouts::no_node) continue;
    at = next;
    if (less(all_stored(at), node)) return true;
  }
  return false;
}

std::string_view Dominance::rule_of(size_t node, const ir::Op& op) const {
  const Form& form = layouts_.nodes()[node].form;
  const ir::Type& type = form.types.at(op.name);
  if (is_gather(op) && is_gather(layouts_.statements()[layouts_.statement(op.name)]))
    return "";  // as the user wrote it
  if (is_gather(op) && !check_merge(form, op.name)) return "Z1";
  if (is_op(op, "all_gather") && ir::is_small(type)) return "Z6";
  if (is_derived_name(op.name) || ir::is_small(type)) return "";
  size_t statement = layouts_.statement(op.name);
  if (is_op(op, "all_reduce") && better_choice(node, statement)) return "Z2";
  if (is_computation(op) && is_replicated(type) && better_choice(node, statement)) return "Z3";
  return "";
}

std::string_view Dominance::rule(size_t node) const {
  const LayoutNode& layout = layouts_.nodes()[node];
  for (const ir::Op& op : layout.form.program.ops)
    if (std::string_view rule = rule_of(node, op); !rule.empty()) return rule;
  if (const size_t stored = all_stored(node); stored != node && !impossible_[stored]) return "Z4";
  for (const ir::Op& op : layout.form.program.ops)
    if (is_op(op, "all_gather") && better_behind(node, op)) return "Z5";
  return "";
}

}  // namespace weft::schedule
