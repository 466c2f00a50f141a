// Ranks that hold one program's trials and time them on command: what the tuner and the benchmarks measure with.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/api/commands.h"
#include "weft/api/tune_rank.h"

namespace weft::api {

// Whether a trial's rewrites and algorithm promise the plain schedule's bits.
bool comparable_bits(const tune::Trial& trial);

class TrialRunner : public tune::Evaluator {
 public:
  // Starts the ranks on a transport (transport/spec.h); each allocates the block of the hungriest trial. `expected`: for
  // "reference" commands.
  TrialRunner(TuneJob job, std::string_view transport, bool pin);
  // The ranks of a running program: collective, as is every call.
  TrialRunner(TuneJob job, transport::Transport& transport);
  ~TrialRunner() override;
  // One figure a trial: the median over its launches of the slowest rank's time. Short trials are launched more often.
  std::vector<double> round(const std::vector<int>& trial_ids) override;
  // Trials that need a larger block than there is are not taken.
  bool admit(const tune::Trial& trial) override;
  double time_ns(int trial_id) { return round({trial_id}).front(); }
  // The answers by rank. An error of the ranks (one died, hangs, disagrees) says which schedule it happened with and how
  // many launches of it had been timed.
  std::vector<std::string> ask(const std::string& command, int trial_id);
  int64_t clock_ns() override { return ranks_->clock_ns(); }
  void finish() { ranks_->finish(); }  // throws the ranks' first failure
  // How a trial's bits compare with those of job.compare_with: "same", what differs, or "" (not to be compared). They are
  // compared when a trial is measured for the first time, while it is loaded anyway.
  std::string bits(int trial_id) const;
  int64_t block_bytes() const { return job_.block_bytes; }

 private:
  void prepare();
  void know(const tune::Trial& trial);
  void compare(int trial_id);

  TuneJob job_;
  std::vector<double> predicted_ns_;  // by id
  std::vector<std::string> labels_;   // by id
  std::map<int, int> launches_;       // timed so far, by id
  std::map<int, std::string> bits_;   // "": to be compared
  std::unique_ptr<TuneRank> own_;     // where the caller is a rank
  std::unique_ptr<Commands> ranks_;
};

}  // namespace weft::api
