// Ranks that hold one program's trials and time them on command: what the tuner and the benchmarks measure with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/api/tune_rank.h"

namespace weft::api {

class TrialRunner : public tune::Evaluator {
 public:
  // Starts the ranks; each allocates the block of the hungriest trial. `expected`: for "reference" commands.
  TrialRunner(TuneJob job, bool threads, bool pin);
  ~TrialRunner() override;
  // One figure a trial: the median over its launches of the slowest rank's time. Short trials are launched more often.
  std::vector<double> round(const std::vector<int>& trial_ids) override;
  double time_ns(int trial_id) { return round({trial_id}).front(); }
  std::vector<std::string> ask(const std::string& command);  // the same command to all ranks; their answers
  void finish();                                             // throws the ranks' first failure
  int64_t block_bytes() const { return job_.block_bytes; }

 private:
  TuneJob job_;
  std::unique_ptr<transport::Job> running_;
};

}  // namespace weft::api
