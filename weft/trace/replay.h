// A job on another machine: its work as it was, its collectives as they would be.
//
// An operation begins when all ranks of its group that are known have started it and their lanes are free, so what a trace
// shows as a long kernel on one rank, which only waited for another, is waiting here too. It takes what NCCL's model, the
// fastest of Weft's plans, or the trace says. What is not modelled: that computation and communication slow each other down
// (what the trace had of it is in its work), and operations of different groups that share a link.
#pragma once

#include <map>

#include "weft/sim/collective.h"
#include "weft/trace/job.h"

namespace weft::trace {

struct Ways {
  enum class By : uint8_t { nccl, weft, measured };
  By by = By::nccl;
  sim::NcclWishes nccl;
  sim::PlanWishes plans;
  std::map<int, double> slowdown;  // rank -> factor on its work
};

struct PlayedOperation {
  size_t line = 0, number = 0;                       // index into Job::lines, and of the operation there
  int64_t started_ns = 0, begin_ns = 0, end_ns = 0;  // begin: all were there
  size_t last = 0;                                   // the line that came last
};
struct PlayedRank {
  int64_t end_ns = 0, work_ns = 0, waited_ns = 0;  // from its beginning: work + waited = end - begin
  std::vector<int64_t> item_end_ns;
};
// Operations that are alike.
struct PlayedKind {
  sim::Question question;
  int nodes = 1;
  int64_t count = 0;  // of groups, not of ranks
  double us = 0;
  std::string how;  // algorithm, protocol, channels
};
struct Replay {
  int64_t end_ns = 0;
  std::vector<PlayedRank> ranks;
  std::vector<PlayedOperation> operations;
  std::vector<PlayedKind> kinds;
};

// Error(user): more ranks than the machine has GPUs, groups that lie unevenly on its nodes. Error(plan): ranks that wait for
// each other for ever, with who waits for what. Error(unsupported): no model for an operation.
Replay replay(const Job& job, const topo::Cluster& cluster, const Ways& ways);

}  // namespace weft::trace
