// Groups of ranks in a plan. Internal to the room.
//
// A plan speaks of all ranks; a statement lives on one group. Ways: number expressions by the group everywhere in the
// algorithms; write steps as if the group were the world, and put them in their place when they enter the lane. We take
// the second: algorithms and passes know ranks r of n, and one substitution here makes them the ranks of a group.
#pragma once

#include <map>
#include <string>

#include "weft/ir/program.h"
#include "weft/plan/plan.h"

namespace weft::lower {

inline constexpr const char* between = "p2p";  // families of sends from group to group

class GroupMap {
 public:
  GroupMap() = default;  // world
  // Error(unsupported) where the number of groups is no constant.
  GroupMap(const ir::Program& program, const std::string& name);

  bool is_world() const { return name_.empty(); }
  bool across() const { return across_; }
  int64_t parts() const { return parts_; }  // of the split
  std::string size() const;                 // ranks of the group, in the plan's names
  std::string size_of_launch() const;       // and in the launch's
  std::string rank_of_launch() const;       // this rank's place in it
  std::string groups() const;
  std::string id() const;                        // which group this rank is in
  std::string peer(const std::string& e) const;  // the rank of member e
  std::string shifted(const std::string& peer,
                      int groups) const;                    // the same member so many groups on, none past the ends
  std::string present(const ir::Presence& presence) const;  // a condition; "": everywhere
  // Of what is `there` after a send by so many groups: who gets it from this rank, and who this rank gets it from.
  std::string receiver(int hops, const ir::Presence& there) const;
  std::string sender(int hops, const ir::Presence& there) const;

  plan::Expr place(const plan::Expr& e) const;  // r and n become the group's
  void place(plan::Body& body) const;
  void place(plan::Let& let);  // its name becomes the group's own

 private:
  void place(plan::Peers& peers) const;
  void place(plan::Parts& parts) const;
  void place(plan::Step& step) const;
  std::string stride() const { return across_ ? run("n") : "1"; }
  std::string run(const std::string& n) const { return "(" + n + "/" + std::to_string(parts_) + ")"; }

  std::string name_;
  bool across_ = false;
  int64_t parts_ = 1;
  std::map<std::string, expr::Expr> renamed_;  // lets
};

}  // namespace weft::lower
