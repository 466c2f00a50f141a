// Which layouts need not be tried: a local change leaves every operation the same or less and adds none.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "weft/schedule/layouts.h"

namespace weft::schedule {

class Dominance {
 public:
  explicit Dominance(const Layouts& layouts);
  // The rule by which a layout goes ("Z1" .. "Z6"), or nothing.
  std::string_view rule(size_t node) const;

  // What a layout costs before any algorithm is chosen: per shape the bytes an element sends and the share of the work a
  // rank does, then the number of big and of small collectives. Compared coordinate by coordinate, never added up.
  using Cost = std::vector<double>;
  const Cost& cost(size_t node) const { return costs_[node]; }
  // Z7: no plan can have it, so it is no candidate and drops no other layout.
  bool impossible(size_t node) const { return impossible_[node]; }

 private:
  struct Value {
    size_t shape = 0, loop = 0;
  };
  Cost cost_of(const Form& form) const;
  void charge(const Form& form, const ir::Op& op, Cost& cost) const;
  bool less(size_t a, size_t b) const;
  size_t changed(size_t node, size_t coordinate, char choice) const;
  bool better_choice(size_t node, size_t statement) const;
  bool gathered_anyway(size_t node, size_t state) const;
  size_t all_stored(size_t node) const;
  size_t reordered(size_t node, size_t statement) const;
  std::string_view rule_of(size_t node, const ir::Op& op) const;
  bool better_behind(size_t node, const ir::Op& gather) const;

  const Layouts& layouts_;
  std::map<ir::Name, Value> values_;
  size_t shapes_ = 0;
  std::vector<Cost> costs_;
  std::vector<bool> impossible_;
  mutable std::map<std::pair<size_t, size_t>, size_t> reordered_;
};

}  // namespace weft::schedule
