// All layouts of a program as sets of choices; see layouts.h.
#include "weft/schedule/layouts.h"

#include <algorithm>

namespace weft::schedule {
namespace {

std::vector<int> all_dimensions(const Form& form, const std::vector<int>& wanted) {
  size_t most = 0;
  for (const ir::Op& op : form.program.ops) most = std::max(most, iteration_shape(form, op).size());
  std::vector<int> dims;
  for (int d = 0; d < static_cast<int>(most); ++d)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), d) != wanted.end()) dims.push_back(d);
  return dims;
}

// The coordinate of a divided statement: where it is cut.
char choice_of(const Form& form, const Divided& divided) {
  constexpr char on_root = 127;
  if (const auto* sliced = std::get_if<ir::Sliced>(&divided.type.layout);
      sliced != nullptr && !is_computation(divided.op))
    return static_cast<char>(1 + sliced->dim);
  Cut cut = cut_of(form, divided.op);
  return cut.kind == Cut::Kind::factor ? static_cast<char>(1 + cut.factor) : on_root;
}

}  // namespace

Layouts::Layouts(const Form& naive, const EnumerateOptions& options, size_t cap)
    : naive_(naive), dims_(all_dimensions(naive, options.dims)), cap_(cap) {
  if (!options.keep_state_shapes)
    for (const ir::TensorDecl& decl : naive.program.tensors)
      if (decl.state && is_replicated(decl.type)) states_.push_back(decl.name);
  for (size_t i = 0; i < statements().size(); ++i) statement_of_.emplace(statements()[i].name, i);
  LayoutNode plain{naive, std::string(naive.program.ops.size() + states_.size(), '\0'), {}};
  add(plain);
  choose_statement(plain, 0);
}

size_t Layouts::find(const std::string& key) const {
  auto found = index_.find(key);
  return found == index_.end() ? no_node : found->second;
}

size_t Layouts::statement(const ir::Name& name) const {
  const auto found = statement_of_.find(name);
  return found == statement_of_.end() ? statements().size() : found->second;
}

void Layouts::add(const LayoutNode& node) {
  if (index_.emplace(node.key, nodes_.size()).second) nodes_.push_back(node);
}

void Layouts::choose_statement(const LayoutNode& node, size_t statement) {
  if (nodes_.size() >= cap_) {
    truncated_ = truncated_ || cap_ > 1;
    return;
  }
  if (statement == statements().size()) {
    choose_state(node, 0);
    return;
  }
  const ir::Op& op = statements()[statement];
  if (is_op(op, "all_reduce"))
    choose_split(node, statement);
  else if ((is_computation(op) || is_op(op, "send")) && is_replicated(naive_.types.at(op.name)))
    choose_cut(node, statement);
  choose_statement(node, statement + 1);
}

void Layouts::choose_split(const LayoutNode& node, size_t statement) {
  const ir::Name& name = statements()[statement].name;
  for (int dim : dims_) {
    if (check_split(node.form, name, ir::Sliced{dim})) continue;
    LayoutNode next = node;
    apply_split(next.form, name, ir::Sliced{dim});
    next.key[statement] = static_cast<char>(1 + dim);
    next.steps.push_back({"split", {name}});
    if (dim != 0) next.steps.back().words.push_back(std::to_string(dim));
    choose_statement(next, statement + 1);
  }
}

// Reorder before cut: where both give one layout, its schedule says reorder.
void Layouts::choose_cut(const LayoutNode& node, size_t statement) {
  const ir::Name& name = statements()[statement].name;
  std::string seen;
  for (size_t i = 0; i <= dims_.size(); ++i) {
    std::optional<int> dim = i == 0 ? std::nullopt : std::optional<int>(dims_[i - 1]);
    Divided divided;
    if (divide(node.form, name, dim, &divided)) continue;
    char choice = choice_of(node.form, divided);
    if (seen.find(choice) != std::string::npos) continue;
    seen.push_back(choice);
    LayoutNode next = node;
    apply_divided(next.form, name, std::move(divided));
    next.key[statement] = choice;
    next.steps.push_back({dim ? "cut" : "reorder", {name}});
    if (dim) next.steps.back().words.push_back(std::to_string(*dim));
    choose_statement(next, statement + 1);
  }
}

void Layouts::choose_state(const LayoutNode& node, size_t state) {
  if (nodes_.size() >= cap_) {
    truncated_ = truncated_ || cap_ > 1;
    return;
  }
  if (state == states_.size()) {
    add(node);
    return;
  }
  if (!check_store(node.form, states_[state])) {
    LayoutNode next = node;
    apply_store(next.form, states_[state]);
    next.key[statements().size() + state] = 1;
    next.steps.push_back({"store", {states_[state]}});
    choose_state(next, state + 1);
  }
  choose_state(node, state + 1);
}

size_t Layouts::reordered(size_t node, size_t statement) const {
  const LayoutNode& from = nodes_[node];
  Divided divided;
  if (divide(from.form, statements()[statement].name, {}, &divided)) return no_node;
  std::string key = from.key;
  key[statement] = choice_of(from.form, divided);
  return find(key);
}

}  // namespace weft::schedule
