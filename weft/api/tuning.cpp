// The tuning run as a story: enumerate and price, start ranks, measure in rounds and refine, compare bits with the plain
// schedule in the same memory, let the ranks go, and only then hold the reference's values: the largest pieces of memory
// are never there at the same time.
#include "weft/api/tuning.h"

#include <algorithm>
#include <cmath>

#include "weft/api/reference.h"
#include "weft/api/trial_runner.h"

namespace weft::api {
namespace {

bool comparable_bits(const tune::Trial& trial) {
  if (trial.bits != schedule::Bits::kept && trial.bits != schedule::Bits::order) return false;
  return trial.lowered.plan.order == plan::Order::rank && trial.lowered.plan.round == plan::Round::once;
}

// Whose bits the others are compared with: plain, in rank order.
int plain_id(const std::vector<tune::Trial>& trials) {
  for (const tune::Trial& trial : trials)
    if (trial.plain && comparable_bits(trial)) return trial.id;
  return trials.front().id;
}

void check_bits(std::vector<tune::Trial>& trials, TrialRunner& runner) {
  runner.ask(fmt::format("digest {}", plain_id(trials)));
  for (tune::Trial& trial : trials) {
    if (!comparable_bits(trial) || trial.check.rfind("WRONG", 0) == 0) continue;
    trial.check = trial.check.empty() ? "bits" : "bits, " + trial.check;
    for (const std::string& answer : runner.ask(fmt::format("bits {}", trial.id)))
      if (answer != "same") trial.check = "WRONG: bits of " + answer;
  }
}

std::string shorter(double error) { return fmt::format("{:.1e}", error); }

void check_reference(std::vector<tune::Trial>& trials, TrialRunner& runner, double tolerance) {
  for (tune::Trial& trial : trials) {
    if (trial.check.rfind("WRONG", 0) == 0) continue;
    double worst = 0;
    std::string where;
    for (const std::string& answer : runner.ask(fmt::format("reference {}", trial.id))) {
      const size_t space = answer.find(' ');
      const double error = std::stod(answer.substr(0, space));
      if (error >= worst) worst = error, where = answer.substr(space + 1);
    }
    if (worst > tolerance)
      trial.check = fmt::format("WRONG: {} is off by {}", where, shorter(worst));
    else
      trial.check += (trial.check.empty() ? "" : ", ") + shorter(worst);
  }
}

}  // namespace

double tolerance_of(const ir::Program& program) {
  double tolerance = 0;
  for (const auto& [name, type] : ir::infer(program)) {
    if (!is_float(type.dtype)) continue;
    const int bytes = static_cast<int>(size_bytes(type.dtype));
    double t = bytes == 8 ? 1e-12 : bytes == 4 ? 2e-5 : type.dtype == Dtype::f16 ? 4e-3 : bytes == 2 ? 3e-2 : 3e-1;
    tolerance = std::max(tolerance, t);
  }
  return tolerance;
}

ir::Sizes scaled(const ir::Program& program, const ir::Sizes& sizes, int64_t elements) {
  const int64_t largest = tune::largest_tensor(program, sizes);
  if (largest <= elements) return sizes;
  ir::Sizes out = sizes;
  const double ratio = static_cast<double>(elements) / static_cast<double>(largest);
  for (auto& [name, shapes] : out.tensors)
    for (std::vector<int64_t>& shape : shapes)
      if (!shape.empty()) shape[0] = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(shape[0]) * ratio));
  if (!out.tensors.empty()) return out;
  auto longest = std::max_element(out.dims.begin(), out.dims.end(),
                                  [](const auto& a, const auto& b) { return a.second < b.second; });
  if (longest != out.dims.end())
    longest->second = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(longest->second) * ratio));
  return out;
}

void check_trials(std::vector<tune::Trial>& trials, const ir::Program& program, const ir::Sizes& sizes, bool threads,
                  const std::map<std::string, double>& scalars, double tolerance, bool mapped) {
  const std::vector<ir::Values> expected = reference_results(program, sizes, 2, scalars);
  TrialRunner runner({program, sizes, scalars, trials, mapped, 0, &expected}, threads, false);
  check_reference(trials, runner, tolerance);
  runner.finish();
}

void measure_trials(std::vector<tune::Trial>& trials, const TuneRequest& request) {
  TrialRunner runner({request.program, request.sizes, request.scalars, trials, request.search.mapped, 0, nullptr},
                     request.threads, request.pin);
  tune::measure(trials, runner, request.rounds);
  runner.finish();
}

namespace {

// Rounds, with neighbours of the best joining; then bits against the plain schedule in the same memory.
void measure_at_size(std::vector<tune::Trial>& trials, const TuneRequest& request, const tune::SearchOptions& search,
                     TuneReport& report, const std::function<void(const std::string&)>& say) {
  constexpr double worth_trying = 1.25;  // predictions are about as good as this
  TrialRunner runner({request.program, request.sizes, request.scalars, trials, search.mapped, 0, nullptr},
                     request.threads, request.pin);
  report.memory_bytes = runner.block_bytes() * request.sizes.ranks;
  tune::RoundOptions rounds = request.rounds;
  rounds.progress = [&](int round, int alive, double best_ns) {
    say(fmt::format("round {}: {} schedules alive, best {}", round, alive, human_ns(best_ns)));
  };
  rounds.refine = [&](const tune::Trial& best, const std::vector<tune::Trial>& known) {
    say(fmt::format("refining {}", best.label));
    return tune::neighbours(best, known, request.program, request.machine, search, worth_trying);
  };
  tune::measure(trials, runner, rounds);
  if (request.check) {
    say("comparing bits with the plain schedule");
    check_bits(trials, runner);
  }
  runner.finish();
}

}  // namespace

TuneReport tune_program(const TuneRequest& request) {
  const auto say = [&](const std::string& text) {
    if (request.progress) request.progress(text);
  };
  TuneReport report;
  tune::SearchOptions search = request.search;
  search.ranks = request.sizes.ranks;
  search.sizes = request.sizes;
  search.count_all = true;
  say("enumerating schedules");
  report.space = tune::make_trials(request.program, request.machine, search);
  std::vector<tune::Trial>& trials = report.space.trials;
  report.tolerance = tolerance_of(request.program);
  say(fmt::format("starting {} ranks", request.sizes.ranks));
  measure_at_size(trials, request, search, report, say);
  if (request.check) {
    const ir::Sizes small = scaled(request.program, request.sizes, request.check_elements);
    report.check_elements = tune::largest_tensor(request.program, small);
    say(fmt::format("evaluating the reference on {} elements", report.check_elements));
    check_trials(trials, request.program, small, request.threads, request.scalars, report.tolerance, search.mapped);
  }
  for (tune::Trial& trial : trials) trial.given_up |= trial.check.rfind("WRONG", 0) == 0;
  report.model = tune::judge(trials);
  report.explanation = tune::explain(trials);
  std::stable_sort(trials.begin(), trials.end(), [](const tune::Trial& a, const tune::Trial& b) {
    const auto wrong = [](const tune::Trial& t) { return t.check.rfind("WRONG", 0) == 0; };
    return std::make_tuple(wrong(a), a.rounds_ns.empty(), a.median_ns()) <
           std::make_tuple(wrong(b), b.rounds_ns.empty(), b.median_ns());
  });
  return report;
}

}  // namespace weft::api
