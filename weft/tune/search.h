// Which schedules to try, in which order, and when to stop measuring one.
//
// Ways: CoCoNet runs every candidate; a cost model alone picks wrongly when it is a little off. We enumerate sets of
// choices (schedule/), walk through the launch configurations of each (configure.h) by predicted time, and measure the
// promising ones in rounds, alternately, dropping what is clearly slower. After two rounds the best is refined: its
// neighbours along each coordinate join the rounds. The plain schedule, with the launch configuration that suits it best,
// is in every round: the answer is never slower than plain.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/lower/lower.h"
#include "weft/schedule/schedule.h"
#include "weft/topo/machine.h"
#include "weft/tune/cost.h"

namespace weft::tune {

struct Trial {
  int id = 0;
  std::string label;                    // the rewrites that made it, on one line; "plain" for the plain schedule
  bool plain = false, dropped = false;  // dropped: pruned by dominance, kept here as a sample
  bool refined = false;                 // joined the rounds as a neighbour of the best
  schedule::Schedule schedule;          // with its launch lines
  schedule::Bits bits = schedule::Bits::kept;
  ir::Program program;  // after replay
  lower::Lowered lowered;
  Prediction prediction;
  std::vector<double> rounds_ns;  // measured: one figure a round, the slowest rank's
  bool given_up = false;          // clearly slower: not measured to the end
  std::string check;              // filled by who checks: "bits", "1.2e-07", or "WRONG: " and what
  bool wrong() const { return check.starts_with("WRONG"); }
  double median_ns() const;
  double spread() const;  // interquartile range over the median
};

struct SearchOptions {
  int ranks = 2;
  ir::Sizes sizes;
  bool mapped = true;              // buffers can be mapped by peers
  bool keep_state_shapes = false;  // states stay replicated
  bool any_order = false;          // also algorithms that do not keep rank order (ring ...)
  bool loose_numerics = false;     // also schedules with other numbers: bf16 wires, casts before a sum
  int limit = 12;                  // trials to measure
  bool count_all = false;          // count the schedules of pruned layouts too (for reports; costs a second)
  uint64_t sample_seed = 1;
  int samples = 1;  // of what dominance dropped
};
struct SearchSpace {
  std::vector<Trial> trials;  // best predicted first; the plain one is among them
  int64_t layouts = 0, schedules = 0, kept = 0, configurations = 0;
};
SearchSpace make_trials(const ir::Program& naive, const topo::Machine& machine, const SearchOptions& options);
// One schedule lowered and priced; `launches` of the schedule decide, else the chooser.
Trial make_trial(const ir::Program& naive, const schedule::Schedule& schedule, const topo::Machine& machine,
                 const SearchOptions& options);
// Neighbours of `from` along each coordinate (another algorithm, protocol, channels, chunk, kind of stores) that are not
// among `known` and are predicted within `ratio` of it: best predicted first, at most one for each value tried.
std::vector<Trial> neighbours(const Trial& from, const std::vector<Trial>& known, const ir::Program& naive,
                              const topo::Machine& machine, const SearchOptions& options, double ratio);

// The chunk of each space, as the schedule says or by default.
std::vector<int64_t> chunk_elements(const lower::Lowered& lowered, int ranks);
int64_t largest_tensor(const ir::Program& program, const ir::Sizes& sizes);  // elements of the largest input or state

// Measures: nanoseconds of one launch of each trial named, taken alternately (the slowest rank's).
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual std::vector<double> round(const std::vector<int>& trial_ids) = 0;
  // A trial that joins now, under its id (the number of those before it). false: it cannot be measured here.
  virtual bool admit(const Trial&) { return true; }
  virtual int64_t clock_ns();  // what budgets of seconds are counted by
};
struct RoundOptions {
  int min_rounds = 3, max_rounds = 9;
  double give_up_ratio = 1.2;  // a trial whose best round is beyond this times the best median
  double seconds = 30;         // after min_rounds, stop when this is used up
  std::function<void(int round, int alive, double best_ns)> progress;
  // Called after each round, before trials are given up: marks those that are known to be wrong. May be empty.
  std::function<void(std::vector<Trial>&)> note_wrong;
  // Called with the best so far after round 2 and, while it moves, after each second round: trials to join. May be empty.
  std::function<std::vector<Trial>(const Trial& best, const std::vector<Trial>& known)> refine;
  int refine_limit = 4;  // trials that join at once
};
void measure(std::vector<Trial>& trials, Evaluator& evaluator, const RoundOptions& options);

// How the cost model did: Spearman's rank correlation of predicted and measured; regret: how much slower the trial that
// it would have chosen is than the best measured (0.02 = 2 %); and of the pairs whose measured times differ by more than
// their spreads and 5 %, how many it puts in the right order.
struct ModelReport {
  double rank_correlation = 0, regret = 0;
  int64_t pairs = 0, pairs_right = 0;
};
ModelReport judge(const std::vector<Trial>& trials);

bool any_right(const std::vector<Trial>& trials);      // something was measured and is not wrong
const Trial& best(const std::vector<Trial>& trials);   // least median among those; needs any_right()
const Trial& plain(const std::vector<Trial>& trials);  // of the plain schedule: in the configuration measured fastest
// Two or three lines: why the best is best, in bytes an element and passes over memory; or that nothing is right.
std::vector<std::string> explain(const std::vector<Trial>& trials);

}  // namespace weft::tune
