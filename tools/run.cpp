// weft run: one schedule of a program, on ranks, checked against the reference evaluator, timed. Plans: run_plan.cpp.
#include "tools/run.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/api/need.h"
#include "weft/api/tuning.h"
#include "weft/api/weft.h"
#include "weft/base/plural.h"
#include "weft/transport/spec.h"

namespace weft::tools {
namespace {

void run_verb(const RunAsked& options) {
  if (is_plan_file(options.program.file)) return run_plan(options);
  if (!options.params.empty())
    throw Error(ErrorKind::user, fmt::format("{} is a program, which has no parameters", options.program.file),
                "--param is for plans; a program takes --size and --scalar");
  api::TuneRequest request;
  request.program = read_program(options.program.file);
  request.sizes = sizes_of(request.program, options.program);
  request.scalars = scalars_of(request.program, options.program);
  request.transport = transport_of(options.program);
  request.search.ranks = options.program.ranks;
  request.search.sizes = request.sizes;
  request.search.mapped = !options.private_buffers && transport::layer_of(request.transport).empty();
  request.rounds.max_rounds = request.rounds.min_rounds = options.rounds;
  const schedule::Schedule schedule =
      resolve_schedule(request.program, options.schedule, request.sizes, request.transport);
  std::vector<tune::Trial> trials{tune::make_trial(request.program, schedule, topo::detect(), request.search)};
  api::require_memory(api::ranks_bytes(trials, request.sizes),
                      fmt::format("the buffers of {}", counted(request.sizes.ranks, "rank")),
                      "give smaller sizes or fewer ranks, or free memory");
  progress_line("checking");
  const double of_program = api::tolerance_of(request.program);
  api::check_trials(trials, request.program, api::scaled(request.program, request.sizes, options.check_elements),
                    request.transport, request.scalars, of_program, request.search.mapped);
  if (trials[0].wrong())
    throw Error(ErrorKind::internal,
                fmt::format("schedule {} of {}: {}", schedule.name, request.program.name, trials[0].check),
                "a fault of Weft: please report it with the program, the sizes and the schedule; until then "
                "`--schedule plain`, or another that `weft explain` lists, may be right");
  progress_line("running");
  api::measure_trials(trials, request);
  end_progress();
  const tune::Trial& trial = trials[0];
  const double tolerance = api::tolerance_of(trial, of_program);
  if (options.program.json) {
    std::printf("%s\n", nlohmann::json{{"program", request.program.name},
                                       {"schedule", trial.label},
                                       {"ranks", request.sizes.ranks},
                                       {"median_ns", trial.median_ns()},
                                       {"spread", trial.spread()},
                                       {"check", trial.check},
                                       {"tolerance", tolerance}}
                            .dump(2)
                            .c_str());
    return;
  }
  std::printf("%s, schedule %s, %s: %s a launch (spread %.1f %%, %s), largest error %s (tolerance %.0e)\n",
              request.program.name.c_str(), trial.label.c_str(), counted(request.sizes.ranks, "rank").c_str(),
              human_ns(trial.median_ns()).c_str(), 100 * trial.spread(),
              counted(static_cast<int64_t>(trial.rounds_ns.size()), "round").c_str(), trial.check.c_str(), tolerance);
}

}  // namespace

Verb add_run(CLI::App& app) {
  auto options = std::make_shared<RunAsked>();
  CLI::App* verb = app.add_subcommand("run", "run one schedule of a program, or a plan, check and time it");
  verb->footer(
      "  weft run examples/adam.weft --size P=16Mi --schedule fused --ranks 4\n"
      "  weft run tests/cases/msccl/allpairs_allreduce.xml --size i=16Mi       an MSCCL schedule, for the ranks it "
      "names\n"
      "  weft run tests/cases/plan/ring_all_reduce.plan --ranks 4 --param T=f16\n"
      "A plan is verified (docs/plan.md) and compared with the interpreter; an MSCCL schedule also with its "
      "collective.");
  add_program_options(*verb, options->program);
  verb->add_option("--schedule", options->schedule,
                   "tuned, plain, fused, a schedule file, or a name from `weft explain`")
      ->capture_default_str();
  verb->add_option("--rounds", options->rounds, "timed launches")->check(CLI::Range(1, 100000))->capture_default_str();
  verb->add_option("--param", options->params, "a parameter of a plan: NAME=VALUE, such as T=i32 or op=max");
  verb->add_flag("--private", options->private_buffers, "buffers that peers cannot map: algorithms over links");
  return [options, verb] {
    options->schedule_given = verb->count("--schedule") > 0;
    options->ranks_given = verb->count("--ranks") > 0;
    run_verb(*options);
  };
}

}  // namespace weft::tools
