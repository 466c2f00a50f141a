// weft sim: what a collective, a plan or a program would take on a machine that need not be here. Nothing is run.
#include "tools/sim.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "weft/base/env.h"
#include "weft/base/plural.h"
#include "weft/base/text.h"
#include "weft/trace/job.h"

namespace weft::tools {
namespace {

constexpr const char* operations = "all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all or send_recv";

constexpr const char* footer =
    R"(An operation gives nccl-tests' table, predicted: time, algbw and busbw of NCCL on this machine, the algorithm,
protocol, channels and threads that its tuner takes and what bounds it; then the fastest of Weft's own plans, simulated
step by step, and the least time of any implementation with what sets it. A program or a plan is simulated as it is.

  weft sim all_reduce --machine dgx_h100 -b 8 -e 8G -f 2           one node of eight H100
  weft sim all_gather --machine dgx_h100:16 -b 1M -e 1G -f 4       the same machine with 16 nodes
  NCCL_ALGO=Tree NCCL_PROTO=LL weft sim all_reduce --machine dgx_a100 -b 1K -e 1M -f 4
  weft sim examples/adam.weft --schedule fused --machine dgx2_v100 --size P=64Mi
  weft sim run.job --machine dgx_h100:2 --straggler 3=1.5 --timeline run.html      a trace (weft trace import), elsewhere
  weft sim my.plan --machine polaris --ranks 8 --size N=16Mi
  weft sim all_reduce --machine dgx_h100:4 -b 64K -e 1G -f 8 --what-if algo=ring,tree proto=LL,LL128,Simple --plot map.svg
  weft sim all_reduce -b 1M -e 1M --algorithm ring --timeline ring.html --trace ring.json
  weft sim all_reduce -b 64M -e 64M --what-if nodes=1..64 nic_bw=x1,x2 algo=ring,nvlstree,weft

--what-if predicts every point of a product: algo=ring,tree,nvls,nvlstree (NCCL's), weft or weft:NAME (simulated),
proto=LL,LL128,Simple, channels=1..32 (1, 2, 4 ... 32), nodes=1..64 (all their GPUs), size=64K,1M, and figures of the
machine as factors or themselves: nic_bw=x1,x2 gpu_bw=450 (GB/s) memory_bw, nic_latency=x0.5,3 (us), gpu_latency.

Machines are files in machines/, by name, or files of your own (docs/simulation.md); NAME:NODES takes so many nodes.
NCCL_ALGO, NCCL_PROTO, NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS (or ..._CTAS) and NCCL_NTHREADS count as they do for NCCL.)";

// A number that an NCCL variable says. Weft's own ranks have no use for these, so they are checked only here.
int nccl_number(const char* variable, int least, int most) {
  const std::string value = env(variable);
  if (value.empty()) return 0;
  int number = 0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (problem != std::errc() || end != value.data() + value.size() || number < least || number > most)
    throw Error(ErrorKind::user, fmt::format("{}={} is not a whole number from {} to {}", variable, value, least, most),
                "unset it for NCCL's own choice");
  return number;
}

bool is_operation(const std::string& text, sim::NcclCollective& collective) {
  try {
    collective = sim::nccl_collective(text);
    return true;
  } catch (const Error&) { return false; }
}

void sim_verb(const SimOptions& options) {
  sim::NcclCollective collective{};
  const std::string& what = options.program.file;
  const bool operation = is_operation(what, collective);
  if (!options.plot.empty() && (!operation || options.what_if.empty()))
    throw Error(ErrorKind::user, "--plot draws what --what-if asks of an operation",
                "for example weft sim all_reduce --what-if algo=ring,tree proto=LL,Simple --plot map.svg");
  if (options.pictures() && !options.what_if.empty())
    throw Error(ErrorKind::user, "--trace and --timeline show one run, and --what-if asks of many",
                "for the run of one point: --algorithm, --protocol, --channels");
  if (!operation && std::filesystem::is_regular_file(what) && trace::is_job(file_text(what))) return sim_job(options);
  if (!options.by.empty() || !options.stragglers.empty())
    throw Error(ErrorKind::user, fmt::format("--by and --straggler are for jobs, and {} is none", what),
                "weft trace import makes one of a trace");
  if (!operation && !(options.algorithm + options.protocol).empty())
    throw Error(ErrorKind::user, fmt::format("--algorithm and --protocol are for operations, and {} is none", what),
                "a program's are said by its schedule, a plan's by its text");
  if (operation && !options.what_if.empty()) return sim_what_if(options, collective);
  if (operation) return sim_collective(options, collective);
  if (!options.what_if.empty())
    throw Error(ErrorKind::user, fmt::format("--what-if asks of an operation, and {} is none", what),
                fmt::format("operations are {}", operations));
  if (what.find_first_of("./") == std::string::npos && !std::filesystem::exists(what))
    throw Error(ErrorKind::user, fmt::format("nothing to simulate is called {}", what),
                fmt::format("an operation ({}), or a file: a program (.weft), a plan (.plan), an MSCCL schedule (.xml)",
                            operations));
  sim_plan(options);
}

}  // namespace

int ranks_of(const SimOptions& options, const topo::Cluster& cluster) {
  return options.ranks > 0 ? options.ranks : cluster.nodes * cluster.gpus_per_node;
}

sim::NcclWishes nccl_wishes() {
  sim::NcclWishes wishes;
  wishes.algo = env("NCCL_ALGO");
  wishes.proto = env("NCCL_PROTO");
  const auto either = [](const char* first, const char* second) {
    const int value = nccl_number(first, 1, 64);
    return value ? value : nccl_number(second, 1, 64);
  };
  wishes.limits.min_channels = either("NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS");
  wishes.limits.max_channels = either("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS");
  wishes.limits.threads = nccl_number("NCCL_NTHREADS", 64, 640);
  return wishes;
}

Verb add_sim(CLI::App& app) {
  auto options = std::make_shared<SimOptions>();
  CLI::App* verb = app.add_subcommand("sim", "predict a collective, plan or program on a machine that is not here");
  verb->footer(footer);
  verb->add_option(
          "what", options->program.file,
          fmt::format("an operation ({}), a program (.weft), a plan (.plan) or an MSCCL schedule (.xml)", operations))
      ->required();
  verb->add_option("-m,--machine", options->machine, "a machine's name or its cluster file; NAME:NODES")
      ->capture_default_str();
  verb->add_option("-r,--ranks", options->ranks, "ranks, one a GPU, node by node (default: all GPUs of the machine)")
      ->check(CLI::Range(1, (1 << 22) - 1));
  add_sweep_options(*verb, options->sweep);
  verb->add_option("-d,--datatype", options->dtype, "float, half, bfloat16, int32 ...")->capture_default_str();
  verb->add_option("-o,--op", options->combine, "sum, prod, min, max, avg: of the table; it costs the same")
      ->capture_default_str();
  verb->add_option("--root", options->root, "root of rooted operations: of the table; it costs the same")
      ->capture_default_str();
  verb->add_option("-g,--ngpus", options->gpus_per_process, "GPUs that one process launches, one after the other")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb->add_flag("--rank-order", options->keep_order, "of Weft's plans only those that add in the order of ranks");
  verb->add_flag("--no-plans", options->no_plans, "NCCL and the bound alone: no plan is simulated");
  verb->add_option("--schedule", options->schedule, "of a program: plain, fused, a schedule file or a name")
      ->capture_default_str();
  verb->add_option("--size", options->program.sizes, "of a program: NAME=VALUE; of a plan: SPACE=ELEMENTS (1Mi)");
  verb->add_option("--model", options->program.model, "of a program: shapes of a model for `tensors P`");
  verb->add_option("--shapes", options->program.shapes, "of a program: a shapes file for `tensors P`");
  verb->add_option("--launches", options->launches, "of a program or plan: launches, one after the other")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_flag("--whole", options->whole, "of a program or plan: every rank is simulated, also those that do alike");
  verb->add_option("--algorithm", options->algorithm, "of an operation: of Weft's plans only this (ring, direct, ...)");
  verb->add_option("--protocol", options->protocol, "of an operation: of Weft's plans only LL, LL128 or Simple");
  verb->add_option("--channels", options->channels, "of an operation: of Weft's plans only those with so many channels")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--by", options->by,
                   "of a job: its collectives take what nccl, weft (its plans) or measured (the trace) says")
      ->check(CLI::IsMember({"nccl", "weft", "measured"}));
  verb->add_option("--straggler", options->stragglers, "of a job: RANK=FACTOR, a rank whose work takes longer");
  verb->add_option("--timeline", options->timeline,
                   "of one run of a plan: draw what happened when into this file, a page (HTML)");
  verb->add_option("--trace", options->trace, "of one run of a plan: the same as a trace for Perfetto (JSON)");
  verb->add_option("--most-spans", options->most_spans, "steps and messages that --timeline and --trace may have")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 26))
      ->capture_default_str();
  verb->add_option("--what-if", options->what_if,
                   "the product of axes NAME=VALUES: algo, proto, channels, nodes, size, nic_bw, gpu_bw, memory_bw, "
                   "nic_latency, gpu_latency");
  verb->add_option("--plot", options->plot, "of --what-if: draw a heat map (SVG) into this file");
  verb->add_flag("--json", options->program.json, "print JSON instead of tables");
  return [options] { sim_verb(*options); };
}

}  // namespace weft::tools
