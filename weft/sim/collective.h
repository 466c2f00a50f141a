// A collective on a machine that need not be here: what NCCL would choose and how long that takes, what Weft's own plans
// take, and what no implementation can go below.
//
// NCCL is predicted by its tuner and the calibrated form (nccl.h); Weft's plans are simulated step by step (sim.h): the
// cost rows of algo/ say which few are worth it. The bound knows no algorithm, only bytes that have to cross.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/algo/algorithm.h"
#include "weft/base/dtype.h"
#include "weft/sim/machines.h"

namespace weft::sim {

struct Question {
  NcclCollective collective = NcclCollective::all_reduce;
  int ranks = 8;
  int64_t bytes = 0;  // nccl-tests' size
  Dtype dtype = Dtype::f32;
  int gpus_per_process = 1;
};

// The nodes that so many ranks fill, node by node. Error(user) where the cluster has too few, or ranks are none.
int nodes_of(const topo::Cluster& cluster, int ranks);
// nccl-tests' rounding: of operations with a part for each rank, whole elements of each; and bus over algorithm bandwidth.
int64_t rounded_bytes(NcclCollective collective, int ranks, int64_t bytes, Dtype dtype);
double bus_factor(NcclCollective collective, int ranks);

// Least time of any implementation, us, and what sets it: "launch", "latency", "nvlink", "pcie", "network" or "memory".
struct Limit {
  double us = 0;
  std::string by;
};
Limit lower_bound(const topo::Cluster& cluster, const Question& question);

struct NcclAnswer {
  std::optional<NcclChoice> choice;  // none: operations that NCCL does not tune (all_to_all, send_recv)
  NcclLaunch launch;
  double us = 0;
  std::string bound;  // the largest part of its time: "launch", "latency", or the link as above
};
struct NcclWishes {
  std::string algo, proto;  // NCCL_ALGO, NCCL_PROTO
  NcclLimits limits;
};
// Error(user) where the wishes leave nothing.
NcclAnswer nccl_answer(const topo::Cluster& cluster, const Question& question, const NcclWishes& wishes = {});

// One of Weft's plans.
struct PlanChoice {
  const algo::Algorithm* algorithm = nullptr;
  NcclProtocol protocol = NcclProtocol::simple;
  int channels = 1;
  int64_t chunk_bytes = 0;  // of a part, in one channel
  int slots = 8;
};
struct PlanAnswer {
  PlanChoice choice;
  double us = 0;
  std::string bound;  // "launch", "latency", "slots", "channel", "port", "memory"
  Prediction prediction;
};
struct PlanWishes {
  bool keep_order = false;                     // only sums in the order of ranks
  std::optional<NcclProtocol> protocol;        // none: those that can be right for the size
  int channels = 0;                            // 0: likewise
  const algo::Algorithm* algorithm = nullptr;  // null: the first few by cost rows
};
// What could be taken, most promising first by cost rows.
std::vector<PlanChoice> plan_choices(const topo::Cluster& cluster, const Question& question, const PlanWishes& wishes);
// With chunks that suit the size, for an algorithm and channels that somebody asks for.
PlanChoice plan_choice(const topo::Cluster& cluster, const Question& question, const algo::Algorithm& algorithm,
                       NcclProtocol protocol, int channels);
// The choice as a plan, with what it is launched with. Error(unsupported) where there is no such plan.
struct ChosenPlan {
  plan::Plan plan;
  std::vector<plan::SpaceExtent> spaces;
  std::vector<int64_t> chunk_elements;
};
ChosenPlan chosen_plan(const Question& question, const PlanChoice& choice);
// Error(timeout) where it would be more than some millions of messages, Error(unsupported) where there is no such plan.
PlanAnswer simulate_choice(const topo::Cluster& cluster, const Question& question, const PlanChoice& choice,
                           const Options& options = {});
// The fastest of all choices; nothing: no algorithm has such a plan, or all are too large to simulate.
std::optional<PlanAnswer> weft_answer(const topo::Cluster& cluster, const Question& question,
                                      const PlanWishes& wishes = {});

// What most of a simulated run's time is: asks again with more slots where that could matter.
std::string bound_of(const Prediction& prediction, double launch_ns, double end_with_more_slots_ns);
// As algo/ calls it.
algo::Collective collective_of(NcclCollective collective);

}  // namespace weft::sim
