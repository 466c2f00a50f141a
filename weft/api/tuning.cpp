// The tuning run as a story: enumerate and price, start ranks, measure in rounds and refine (bits are compared with
// the plain schedule's when a trial is loaded for the first time), let the ranks go, and only then hold the reference's values: the largest pieces of memory
// are never there at the same time.
#include "weft/api/tuning.h"

#include <algorithm>
#include <cmath>

#include "weft/api/footprint.h"
#include "weft/api/need.h"
#include "weft/api/reference.h"
#include "weft/api/trial_runner.h"
#include "weft/base/plural.h"
#include "weft/transport/spec.h"
#include "weft/tune/file.h"

namespace weft::api {
namespace {

// Whose bits the others are compared with: plain, in rank order.
int plain_id(const std::vector<tune::Trial>& trials) {
  for (const tune::Trial& trial : trials)
    if (trial.plain && comparable_bits(trial)) return trial.id;
  return trials.front().id;
}

void note_bits(std::vector<tune::Trial>& trials, const TrialRunner& runner) {
  for (tune::Trial& trial : trials)
    if (const std::string bits = runner.bits(trial.id); !bits.empty())
      trial.check = bits == "same" ? "bits" : "WRONG: bits of " + bits;
}

std::string shorter(double error) { return fmt::format("{:.1e}", error); }

// The largest error over ranks and results, and where it is. What differs in bits already is measured too: how far off a
// wrong schedule is says what to look for.
void check_reference(std::vector<tune::Trial>& trials, TrialRunner& runner, double of_program) {
  for (tune::Trial& trial : trials) {
    const double tolerance = tolerance_of(trial, of_program);
    double worst = 0;
    std::string where;
    for (const std::string& answer : runner.ask(fmt::format("reference {}", trial.id), trial.id)) {
      const size_t space = answer.find(' ');
      const double error = std::stod(answer.substr(0, space));
      if (error >= worst) worst = error, where = answer.substr(space + 1);
    }
    const std::string off = where.empty() ? shorter(worst) : fmt::format("{} is off by {}", where, shorter(worst));
    if (trial.wrong())
      trial.check += "; against the reference " + off;
    else if (worst > tolerance)
      trial.check = fmt::format("WRONG: {} (tolerance {})", off, shorter(tolerance));
    else
      trial.check += (trial.check.empty() ? "" : ", ") + shorter(worst);
  }
}

constexpr const char* smaller = "give smaller sizes or fewer ranks, or free memory";

void require_ranks_memory(const std::vector<tune::Trial>& trials, const ir::Sizes& sizes) {
  require_memory(ranks_bytes(trials, sizes), fmt::format("the buffers of {}", counted(sizes.ranks, "rank")), smaller);
}

// The reference's values, and the ranks' beside them.
void require_check_memory(const std::vector<tune::Trial>& trials, const ir::Program& program, const ir::Sizes& sizes) {
  require_memory(reference_bytes(program, sizes, 2) + ranks_bytes(trials, sizes),
                 fmt::format("checking {} against the reference", program.name),
                 std::string(smaller) + "; `weft tune --no-check` does without");
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

double tolerance_of(const tune::Trial& trial, double of_program) {
  return trial.bits == schedule::Bits::numerics ? std::max(of_program, tolerance_of(trial.program)) : of_program;
}

void check_trials(std::vector<tune::Trial>& trials, const ir::Program& program, const ir::Sizes& sizes,
                  std::string_view transport, const std::map<std::string, double>& scalars, double tolerance,
                  bool mapped) {
  require_check_memory(trials, program, sizes);
  const std::vector<ir::Values> expected = reference_results(program, sizes, 2, scalars);
  TrialRunner runner({program, sizes, scalars, trials, mapped, 0, -1, &expected}, transport, false);
  check_reference(trials, runner, tolerance);
  runner.finish();
}

void measure_trials(std::vector<tune::Trial>& trials, const TuneRequest& request) {
  require_ranks_memory(trials, request.sizes);
  TrialRunner runner({request.program, request.sizes, request.scalars, trials, request.search.mapped, 0, -1, nullptr},
                     request.transport, request.pin);
  tune::measure(trials, runner, request.rounds);
  runner.finish();
}

namespace {

class Tuning {
 public:
  explicit Tuning(const TuneRequest& request) : request_(request), search_(request.search) {
    search_.ranks = request.sizes.ranks;
    search_.sizes = request.sizes;
    search_.mapped = search_.mapped && transport::layer_of(request.transport).empty();
    search_.count_all = true;
  }

  void enumerate() {
    say("enumerating schedules");
    report_.space = tune::make_trials(request_.program, request_.machine, search_);
    report_.tolerance = request_.tolerance.value_or(tolerance_of(request_.program));
    say(fmt::format("starting {}", counted(request_.sizes.ranks, "rank")));
  }

  // Before a rank is started: what measuring takes, and then what the check does.
  void ask_for_memory() const {
    require_ranks_memory(report_.space.trials, request_.sizes);
    if (request_.check) require_check_memory(report_.space.trials, request_.program, check_sizes());
  }

  TuneJob job() const {
    const int compare_with = request_.check ? plain_id(report_.space.trials) : -1;
    return {request_.program, request_.sizes, request_.scalars, report_.space.trials, search_.mapped, 0,
            compare_with,     nullptr};
  }

  // Rounds, with neighbours of the best joining; bits are compared as each is measured for the first time.
  void measure(TrialRunner& runner) {
    constexpr double worth_trying = 1.25;  // predictions are about as good as this
    report_.memory_bytes = runner.block_bytes() * request_.sizes.ranks;
    tune::RoundOptions rounds = request_.rounds;
    rounds.progress = [&](int round, int alive, double best_ns) {
      say(fmt::format("round {}: {} schedules alive, best {}", round, alive, human_ns(best_ns)));
      if (round <= 3) sample();  // by then all trials have touched what they touch
    };
    rounds.refine = [&](const tune::Trial& best, const std::vector<tune::Trial>& known) {
      say(fmt::format("refining {}", best.label));
      return tune::neighbours(best, known, request_.program, request_.machine, search_, worth_trying);
    };
    rounds.note_wrong = [&](std::vector<tune::Trial>& trials) { note_bits(trials, runner); };
    tune::measure(report_.space.trials, runner, rounds);
    note_bits(report_.space.trials, runner);
    runner.finish();
  }

  void check() {
    const ir::Sizes small = check_sizes();
    report_.check_elements = tune::largest_tensor(request_.program, small);
    say(fmt::format("evaluating the reference on {} elements", report_.check_elements));
    const std::vector<ir::Values> expected = reference_results(request_.program, small, 2, request_.scalars);
    TrialRunner runner(
        {request_.program, small, request_.scalars, report_.space.trials, search_.mapped, 0, -1, &expected},
        request_.transport, false);
    say("comparing with the reference");
    check_reference(report_.space.trials, runner, report_.tolerance);
    sample();
    runner.finish();
  }

  TuneReport finish() {
    settle(report_);
    return std::move(report_);
  }

 private:
  void say(const std::string& text) {
    if (request_.progress) request_.progress(text);
  }
  ir::Sizes check_sizes() const { return scaled(request_.program, request_.sizes, request_.check_elements); }
  void sample() { report_.peak_bytes = std::max(report_.peak_bytes, footprint_bytes()); }

  const TuneRequest& request_;
  tune::SearchOptions search_;
  TuneReport report_;
};

}  // namespace

void settle(TuneReport& report) {
  std::vector<tune::Trial>& trials = report.space.trials;
  for (tune::Trial& trial : trials) trial.given_up |= trial.wrong();
  report.model = tune::judge(trials);
  report.explanation = tune::explain(trials);
  std::stable_sort(trials.begin(), trials.end(), [](const tune::Trial& a, const tune::Trial& b) {
    return std::make_tuple(a.wrong(), a.rounds_ns.empty(), a.median_ns()) <
           std::make_tuple(b.wrong(), b.rounds_ns.empty(), b.median_ns());
  });
}

std::string wrong_trials(const TuneReport& report) {
  std::string text;
  for (const tune::Trial& trial : report.space.trials)
    if (trial.wrong()) text += fmt::format("{}{}: {}", text.empty() ? "" : "\n    ", trial.label, trial.check);
  return text;
}

TuneReport tune_program(const TuneRequest& request) {
  Tuning tuning(request);
  tuning.enumerate();
  tuning.ask_for_memory();
  {
    TrialRunner runner(tuning.job(), request.transport, request.pin);
    tuning.measure(runner);
  }
  if (request.check) tuning.check();
  return tuning.finish();
}

TuneReport tune_among(transport::Transport& transport, const TuneRequest& request) {
  Tuning tuning(request);
  tuning.enumerate();
  TrialRunner runner(tuning.job(), transport);
  tuning.measure(runner);
  return tuning.finish();
}

void store_best(const TuneReport& report, const ir::Program& program, const ir::Sizes& sizes,
                const std::filesystem::path& path, std::string_view transport) {
  if (!tune::any_right(report.space.trials)) return;
  const tune::Trial& best = tune::best(report.space.trials);
  schedule::Schedule schedule = best.schedule;
  schedule.name = "tuned";
  tune::write_tuning(path, {topo::fingerprint(topo::detect()), program.name, tune::program_hash(program), sizes.ranks,
                            tune::total_elements(program, sizes), schedule::print(schedule), best.median_ns(),
                            tune::plain(report.space.trials).median_ns(), transport::layer_of(transport)});
}

}  // namespace weft::api
