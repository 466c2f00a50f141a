// The event machine: cursors, links, awaits. What plan.md calls "what a step does", without values.
//
// Verifier and interpreter need the same order of events and differ only in what a cell holds: a term or a number.
// Ways: two loops (they would drift apart, and the oracle would no longer be what is verified), a template over the
// value (everything in headers), or one machine that knows no values and tells a Domain what happens. We take the last;
// a call per step is cheap beside what a domain does in it. Messages' contents and clocks are the domain's; the machine
// counts messages, completions and iterations, and decides who may go.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weft/plan/at.h"
#include "weft/plan/walk.h"

namespace weft::plan {

// ---- a plan for n ranks, laid out: every lane's blocks and steps, links and awaits resolved to indices.
struct Awaited {
  int lane = 0, block = 0, step = 0, lag = 0;
};  // a labelled step instance

struct AssembledStep {
  FlatStep flat;                     // no operands at all where all sources or all targets are absent
  std::vector<int> receives, sends;  // links, in the order of operands and their peers
  std::vector<Awaited> after;
};
struct AssembledBlock {
  Block head;
  std::vector<AssembledStep> steps;
};
struct AssembledLane {
  int rank = 0, lane = 0, channel = 0;
  std::vector<AssembledBlock> blocks;
};
struct Link {
  int family = 0, channel = 0, from = 0, to = 0;
};  // ranks

struct Assembly {
  const Instance* instance = nullptr;
  std::vector<AssembledLane> lanes;  // those that have steps
  std::vector<Link> links;
  std::vector<int> at;  // (rank, lane, channel) -> index in lanes, -1: no steps there
  int find(int rank, int lane, int channel) const;
  // "rank 2 lane main channel 1 step red(3)"
  std::string describe(int lane, int block, int step) const;
  std::string describe_step(int lane, int block,
                            int step) const;  // "red(3)", or "4", its number in the lane's text, where it has no label
};
Assembly assemble(const Instance& instance);

// ---- running it
// What let a step go: the index-th completion of a step over all launches (step >= 0), or the index-th time that the
// lane left the block (step < 0). Always the earliest such event, so that clocks do not depend on the schedule.
struct Cause {
  int lane = 0, block = 0, step = 0;
  int64_t index = 0;
};

struct Event {
  int lane = 0, block = 0, step = 0;  // of the assembly
  int launch = 0, slice = 0;
  int64_t chunk = 0;        // iteration in this launch
  int64_t turn = 0;         // iteration over all launches: what `depth` counts
  bool empty = false;       // its cells have no elements: links are left alone
  bool last_slice = false;  // with it the instance is complete
  const AssembledStep* what = nullptr;
  std::span<const Cause> causes;
};

class Domain {
 public:
  virtual ~Domain() = default;
  virtual void begin_launch(int rank, int launch) = 0;              // the user has written the inputs
  virtual void end_launch(int rank, int launch) = 0;                // all lanes of the rank are done
  virtual int64_t iterations(int lane, int block, int launch) = 0;  // of a loop, asked when the lane reaches it
  virtual bool empty(const Event& event) = 0;
  virtual void perform(const Event& event) = 0;
  virtual void left(int lane, int block, int launch) = 0;  // the lane is past the block
};

struct Wait {  // why a lane does not go on
  enum class For : uint8_t { step, message, slot } what = For::step;
  int lane = 0, block = 0, step = 0;  // who waits
  int64_t chunk = 0;
  int link = -1;    // message, slot
  Awaited awaited;  // step
  int on = -1;      // the lane it waits for; -1: nobody is at that end
};

struct MachineOptions {
  int launches = 1;
  bool shuffle = false;  // false: round robin, each lane as far as it gets
  uint64_t seed = 0;
  double delay = 0;  // shuffle: share of turns after which a lane sleeps for some turns
  // Set: all ranks end a launch before any begins the next, and this is called in between with the one that ended.
  std::function<void(int launch)> between;
};

class Machine {
 public:
  Machine(const Assembly& assembly, Domain& domain, const MachineOptions& options);
  bool run();  // false: no lane can go on, see waits()
  int64_t steps() const { return steps_; }
  std::vector<Wait> waits() const;
  std::string print(const Wait& wait) const;
  // The lanes that wait for each other in a circle, or the first few waits if there is none.
  std::string deadlock() const;
  int64_t unread(int link) const {
    return links_[static_cast<size_t>(link)].sent - links_[static_cast<size_t>(link)].received;
  }

 private:
  struct BlockState {
    std::vector<int64_t> base;         // iterations before each launch begun so far
    std::vector<int64_t> done;         // per step: completed instances, over all launches
    int64_t iterations = 0, left = 0;  // of the present launch; times left
  };
  struct LaneState {
    int launch = -1;
    size_t block = 0, step = 0;
    int slice = 0;
    int64_t chunk = 0;
    int sleep = 0;  // turns
    bool busy = false;
    std::vector<BlockState> blocks;
  };
  struct LinkState {
    int64_t sent = 0, received = 0;
    int slots = 0, sender = -1, receiver = -1;
  };

  bool advance(int lane);
  void move_on(int lane, Event& event);
  void enter(int lane);
  void begin(int rank);
  void settle(int rank);
  void settle_all();
  bool round(std::vector<int>& order, uint64_t& random, bool may_sleep);
  bool holds(int lane, const Awaited& awaited, Cause& cause) const;
  bool holds_lagging(int lane, const Awaited& awaited, Cause& cause) const;
  const Awaited* first_unmet(int lane) const;
  int blocked_link(const AssembledStep& step, bool& is_slot) const;

  const Assembly* assembly_;
  Domain* domain_;
  MachineOptions options_;
  std::vector<LaneState> lanes_;
  std::vector<LinkState> links_;
  std::vector<int> open_;    // per rank: lanes that still run in its launch
  std::vector<int> launch_;  // per rank
  std::vector<Cause> causes_;
  int64_t steps_ = 0;
};

}  // namespace weft::plan
