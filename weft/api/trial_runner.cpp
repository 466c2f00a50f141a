#include "weft/api/trial_runner.h"

#include <algorithm>

namespace weft::api {
namespace {

constexpr int64_t answer_bound_ns = 600'000'000'000;

double slowest_median(const std::vector<std::string>& answers) {
  std::vector<double> slowest;
  for (const std::string& answer : answers) {
    const std::vector<std::string> figures = words(answer);
    slowest.resize(figures.size(), 0);
    for (size_t i = 0; i < figures.size(); i++) slowest[i] = std::max(slowest[i], std::stod(figures[i]));
  }
  WEFT_CHECK(!slowest.empty(), "no figure");
  std::sort(slowest.begin(), slowest.end());
  return slowest[slowest.size() / 2];
}

}  // namespace

TrialRunner::TrialRunner(TuneJob job, bool threads, bool pin) : job_(std::move(job)) {
  job_.block_bytes = api::block_bytes(job_);
  const TuneJob* shared = &job_;
  const auto make = [shared](transport::Transport& transport) -> transport::CommandLoop {
    auto rank = std::make_shared<TuneRank>(transport, *shared);
    return [rank](transport::Transport&, std::string_view text) { return rank->command(text); };
  };
  transport::RankOptions options;
  options.pin = pin;
  running_ = threads ? transport::start_threads(job_.sizes.ranks, make, options)
                     : transport::start_processes(job_.sizes.ranks, make, options);
}

TrialRunner::~TrialRunner() = default;

std::vector<std::string> TrialRunner::ask(const std::string& command) {
  for (int rank = 0; rank < running_->ranks(); rank++) running_->send(rank, command);
  std::vector<std::string> answers;
  for (int rank = 0; rank < running_->ranks(); rank++) answers.push_back(running_->receive(rank, answer_bound_ns));
  return answers;
}

std::vector<double> TrialRunner::round(const std::vector<int>& trial_ids) {
  std::vector<double> out;
  for (const int id : trial_ids) {
    const double predicted = job_.trials[static_cast<size_t>(id)].prediction.total_ns;
    const int repeats = std::clamp(static_cast<int>(4e6 / std::max(1.0, predicted)), 1, 25) | 1;
    out.push_back(slowest_median(ask(fmt::format("time {} {}", id, repeats))));
  }
  return out;
}

void TrialRunner::finish() { running_->finish(); }

}  // namespace weft::api
