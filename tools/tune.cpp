// weft tune: the main job. Enumerate, predict, check, measure; a table best first, and why.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/sim.h"
#include "tools/verbs.h"
#include "weft/api/calibrate.h"
#include "weft/api/tuning.h"
#include "weft/base/plural.h"
#include "weft/tune/file.h"

namespace weft::tools {
namespace {

struct Options {
  ProgramOptions program;
  int limit = 12, rounds = 9;
  double seconds = 25;
  bool any_order = false, keep_state = false, no_check = false, no_pin = false;
  std::string tuning, machine, numerics = "keep";
};

nlohmann::json to_json(const api::TuneReport& report, const Options& options, const ir::Program& program) {
  nlohmann::json out;
  const double plain_ns = tune::plain(report.space.trials).median_ns();
  out["program"] = program.name;
  out["ranks"] = options.program.ranks;
  out["memory_bytes"] = report.memory_bytes;
  out["peak_bytes"] = report.peak_bytes;
  out["schedules"] = {{"enumerated", report.space.schedules},
                      {"kept", report.space.kept},
                      {"configurations", report.space.configurations}};
  out["check"] = {{"elements", report.check_elements}, {"tolerance", report.tolerance}};
  for (const tune::Trial& trial : report.space.trials)
    out["trials"].push_back({{"schedule", trial.label},
                             {"text", schedule::print(trial.schedule)},
                             {"launch", launch_json(trial.schedule)},
                             {"refined", trial.refined},
                             {"plain", trial.plain},
                             {"sampled", trial.dropped},
                             {"predicted_ns", trial.prediction.total_ns},
                             {"median_ns", trial.median_ns()},
                             {"spread", trial.spread()},
                             {"speedup", trial.rounds_ns.empty() ? 0 : plain_ns / trial.median_ns()},
                             {"rounds", trial.rounds_ns.size()},
                             {"check", trial.check},
                             {"read_bytes", trial.prediction.read_bytes},
                             {"written_bytes", trial.prediction.written_bytes},
                             {"exchanged_bytes", trial.prediction.sent_bytes},
                             {"passes", trial.prediction.passes},
                             {"bound", trial.prediction.bound}});
  out["why"] = report.explanation;
  out["model"] = {{"rank_correlation", report.model.rank_correlation},
                  {"regret", report.model.regret},
                  {"pairs", report.model.pairs},
                  {"pairs_right", report.model.pairs_right}};
  return out;
}

// Long schedules continue on the next lines, so that the figures stay in one column.
std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  for (const std::string& word : words(text)) {
    if (!line.empty() && line.size() + 1 + word.size() > width) lines.push_back(line), line = "  ";
    line += (line.empty() || line == "  " ? "" : " ") + word;
  }
  lines.push_back(line);
  return lines;
}

constexpr int schedule_width = 48;

// Bytes are per element of the largest tensor, of the rank that takes longest.
void print_trial(const tune::Trial& trial, double plain_ns) {
  const std::vector<std::string> lines = wrapped(trial.label, schedule_width);
  const tune::Prediction& p = trial.prediction;
  const bool timed = !trial.rounds_ns.empty();
  const std::string speedup = timed && plain_ns > 0 ? fmt::format("{:.2f}x", plain_ns / trial.median_ns()) : "-";
  const std::string check =
      (trial.check.empty() ? "not checked" : trial.check) + (trial.dropped ? " (sampled: pruned by dominance)" : "");
  std::printf("%-*s %10s %10s %6.1f%% %8s %6.1f %7.1f %9.1f %6lld  %s\n", schedule_width, lines[0].c_str(),
              human_ns(p.total_ns).c_str(), timed ? human_ns(trial.median_ns()).c_str() : "-", 100 * trial.spread(),
              speedup.c_str(), p.read_bytes, p.written_bytes, p.sent_bytes, static_cast<long long>(p.passes),
              check.c_str());
  for (size_t i = 1; i < lines.size(); i++) std::printf("%s\n", lines[i].c_str());
}

void print_table(const api::TuneReport& report) {
  std::printf("%-*s %10s %10s %7s %8s %6s %7s %9s %6s  %s\n", schedule_width, "schedule", "predicted", "measured",
              "spread", "speed-up", "read", "written", "exchanged", "passes", "check");
  const double plain_ns = tune::plain(report.space.trials).median_ns();
  for (const tune::Trial& trial : report.space.trials) print_trial(trial, plain_ns);
}

void print_rest(const api::TuneReport& report, const Options& options, const std::filesystem::path& tuning) {
  std::printf("\n");
  for (const std::string& line : report.explanation) std::printf("%s\n", line.c_str());
  if (report.check_elements)
    std::printf(
        "check: \"bits\" = equal to the plain schedule bit for bit at this size; the number is the largest error "
        "against the\n"
        "reference evaluator on the same tensors scaled to %s elements (tolerance %.0e of the value's scale)\n",
        fmt::format("{}", report.check_elements).c_str(), report.tolerance);
  std::printf(
      "model: rank correlation %.2f of predicted and measured, regret %.1f %%; of %lld pairs that differ by more than "
      "noise\n%lld were predicted in that order; %lld of %lld schedules kept, %lld configurations priced, %zu "
      "measured\n",
      report.model.rank_correlation, 100 * report.model.regret, static_cast<long long>(report.model.pairs),
      static_cast<long long>(report.model.pairs_right), static_cast<long long>(report.space.kept),
      static_cast<long long>(report.space.schedules), static_cast<long long>(report.space.configurations),
      report.space.trials.size());
  const std::string memory = human_bytes(static_cast<double>(report.memory_bytes));
  const std::string ranks = counted(options.program.ranks, "rank");
  if (tune::any_right(report.space.trials))
    std::printf("memory: %s for %s; the winner is in %s\n", memory.c_str(), ranks.c_str(), tuning.c_str());
  else
    std::printf("memory: %s for %s; nothing was stored\n", memory.c_str(), ranks.c_str());
}

void fail_if_wrong(const api::TuneReport& report) {
  const std::string wrong = api::wrong_trials(report);
  if (wrong.empty()) return;
  const auto all = static_cast<int64_t>(report.space.trials.size());
  const int64_t count = std::count_if(report.space.trials.begin(), report.space.trials.end(),
                                      [](const tune::Trial& trial) { return trial.wrong(); });
  throw Error(ErrorKind::internal,
              fmt::format("{} of {} give wrong results:\n    {}", count, counted(all, "schedule"), wrong),
              tune::any_right(report.space.trials)
                  ? "a fault of Weft: please report it with the program; the winner is a right one and was stored"
                  : "a fault of Weft: please report it with the program; nothing was stored");
}

void tune_verb(const Options& options) {
  api::TuneRequest request;
  request.program = read_program(options.program.file);
  request.sizes = sizes_of(request.program, options.program);
  request.scalars = scalars_of(request.program, options.program);
  request.transport = transport_of(options.program);
  request.pin = !options.no_pin;
  request.progress = progress_line;
  const std::filesystem::path tuning =
      options.tuning.empty() ? tune::default_tuning_path() : std::filesystem::path(options.tuning);
  tune::require_writable_tuning(tuning);  // a bad file is found before the work, not after it
  request.machine = api::machine_for(options.program.ranks, request.transport, progress_line);
  request.search.limit = options.limit;
  request.search.any_order = options.any_order;
  request.search.loose_numerics = options.numerics == "loose";
  request.search.keep_state_shapes = options.keep_state;
  request.rounds.max_rounds = options.rounds;
  request.rounds.seconds = options.seconds;
  request.check = !options.no_check;
  const api::TuneReport report = api::tune_program(request);
  end_progress();
  if (options.program.json) {
    std::printf("%s\n", to_json(report, options, request.program).dump(2).c_str());
  } else {
    print_table(report);
    print_rest(report, options, tuning);
  }
  std::fflush(stdout);
  api::store_best(report, request.program, request.sizes, tuning, request.transport);
  fail_if_wrong(report);
}

}  // namespace

Verb add_tune(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("tune", "find the fastest schedule of a program on this machine");
  verb->footer(
      "The table lists schedules best first: predicted and measured time of one launch (slowest rank, median over\n"
      "rounds), spread (interquartile range over median), speed-up over the plain schedule, the bytes that a rank "
      "reads,\n"
      "writes and exchanges for an element, its passes over memory, and the check.\n\n"
      "  weft tune examples/adam.weft --model bert-base --ranks 2\n  weft tune examples/adam.weft --size P=16Mi "
      "--any-order --json\n"
      "  weft tune examples/adam.weft --machine dgx2_v100:8 --size P=64Mi   128 GPUs that are not here: predicted "
      "only");
  add_program_options(*verb, options->program);
  verb->add_option("--limit", options->limit, "schedules to measure, best predicted first")
      ->check(CLI::Range(1, 200))
      ->capture_default_str();
  verb->add_option("--rounds", options->rounds, "most rounds")->check(CLI::Range(1, 1000))->capture_default_str();
  verb->add_option("--seconds", options->seconds, "stop measuring after so long")
      ->check(finite_positive())
      ->capture_default_str();
  verb->add_flag("--any-order", options->any_order, "also algorithms that do not add in rank order (ring)");
  add_numerics_option(*verb, options->numerics);
  verb->add_flag("--keep-state", options->keep_state, "states stay replicated (no 1/n memory)");
  verb->add_flag("--no-check", options->no_check, "skip the checks");
  verb->add_flag("--no-pin", options->no_pin, "do not pin ranks to cores");
  verb->add_option("--tuning", options->tuning, "where the winner goes (default: WEFT_TUNING, or the cache directory)");
  CLI::Option* machine = verb->add_option("--machine", options->machine,
                                          "a machine that is not here: name, cluster file or NAME:NODES; schedules are "
                                          "ranked by simulation, nothing is run");
  for (const char* name :
       {"--transport", "--threads", "--tuning", "--rounds", "--seconds", "--scalar", "--no-check", "--numerics"})
    machine->excludes(verb->get_option(name));
  return [options, verb] {
    if (options->machine.empty()) return tune_verb(*options);
    tune_on_cluster({options->program, options->machine, verb->get_option("--ranks")->count() > 0, options->any_order,
                     options->keep_state, options->limit});
  };
}

}  // namespace weft::tools
