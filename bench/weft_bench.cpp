// Weft's side of the benchmarks: a server that times on command, and the small figures.
//
//   weft_bench serve PROGRAM RANKS SIZE...     SIZE: P=16Mi or @SHAPES; first tunes, then answers lines on stdin:
//                                              "best" or "plain" -> ns of one launch (slowest rank, inputs rewritten)
//   weft_bench small CALLS                     lines "go" -> ns a call of an 8-byte all_reduce, two mapped ranks
//   weft_bench step                            ns of a bound local step on 2 floats, one rank
//   weft_bench enumerate PROGRAM...            seconds to enumerate and predict them all
//   weft_bench codegen PROGRAM                 milliseconds to get the fused schedule's code: compiled, or from the cache
//   weft_bench buckets SHAPES                  bytes of bucket table per 1,024 elements
#include <cstdio>
#include <iostream>

#include "weft/algo/algorithm.h"
#include "weft/api/calibrate.h"
#include "weft/api/trial_runner.h"
#include "weft/api/tuning.h"
#include "weft/api/weft.h"
#include "weft/codegen/library.h"
#include "weft/ir/shapes.h"
#include "weft/runtime/layout.h"
#include "weft/runtime/shapes.h"

namespace weft::bench {
namespace {

using Arguments = std::vector<std::string>;

ir::Sizes sizes_of(const ir::Program& program, const Arguments& arguments, size_t from) {
  ir::Sizes sizes;
  for (size_t i = from; i < arguments.size(); i++) {
    if (arguments[i][0] == '@') {
      for (const auto& tensor : ir::read_shapes(arguments[i].substr(1))) sizes.tensors["P"].push_back(tensor.shape);
      continue;
    }
    const size_t at = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, at);
    const int64_t count = parse_count(arguments[i].substr(at + 1));
    const auto tensors = std::any_of(program.header.begin(), program.header.end(), [&](const ir::HeaderDecl& decl) {
      const auto* list = std::get_if<ir::TensorsDecl>(&decl);
      return list && list->name == name;
    });
    if (tensors)
      sizes.tensors[name] = {{count}};
    else
      sizes.dims[name] = count;
  }
  return sizes;
}

void serve(const Arguments& arguments) {
  api::TuneRequest request;
  request.program = ir::parse(read_file(arguments.at(0)));
  request.sizes = sizes_of(request.program, arguments, 2);
  request.sizes.ranks = std::stoi(arguments.at(1));
  request.machine = api::machine_for(request.sizes.ranks, "processes");
  request.check = false;
  request.search.limit = 8;
  request.search.samples = 0;
  request.rounds.max_rounds = 5;
  const api::TuneReport report = api::tune_program(request);
  std::vector<tune::Trial> trials{tune::best(report.space.trials), tune::plain(report.space.trials)};
  for (size_t i = 0; i < trials.size(); i++) trials[i].id = static_cast<int>(i), trials[i].rounds_ns.clear();
  std::printf("best: %s\nplain: %s\nready\n", trials[0].label.c_str(), trials[1].label.c_str());
  std::fflush(stdout);
  api::TrialRunner runner({request.program, request.sizes, {}, trials, true, 0, -1, nullptr}, "processes", true);
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    std::printf("%.1f\n", runner.time_ns(line == "plain" ? 1 : 0));
    std::fflush(stdout);
  }
  runner.finish();
}

// 8 bytes: everybody reduces everything; the plan that the chooser would take for the smallest messages.
plan::Plan small_plan() {
  algo::PlanRequest request;
  request.protocol = plan::Protocol::ll128;
  request.grain = 1;
  return algo::make_plan(*algo::find_algorithm("mesh"), request);
}

double time_calls(runtime::Bound& bound, float* x, const float* y, int rank, int64_t calls) {
  float sink = 0;
  const int64_t begin = now_ns();
  for (int64_t call = 0; call < calls; call++) {
    x[0] = static_cast<float>(rank) + static_cast<float>(call);
    x[1] = static_cast<float>(call);
    bound.launch();
    sink += y[0];
  }
  const double ns = static_cast<double>(now_ns() - begin) / static_cast<double>(calls);
  return sink == -1 ? 0 : ns;
}

void small(const Arguments& arguments) {
  const int64_t calls = std::stoll(arguments.at(0));
  const auto make = [calls](transport::Transport& transport) -> transport::CommandLoop {
    struct State {
      std::unique_ptr<kernel::KernelLibrary> kernels;
      std::unique_ptr<runtime::Communicator> communicator;
      runtime::Symmetric memory;
      std::unique_ptr<runtime::Bound> bound;
    };
    auto my = std::make_shared<State>();
    my->kernels = codegen::generated_library();
    my->communicator = std::make_unique<runtime::Communicator>(transport, *my->kernels);
    my->memory = my->communicator->allocate(4096, "small");
    float* data = static_cast<float*>(my->memory.data);
    const plan::Plan plan = small_plan();
    plan::LaunchArgs args;
    args.spaces.assign(plan.spaces.size(), {plan::Cut{1, 2, 1}, {}, nullptr});
    args.buffers.assign(plan.buffers.size(), std::monostate{});
    args.buffers[static_cast<size_t>(plan::find_buffer(plan, "x"))] = plan::Dense{data};
    args.buffers[static_cast<size_t>(plan::find_buffer(plan, "y"))] = plan::Dense{data + 64};
    my->bound = std::make_unique<runtime::Bound>(*my->communicator, my->communicator->load(plan, {}), args);
    return [my, data, calls](transport::Transport& t, std::string_view) {
      t.barrier("small");
      return fmt::format("{}", time_calls(*my->bound, data, data + 64, t.rank(), calls));
    };
  };
  const auto job = transport::start_processes(2, make);
  std::printf("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    for (int rank = 0; rank < 2; rank++) job->send(rank, "go");
    double slowest = 0;
    for (int rank = 0; rank < 2; rank++) slowest = std::max(slowest, std::stod(job->receive(rank, 60'000'000'000)));
    std::printf("%.1f\n", slowest);
    std::fflush(stdout);
  }
  job->finish();
}

// The machine's calibration measures just this: (launch of 65 steps - launch of 1) / 64.
void step(const Arguments&) { std::printf("%.1f\n", api::calibrate(1, "processes").step_ns); }

void enumerate(const Arguments& arguments) {
  const topo::Machine machine = topo::detect();
  const int64_t begin = now_ns();
  for (const std::string& file : arguments) {
    const ir::Program program = ir::parse(read_file(file));
    tune::SearchOptions options;
    for (const std::string& name : ir::dims(program)) options.sizes.dims[name] = 1024;
    for (const ir::HeaderDecl& decl : program.header)
      if (const auto* list = std::get_if<ir::TensorsDecl>(&decl))
        options.sizes.tensors[list->name] = {{1 << 20}, {768}}, options.sizes.dims.erase(list->name);
    options.sizes.ranks = options.ranks;
    options.any_order = true;
    options.samples = 0;
    const tune::SearchSpace space = tune::make_trials(program, machine, options);
    std::fprintf(stderr, "%s: %lld schedules, %lld kept, %lld configurations priced\n", program.name.c_str(),
                 static_cast<long long>(space.schedules), static_cast<long long>(space.kept),
                 static_cast<long long>(space.configurations));
  }
  std::printf("%.3f\n", static_cast<double>(now_ns() - begin) * 1e-9);
}

void codegen(const Arguments& arguments) {
  const ir::Program program = ir::parse(read_file(arguments.at(0)));
  ir::Sizes sizes;
  sizes.ranks = 2;
  const schedule::Schedule schedule = resolve_schedule(program, "fused", sizes);
  const lower::Lowered lowered = lower::lower(schedule::replay(program, schedule), schedule.launches, {});
  const auto shapes = runtime::step_shapes(plan::Instance(lowered.plan, 2), lowered.stream);
  const auto library = codegen::generated_library();
  const int64_t begin = now_ns();
  library->find(shapes);
  std::printf("%.3f\n", static_cast<double>(now_ns() - begin) * 1e-6);
}

void buckets(const Arguments& arguments) {
  std::vector<int64_t> lengths;
  int64_t elements = 0;
  for (const auto& tensor : ir::read_shapes(arguments.at(0))) {
    int64_t length = 1;
    for (const int64_t size : tensor.shape) length *= size;
    lengths.push_back(length);
    elements += length;
  }
  const runtime::SegmentIndex index(lengths);
  std::printf("%.3f\n", static_cast<double>(index.bucket_bytes()) / (static_cast<double>(elements) / 1024));
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  using namespace weft::bench;
  const std::map<std::string, void (*)(const Arguments&)> verbs = {{"serve", serve},     {"small", small},
                                                                   {"step", step},       {"enumerate", enumerate},
                                                                   {"codegen", codegen}, {"buckets", buckets}};
  const auto verb = argc > 1 ? verbs.find(argv[1]) : verbs.end();
  if (verb == verbs.end())
    return std::fprintf(stderr, "weft_bench serve|small|step|enumerate|codegen|buckets ...\n"), 1;
  try {
    verb->second(Arguments(argv + 2, argv + argc));
    return 0;
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "weft_bench: %s\n", error.what());
    return weft::exit_code(error.kind());
  }
}
