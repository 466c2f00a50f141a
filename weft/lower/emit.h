// Passes 5 to 7: statements become steps of lane `main`. Internal to the room.
#pragma once

#include "weft/lower/kernels.h"

namespace weft::lower {

// The statements of one unit and phase that run in one loop.
struct Group {
  const ir::Op* head = nullptr;  // reduce_scatter, reduce or a whole all_reduce
  std::vector<const ir::Op*> maps, gathers, folds, moves;
  int unit = 0, space = 0;
  Site site;
  ir::Name value;  // one of it: its group, and where it is present
};

class Emitter {
 public:
  explicit Emitter(Work& work) : work_(work) {}
  void run();

 private:
  // ---- emit.cpp
  void unit(int unit);
  Group group(int unit, int phase, int space) const;
  void copies();

  // ---- emit_loop.cpp
  struct Fold {
    const ir::Op* op;
    plan::Id buffer, label;
    int64_t partial = 0, local = -1;
  };  // first parts
  struct Target {
    plan::Operand operand;
    ir::Name value;
  };
  struct Main {  // the step where collectives and computations meet
    plan::Step step;
    std::optional<algo::Half> scatter;
    std::vector<algo::Half> gathers;
    std::vector<Target> targets;
    std::vector<ir::Name> sources;     // beside the reduced value
    std::vector<plan::Id> homes;       // that peers write
    std::vector<const ir::Op*> folds;  // of values that it has at hand
  };
  void loop(const Group& group);
  void compute_loop(const Group& group, const plan::Body& moves);
  Main main_step(const Group& group);
  void add_scatter(Main& main, const Group& group, const plan::Id& handshake);
  void await_contribution(algo::Half& half, const Value& contribution, bool mapped);
  void add_gathers(Main& main, const Group& group, const plan::Id& handshake);
  void add_gather(Main& main, const Group& group, const ir::Op& gather, const ir::Name& value,
                  const plan::Id& handshake);
  void add_sources(Main& main, const Group& group);
  void add_folds(Main& main, const Group& group);
  void add_kernel(Main& main, const Group& group);
  plan::Id earlier_handshake(const Group& group) const;
  plan::Body fold_steps(const Group& group, const std::vector<const ir::Op*>& but);
  plan::Body move_steps(const Group& group);
  std::vector<plan::Id> spaces_of_moves(const Group& group) const;
  plan::Body exchange_steps(const ir::Op& op);
  plan::Body send_steps(const ir::Op& op, plan::Operand source, const std::vector<plan::Operand>& homes);
  Fold& fold_of(const ir::Op& op);
  static plan::Operand partial_of(const Fold& fold);
  void emit_loop(const Group& group, Main main, plan::Body folds);
  void note_made(const Group& group, const Main& main, const algo::Joined& joined);
  plan::Id family_name(const std::string& base, plan::Protocol protocol, int slots, const std::string& dtype);

  // ---- emit_small.cpp
  struct Bundle {
    plan::Id buffer;
    std::vector<const ir::Op*> reduces;
    int64_t local = 0, total = 0;
  };
  void prepare_folds(const Group& group);
  void zero(const Fold& fold, const ir::Op& op);
  void smalls(int unit, int phase);
  void join_channels(const Fold& fold);
  void bundle_folds(int unit, int phase);
  void all_reduce(const ir::Op& op);
  void exchange(const plan::Operand& source, const ir::Op& op, std::vector<plan::Operand> targets);
  void finish_bundle(const Bundle& bundle);
  void small_reduce(const ir::Op& op);
  void small_broadcast(const ir::Op& op);
  void small_map(const ir::Op& op);
  void small_fold(const ir::Op& op);
  void small_send(const ir::Op& op);
  void made_here(const ir::Name& value, const plan::Id& label);
  plan::Id norm_family(const ir::Op& op, const plan::Operand& source);
  void matmul(const ir::Op& op);

  // ---- shared (emit.cpp)
  plan::Parts all(int space) const;
  plan::Parts parts(int space, const Site& site) const;
  plan::Operand read(const ir::Name& value, const Site& site, int loop);
  std::vector<plan::Operand> homes(const ir::Name& value, const Site& site);
  plan::Expr at_root(const Site& site) const;
  void add_await(std::vector<plan::Await>& awaits, const ir::Name& value, bool in_loop) const;
  plan::Id label(const std::string& base);
  void at(const ir::Name& value);         // what is added next belongs to its group, and is where the value is
  void at_all_of(const ir::Name& value);  // the same, on all groups of its kind
  plan::Body placed(plan::Body items) const;
  void add(plan::Item item);                             // every channel
  void add_once(plan::Item item);                        // channel 0
  void add_once_at(const Site& site, plan::Body steps);  // the same, where the statement works
  void add_placed(plan::Body items);
  void flush();
  void touch(const plan::Body& body);

  Work& work_;
  GroupMap group_;
  std::string present_;
  plan::Body lane_, once_;
  std::vector<plan::Lane> lanes_;
  std::map<std::string, int> labels_;
  int collectives_ = 0;
  std::map<plan::Id, std::string> carries_;  // family -> dtype: one type on one link
  std::set<plan::Id> touched_;               // buffers that a step of this launch has accessed
  plan::Id handshake_;                       // the last `ready`
  plan::Body pending_done_;                  // `done` of a reducing half, which only the end of the launch needs
  std::vector<Fold> folds_;
  std::vector<Bundle> bundles_;
};

}  // namespace weft::lower
