// All layouts of a program: what is split, what is computed in parts, what is stored in parts.
//
// Problem: a search over rewrites meets every layout many times, by every order of the same choices. Ways: breadth-first
// closure over texts (the oracle in the tests: slow); choices as coordinates. A rewritten text depends on *what* was
// chosen only, so a layout is a vector with one coordinate per statement (0 whole, 1 + d cut along d) and one per state
// (0 whole, 1 stored in parts): no duplicates by construction, and a neighbour of a layout is a look-up.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "weft/schedule/form.h"

namespace weft::schedule {

struct LayoutNode {
  Form form;
  std::string key;               // one byte per statement, then per state
  std::vector<Directive> steps;  // in canonical order, one target each
};

class Layouts {
 public:
  static constexpr size_t no_node = static_cast<size_t>(-1);
  // Node 0 is the program as it is. Stops at `cap` layouts, those with most divided first.
  Layouts(const Form& naive, const EnumerateOptions& options, size_t cap);

  const std::vector<LayoutNode>& nodes() const { return nodes_; }
  size_t find(const std::string& key) const;  // no_node: not a layout of this program
  bool truncated() const { return truncated_; }
  const std::vector<ir::Op>& statements() const { return naive_.program.ops; }  // coordinate i is statement i
  size_t statement(const ir::Name& name) const;
  const std::vector<ir::Name>& states() const { return states_; }  // coordinate statements() + i
  size_t largest_choice() const { return dims_.size() ? static_cast<size_t>(dims_.back()) + 1 : 0; }
  // The layout after `reorder y`, or no_node where that is refused.
  size_t reordered(size_t node, size_t statement) const;

 private:
  void choose_statement(const LayoutNode& node, size_t statement);
  void choose_split(const LayoutNode& node, size_t statement);
  void choose_cut(const LayoutNode& node, size_t statement);
  void choose_state(const LayoutNode& node, size_t state);
  void add(const LayoutNode& node);

  Form naive_;
  std::vector<int> dims_;
  std::vector<ir::Name> states_;
  std::vector<LayoutNode> nodes_;
  std::unordered_map<std::string, size_t> index_;  // key -> node
  std::unordered_map<std::string, size_t> statement_of_;
  size_t cap_;
  bool truncated_ = false;
};

}  // namespace weft::schedule
