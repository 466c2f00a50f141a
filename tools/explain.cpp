// weft explain: every schedule that dominance keeps, what it moves and what the model says of it; nothing is run.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/bench.h"
#include "tools/verbs.h"
#include "weft/api/calibrate.h"
#include "weft/api/tuning.h"

namespace weft::tools {
namespace {

struct Options {
  ProgramOptions program;
  int limit = 40;
  bool any_order = false, private_buffers = false;
  std::string bytes = "64K", dtype = "f32";  // of a collective
  std::string numerics = "keep";
};

// The name of a collective instead of a program.
bool explained_collective(const Options& options) {
  const auto operation = parse_operation(options.program.file);
  if (!operation || *operation == Operation::barrier) return false;
  explain_collective(*operation, {options.program.ranks, options.bytes, options.dtype, !options.private_buffers,
                                  options.any_order, options.program.json});
  return true;
}

void explain_verb(const Options& options) {
  if (explained_collective(options)) return;
  const ir::Program program = read_program(options.program.file);
  tune::SearchOptions search;
  search.ranks = options.program.ranks;
  search.sizes = sizes_of(program, options.program);
  search.limit = options.limit;
  search.any_order = options.any_order;
  search.loose_numerics = options.numerics == "loose";
  search.mapped = !options.private_buffers;
  search.samples = 0;
  const topo::Machine machine = api::machine_for(options.program.ranks, transport_of(options.program), progress_line);
  end_progress();
  const tune::SearchSpace space = tune::make_trials(program, machine, search);
  nlohmann::json out = nlohmann::json::array();
  if (!options.program.json)
    std::printf("%-10s %10s %8s %8s %9s %6s %-10s %s\n", "name", "predicted", "read", "written", "exchanged", "passes",
                "bound", "schedule   (bytes an element)");
  for (const tune::Trial& trial : space.trials) {
    const tune::Prediction& p = trial.prediction;
    if (options.program.json)
      out.push_back({{"name", trial.schedule.name},
                     {"schedule", trial.label},
                     {"launch", launch_json(trial.schedule)},
                     {"predicted_ns", p.total_ns},
                     {"memory_ns", p.memory_ns},
                     {"compute_ns", p.compute_ns},
                     {"matmul_ns", p.matmul_ns},
                     {"latency_ns", p.latency_ns},
                     {"read_bytes", p.read_bytes},
                     {"written_bytes", p.written_bytes},
                     {"exchanged_bytes", p.sent_bytes},
                     {"passes", p.passes},
                     {"bound", p.bound}});
    else
      std::printf("%-10s %10s %8.1f %8.1f %9.1f %6lld %-10s %s\n", trial.schedule.name.c_str(),
                  human_ns(p.total_ns).c_str(), p.read_bytes, p.written_bytes, p.sent_bytes,
                  static_cast<long long>(p.passes), p.bound.c_str(), trial.label.c_str());
  }
  if (options.program.json) std::printf("%s\n", out.dump(2).c_str());
}

}  // namespace

Verb add_explain(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("explain", "predict every schedule of a program and say what each moves");
  verb->footer(
      "  weft explain examples/adam.weft --model bert-base --ranks 2\n"
      "  weft explain all_reduce --ranks 4 -b 64K                      which plan a collective takes, and why");
  add_program_options(*verb, options->program);
  verb->add_option("--limit", options->limit, "schedules to list")->check(CLI::Range(1, 10000))->capture_default_str();
  verb->add_flag("--any-order", options->any_order, "also algorithms that do not add in rank order (ring)");
  add_numerics_option(*verb, options->numerics);
  verb->add_flag("--private", options->private_buffers, "buffers that peers cannot map: algorithms over links");
  verb->add_option("-b,--bytes", options->bytes, "of a collective: its size")->capture_default_str();
  verb->add_option("-d,--dtype", options->dtype, "of a collective")->capture_default_str();
  return [options] { explain_verb(*options); };
}

}  // namespace weft::tools
