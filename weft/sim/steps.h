// Where a lane's steps come from. Internal to the room.
//
// Walking costs 20 ns a step and 600 bytes a lane, which is most of what a message costs. But ranks that do the same,
// shifted, have the same steps by relative peers, and a `for` repeats one step n times with nothing different that costs
// time, as long as parts are equal. So one rank of each class is walked once, and what comes out, run-length encoded, is
// the program of all of its class: five entries for a ring of any size. Plans with awaits between lanes, parts of
// different sizes, or without symmetry are walked as they go (Walker).
#pragma once

#include <memory>
#include <optional>

#include "weft/sim/cells.h"
#include "weft/sim/sim.h"

namespace weft::sim {

struct StepInfo {
  const Share* share = nullptr;  // sizes of its cells; null: see `elements`
  int64_t elements = 0;          // where they do not depend on chunk and slice
  int64_t parts = 1;
  double element_ps = 0;
  uint32_t repeat = 1, block = 0;
  const uint16_t* links = nullptr;  // numbers of the lane's links: receives, then sends
  uint16_t receives = 0, sends = 0, source_step = 0;
  uint8_t slices = 1;
  bool last = false;   // of its block
  bool point = false;  // without cells: only to wait for
  bool awaits = false;
};

struct Connection {  // an end of a link, as one rank sees it
  bool sends = false;
  uint16_t family = 0;
  int32_t peer = 0;
  bool operator==(const Connection& o) const { return sends == o.sends && family == o.family && peer == o.peer; }
};

struct Program {
  struct BlockInfo {
    uint32_t first = 0;  // of its steps
    int64_t iterations = 1;
  };
  std::vector<BlockInfo> blocks;
  std::vector<StepInfo> steps;
  std::vector<Connection> connections;
  std::vector<std::unique_ptr<uint16_t[]>> link_lists;
};

// A lane that walks.
struct Walker {
  explicit Walker(plan::Walk w) : walk(std::move(w)) {}
  plan::Walk walk;
  bool in_block = false;
  int64_t iterations = 1;
  StepInfo info;
  plan::FlatOperand main;  // where its cells have no Share
  std::vector<uint32_t> links;
  std::vector<uint16_t> numbers;
  std::vector<Connection> connections;
  struct Recent {
    Connection connection;
    uint32_t link = 0xFFFFFFFF;
  } recent[4];                           // links used last, found without the table
  std::unique_ptr<plan::FlatStep> flat;  // of plans with awaits
};

class Steps {
 public:
  Steps(const plan::Instance& instance, Cells& cells, const Network& network, const Options& options);
  bool programs() const { return programs_; }
  bool awaited(int lane) const { return awaited_[static_cast<size_t>(lane)]; }
  bool any_awaited() const;
  // Does the text send to a range of peers? Each rank then serves its peers in the order of their numbers, which shifted
  // ranks do not have in common, though they send the same.
  static bool sends_to_ranges(const plan::Plan& plan);
  const Program& program(int64_t rank, int lane, int channel) const {
    return all_[static_cast<size_t>(((rank % period_) * lanes_ + lane) * channels_ + channel)];
  }
  Connection connection(int64_t rank, int lane, int channel, uint16_t number) const {
    Connection c = program(rank, lane, channel).connections[number];
    c.peer = static_cast<int32_t>((c.peer + rank - rank % period_) % ranks_);
    return c;
  }
  int64_t wire_bytes(int family) const { return wire_bytes_[static_cast<size_t>(family)]; }
  bool work() const { return work_; }
  // What the engine needs of a step: `info` without its links, and its connections.
  void decode(int channel, int lane, const plan::Block& block, const plan::FlatStep& flat, StepInfo& info,
              std::vector<Connection>& connections);
  // Cells without a Share: parts of different sizes.
  int64_t elements(const plan::FlatOperand& main, const plan::Block& block, int channel, int64_t chunk, int slice);
  int main_operand(int lane, const plan::Block& block, const plan::FlatStep& flat);

 private:
  struct Text {
    size_t operands = 0;  // with all of them present
    int main = -2;        // main operand then; -2: not looked up yet
    double flops = 0;     // per element
  };
  void read_text();
  void make_programs();
  Program make_program(int rank, int lane, int channel);
  void append(Program& program, StepInfo info, const std::vector<Connection>& connections);
  double element_ps(int space, const plan::FlatStep& flat, const Text& text) const;

  const plan::Instance& instance_;
  Cells& cells_;
  const Network& network_;
  int64_t ranks_, period_ = 1;
  int lanes_, channels_;
  bool programs_ = false, work_ = false;
  std::vector<bool> awaited_;  // by lane of the text
  std::vector<std::vector<Text>> text_;
  std::vector<int64_t> wire_bytes_;  // per family, of one element
  std::vector<Program> all_;         // (class, lane, channel)
};

}  // namespace weft::sim
