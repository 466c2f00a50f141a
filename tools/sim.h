// The pieces of `weft sim`: machines by name, a collective's table, a plan or program, what-if, traces.
#pragma once

#include <string>
#include <vector>

#include "tools/bench.h"
#include "tools/verbs.h"
#include "weft/sim/collective.h"

namespace weft::tools {

// A machine that need not be here: a cluster file, or the name of a shipped one; NAME:NODES for another number of nodes.
// Error(user) with the names there are.
topo::Cluster find_cluster(const std::string& text);
std::vector<std::string> cluster_names();

struct SimOptions {
  ProgramOptions program;  // `file`: an operation, or a file
  std::string machine = "dgx_h100", dtype = "float", combine = "sum", schedule = "plain", trace, timeline, plot,
              algorithm, protocol;
  SizeSweep sweep;
  std::vector<std::string> what_if, stragglers;
  std::string by;  // of a job: nccl, weft, measured; "": what the machine has
  int ranks = 0, root = 0, gpus_per_process = 1, launches = 1;  // ranks 0: all GPUs of the machine
  int channels = 0;                                             // of an operation's plan; 0: those that suit
  int64_t most_spans = int64_t{1} << 20;
  bool keep_order = false, no_plans = false, whole = false;
  bool pictures() const { return !trace.empty() || !timeline.empty(); }
};
int ranks_of(const SimOptions& options, const topo::Cluster& cluster);
// NCCL_ALGO and its kind, from the environment. Error(user) names the variable.
sim::NcclWishes nccl_wishes();
// --algorithm, --protocol, --channels, --rank-order. Error(user) with the names there are.
sim::PlanWishes plan_wishes(const SimOptions& options);

void sim_collective(const SimOptions& options, sim::NcclCollective collective);
void sim_what_if(const SimOptions& options, sim::NcclCollective collective);
void sim_plan(const SimOptions& options);
void sim_job(const SimOptions& options);

// A plan and its launch on a machine: shared by `sim FILE` and `tune --machine`.
struct SimSubject {
  std::string name;
  plan::Plan plan;
  plan::LaunchArgs args;
  std::vector<int64_t> chunk_elements;
  int ranks = 0;
};
struct SimResult {
  sim::Prediction prediction;
  double time_ns = 0, launch_ns = 0, roofline_ns = 0;  // time: of one launch, launching included
  std::string bound;                                   // filled where asked for
};
SimResult simulate_subject(const topo::Cluster& cluster, const SimSubject& subject, const sim::Options& options,
                           bool with_bound);

// --trace and --timeline: what was recorded, as files, and its critical path in words. Error(user) where asked of more
// than one run.
sim::Options recording(const SimOptions& options, int ranks, sim::Trace& trace);
struct PictureSubject {
  std::string title;
  int ranks = 0, simulated = 0;
  double launch_ns = 0;
};
void write_pictures(const SimOptions& options, const topo::Cluster& cluster, const plan::Instance& instance,
                    const sim::Trace& trace, const PictureSubject& subject);

// `weft tune PROGRAM --machine`: schedules ranked by simulation.
struct ClusterTune {
  ProgramOptions program;
  std::string machine;
  bool ranks_given = false, any_order = false, keep_state = false;
  int limit = 12;
};
void tune_on_cluster(const ClusterTune& options);

}  // namespace weft::tools
