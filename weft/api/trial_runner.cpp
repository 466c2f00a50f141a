// The parent's side of measuring: it says what to do, the ranks do it at the same time and answer.
//
// A launch takes as long as its slowest rank, so the figure of a launch is the largest answer, and the figure of a round
// the median over its launches. What is short is launched more often, so that a round costs each trial a few
// milliseconds at least and scheduling noise of microseconds does not decide.
#include "weft/api/trial_runner.h"

#include <algorithm>

#include "weft/base/plural.h"
#include "weft/transport/spec.h"

namespace weft::api {
namespace {

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

bool comparable_bits(const tune::Trial& trial) {
  if (trial.bits != schedule::Bits::kept && trial.bits != schedule::Bits::order) return false;
  return trial.lowered.plan.order == plan::Order::rank && trial.lowered.plan.round == plan::Round::once;
}

void TrialRunner::prepare() {
  job_.block_bytes = api::block_bytes(job_);
  for (const tune::Trial& trial : job_.trials) know(trial);
}

void TrialRunner::know(const tune::Trial& trial) {
  predicted_ns_.push_back(trial.prediction.total_ns);
  labels_.push_back(trial.label);
  if (job_.compare_with >= 0 && comparable_bits(trial)) bits_[trial.id] = "";
}

void TrialRunner::compare(int trial_id) {
  const auto found = bits_.find(trial_id);
  if (found == bits_.end() || !found->second.empty()) return;
  found->second = "same";
  for (const std::string& answer : ask(fmt::format("bits {}", trial_id), trial_id))
    if (answer != "same") found->second = answer;
}

std::string TrialRunner::bits(int trial_id) const {
  const auto found = bits_.find(trial_id);
  return found == bits_.end() ? "" : found->second;
}

TrialRunner::TrialRunner(TuneJob job, std::string_view transport, bool pin) : job_(std::move(job)) {
  prepare();
  const TuneJob* shared = &job_;
  const auto make = [shared](transport::Transport& transport) -> transport::CommandLoop {
    auto rank = std::make_shared<TuneRank>(transport, *shared);
    return [rank](transport::Transport&, std::string_view text) { return rank->command(text); };
  };
  transport::RankOptions options;
  options.pin = pin;
  ranks_ = commands_to(transport::start_ranks(transport, job_.sizes.ranks, make, options));
}

TrialRunner::TrialRunner(TuneJob job, transport::Transport& transport) : job_(std::move(job)) {
  prepare();
  own_ = std::make_unique<TuneRank>(transport, job_);
  ranks_ = commands_among(transport, [this](std::string_view text) { return own_->command(text); });
}

TrialRunner::~TrialRunner() = default;

std::vector<std::string> TrialRunner::ask(const std::string& command, int trial_id) {
  try {
    return ranks_->ask(command);
  } catch (const Error& error) {
    const std::string verb = words(command).front();
    const std::string doing =
        verb == "time"    ? fmt::format("being timed, after {}", counted(launches_[trial_id], "launch", "launches"))
        : verb == "trial" ? "being handed to the ranks"
                          : "being checked";
    throw Error(error.kind(),
                fmt::format("{}\n    (schedule \"{}\" was {})", error.message(),
                            labels_.at(static_cast<size_t>(trial_id)), doing),
                error.remedy());
  }
}

std::vector<double> TrialRunner::round(const std::vector<int>& trial_ids) {
  std::vector<double> out;
  for (const int id : trial_ids) {
    compare(id);
    const double predicted = predicted_ns_[static_cast<size_t>(id)];
    const int repeats = std::clamp(static_cast<int>(4e6 / std::max(1.0, predicted)), 1, 25) | 1;
    out.push_back(slowest_median(ask(fmt::format("time {} {}", id, repeats), id)));
    launches_[id] += repeats;
  }
  return out;
}

bool TrialRunner::admit(const tune::Trial& trial) {
  WEFT_CHECK(trial.id == static_cast<int>(predicted_ns_.size()), "trial {} joins after {}", trial.id,
             predicted_ns_.size());
  if (lay_out(trial.lowered, job_.sizes, 0, true).total_bytes > job_.block_bytes) return false;
  know(trial);
  ask(fmt::format("trial {}\n{}", trial.id, schedule::print(trial.schedule)), trial.id);
  return true;
}

}  // namespace weft::api
