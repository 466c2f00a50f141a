// Tuning a program on this machine's CPU ranks: enumerate, predict, check, measure, explain.
//
// The parent enumerates and prices; the ranks (processes, or threads) own the memory, load one trial after the other
// over the same block, and answer commands. All trials of a program share that block, so what a tuning run needs is what
// its hungriest schedule needs. Only inputs are rewritten before a timed launch; states go on.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/topo/machine.h"
#include "weft/transport/transport.h"
#include "weft/tune/search.h"

namespace weft::api {

struct TuneRequest {
  ir::Program program;
  ir::Sizes sizes;  // with ranks
  topo::Machine machine;
  std::string transport = "processes";  // what ranks run on (transport/spec.h)
  bool pin = true;
  tune::SearchOptions
      search;  // ranks and sizes are taken from above; where the transport has a layer, nothing is mapped
  tune::RoundOptions rounds;
  std::map<std::string, double> scalars;
  bool check = true;
  int64_t check_elements = 4 << 20;  // of the reference check: the same tensors, scaled to so many elements
  std::optional<double> tolerance;   // of the reference check; else tolerance_of(program)
  std::function<void(const std::string&)> progress;  // one line at a time, replaced by the next
};
struct TuneReport {
  tune::SearchSpace space;  // trials measured and checked, best first
  tune::ModelReport model;
  std::vector<std::string> explanation;
  int64_t memory_bytes = 0;    // of the buffers of all ranks together
  int64_t peak_bytes = 0;      // of this process and the ranks it started, as sampled (footprint.h)
  int64_t check_elements = 0;  // 0: not checked
  double tolerance = 0;        // of the reference check, relative to the value's own scale
};
TuneReport tune_program(const TuneRequest& request);
// Judges, explains and sorts what was measured and checked: wrong trials last, never the best.
void settle(TuneReport& report);
// The trials that are wrong and how far, one a line; empty where all are right.
std::string wrong_trials(const TuneReport& report);
// The same on the ranks of a running program: collective, equal requests on all, the same report on all. Bits are compared
// with the plain schedule's; the reference evaluator is not asked. `request.machine` must be one that all agree on
// (machine_among).
TuneReport tune_among(transport::Transport& transport, const TuneRequest& request);
// Puts the best schedule, if one is right, into a tuning file (default: tune::default_tuning_path()): of this machine, and
// of the layer between its ranks where there is one.
void store_best(const TuneReport& report, const ir::Program& program, const ir::Sizes& sizes,
                const std::filesystem::path& path, std::string_view transport = "processes");

// Measures given trials only (benchmarks): rounds of all, alternately.
void measure_trials(std::vector<tune::Trial>& trials, const TuneRequest& request);

// Runs trials at `sizes` (two launches from patterned data) and compares every output and state with the reference
// evaluator: fills trial.check with the largest error, or what is wrong.
void check_trials(std::vector<tune::Trial>& trials, const ir::Program& program, const ir::Sizes& sizes,
                  std::string_view transport, const std::map<std::string, double>& scalars, double tolerance,
                  bool mapped = true);
double tolerance_of(const ir::Program& program);  // by the narrowest float that is stored or sent; 0: integers only
// Of one trial, where `of_program` holds for those that keep the numbers: a schedule that changes them (narrow) is held to
// the narrowest float of its own wires.
double tolerance_of(const tune::Trial& trial, double of_program);

}  // namespace weft::api
