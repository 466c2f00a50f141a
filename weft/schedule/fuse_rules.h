// K2 to K7 over indices: may these statements be one kernel?
//
// The space tries thousands of groups, most of which are refused, so a question costs no text: statements are numbers,
// where they work is a number, what reaches what is a row of bits (closed once over the graph whose blocks are single
// nodes), and a breach is formatted only when somebody wants to read it.
#pragma once

#include "weft/schedule/form.h"

namespace weft::schedule {

class FuseRules {
 public:
  explicit FuseRules(const Form& form);

  struct Breach {
    int rule = 0;
    size_t op = 0, other = 0, third = 0;
  };                                                       // rule 0: none
  Breach check(const std::vector<size_t>& members) const;  // in program order

  using Bits = std::vector<uint64_t>;
  // A group that grows: what its members feed and need is kept, so that to ask for one more costs a row of bits and not
  // a row for each member.
  struct Group {
    std::vector<size_t> members;  // in program order
    std::vector<bool> inside;     // by statement
    Bits after, before;           // by unit
  };
  Group group(std::vector<size_t> members) const;
  Group with(const Group& group, size_t op) const;
  Breach check(const Group& group) const;
  Refusal refusal(const Breach& breach) const;

  bool computation(size_t op) const { return nodes_[op].fold_or_map; }
  bool small(size_t op) const { return nodes_[op].small; }
  bool in_block(size_t op) const { return nodes_[op].block >= 0; }
  bool needs(size_t op, size_t other) const { return has(before_[nodes_[op].unit], nodes_[other].unit); }
  bool starts(size_t op) const { return nodes_[op].head; }  // a reduce_scatter or reduce
  // `op` and what it needs that itself needs one of `members`: the hole that K2 found, filled.
  std::vector<size_t> closed(const std::vector<size_t>& members, size_t op) const;

 private:
  // Where a member works. Small values ride along with anything.
  struct Site {
    enum class Kind : uint8_t { any, whole, sliced, root } kind = Kind::any;
    int from_right = 0;
    std::string root;
    ir::Shape loop;
    bool operator==(const Site&) const = default;
  };
  struct Node {
    const ir::Op* op = nullptr;
    std::vector<size_t> args;  // statements only
    int block = -1;            // outermost
    bool small = false, fold_or_map = false, heavy = false, head = false, tail = false, whole_reduce = false;
    Site site;
    int place = -1;  // equal for equal sites; -1: anywhere
    int group = 0;   // of ranks
    size_t unit = 0;
  };
  struct Writer {  // a state that is updated: by which statement, and who reads the old one
    size_t op;
    std::vector<size_t> readers;
  };
  Node node(const ir::Op& op) const;
  Site site(const ir::Op& op, bool small) const;
  Site computation_site(const ir::Op& op, bool small) const;
  void number_places();
  void find_writers();
  void close_reach();
  Bits reach(const std::vector<size_t>& from, bool forwards) const;
  static bool has(const Bits& bits, size_t i) { return bits[i / 64] >> (i % 64) & 1; }
  Breach check_convex(const Group& group) const;
  Breach check_states(const std::vector<size_t>& members, const std::vector<bool>& inside) const;
  Breach check_sites(const std::vector<size_t>& members) const;
  Breach check_collectives(const std::vector<size_t>& members) const;
  std::string place(const Site& site) const;

  const Form& form_;
  std::vector<Node> nodes_;
  std::vector<Writer> writers_;
  std::vector<Bits> after_, before_;  // by unit: units that it feeds, that it needs
};

}  // namespace weft::schedule
