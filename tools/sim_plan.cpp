// weft sim FILE: a scheduled program or a plan on a machine that need not be here.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/sim.h"
#include "weft/api/weft.h"
#include "weft/base/plural.h"
#include "weft/base/text.h"
#include "weft/plan/stats.h"
#include "weft/schedule/roots.h"
#include "weft/tune/search.h"

namespace weft::tools {
namespace {

SimSubject program_of(const SimOptions& options, const topo::Cluster& cluster) {
  const ir::Program program = read_program(options.program.file);
  ProgramOptions known = options.program;
  known.ranks = ranks_of(options, cluster);
  const ir::Sizes sizes = sizes_of(program, known);
  if (options.schedule == "tuned")
    throw Error(ErrorKind::user, "a tuned schedule is one of this machine's ranks",
                "give plain, fused, a schedule file, or a name from `weft tune ... --machine`");
  const schedule::Schedule schedule = resolve_schedule(program, options.schedule, sizes);
  schedule::check_roots(program, schedule, sizes);
  lower::LowerOptions lowering;
  lowering.ranks = sizes.ranks;
  lowering.mapped = sim::nodes_of(cluster, sizes.ranks) == 1;
  const lower::Lowered lowered = lower::lower(schedule::replay(program, schedule), schedule.launches, lowering);
  return {fmt::format("{}, schedule {}", program.name, options.schedule), lowered.plan,
          lower::common_launch_args(lowered, sizes), tune::chunk_elements(lowered, sizes.ranks), sizes.ranks};
}

SimSubject plan_of(const SimOptions& options, const topo::Cluster& cluster) {
  const PlanFile file = read_plan(options.program.file);
  const int ranks = file.ranks && options.ranks == 0 ? *file.ranks : ranks_of(options, cluster);
  if (file.ranks && *file.ranks != ranks)
    throw Error(ErrorKind::user, fmt::format("{} is for {}", options.program.file, counted(*file.ranks, "rank")),
                fmt::format("leave --ranks away, or give {}", *file.ranks));
  return {file.plan.name, file.plan, plan_sizes(file.plan, ranks, options.program.sizes), {}, ranks};
}

// The least that any way to the same results takes: each rank's own traffic at full speed, nothing waiting.
double roofline_ns(const topo::Cluster& cluster, const plan::Instance& instance, const SimSubject& s) {
  double most = 0;
  const bool across = sim::nodes_of(cluster, s.ranks) > 1;
  for (const plan::RankStats& r : plan::stats(instance, s.args, s.chunk_elements)) {
    const double memory = (r.bytes_read_here + r.bytes_written_here) / cluster.memory_gb_per_s;
    const double wire = static_cast<double>(std::max(r.bytes_sent, r.bytes_received)) /
                        (across ? std::max(cluster.inter.gb_per_s, cluster.intra.gb_per_s) : cluster.intra.gb_per_s);
    const double arithmetic = (r.flops + r.matmul_flops) / (cluster.tflops * 1000);
    most = std::max({most, memory, wire, arithmetic});
  }
  return most;
}

void print_text(const SimSubject& s, const topo::Cluster& cluster, const SimResult& r) {
  const sim::Prediction& p = r.prediction;
  std::printf("%s: %s on %s of %s, predicted\n", s.name.c_str(), counted(s.ranks, "rank").c_str(),
              counted(sim::nodes_of(cluster, s.ranks), "node").c_str(), cluster.name.c_str());
  for (size_t i = 0; i < p.launch_end_ns.size(); ++i)
    std::printf("  launch %-4zu        %10s\n", i,
                human_ns(r.launch_ns + p.launch_end_ns[i] - (i > 0 ? p.launch_end_ns[i - 1] : 0)).c_str());
  std::printf("  of which launching %10s\n  bound by           %10s\n", human_ns(r.launch_ns).c_str(), r.bound.c_str());
  std::printf("  busiest port       %10s\n  busiest lane       %10s\n", human_ns(p.busiest_port_ns).c_str(),
              human_ns(p.busiest_lane_ns).c_str());
  std::printf("  roofline           %10s   its bytes and operations at full speed, nothing waiting\n",
              human_ns(r.roofline_ns).c_str());
  std::printf("  simulated: %s of %d, %llu messages, %llu steps, %s on the wire\n",
              counted(p.simulated_ranks, "rank").c_str(), s.ranks, static_cast<unsigned long long>(p.messages),
              static_cast<unsigned long long>(p.steps), human_bytes(p.bytes).c_str());
}

}  // namespace

SimResult simulate_subject(const topo::Cluster& cluster, const SimSubject& s, const sim::Options& options,
                           bool with_bound) {
  sim::nodes_of(cluster, s.ranks);
  const plan::Instance instance(s.plan, s.ranks);
  const sim::Network network = sim::network_of(cluster, instance);
  SimResult r;
  r.launch_ns = cluster.launch_us * 1000;
  r.prediction = sim::simulate(instance, s.args.spaces, s.chunk_elements, network, options);
  r.time_ns = r.launch_ns + r.prediction.end_ns / options.launches;
  if (!with_bound) return r;
  r.roofline_ns = roofline_ns(cluster, instance, s);
  plan::Plan wider = s.plan;
  for (plan::Family& family : wider.families) family.slots *= 4;
  const plan::Instance relaxed(wider, s.ranks);
  sim::Options quiet = options;
  quiet.trace = nullptr;
  r.bound = sim::bound_of(r.prediction, r.launch_ns,
                          simulate(relaxed, s.args.spaces, s.chunk_elements, network, quiet).end_ns);
  return r;
}

void sim_plan(const SimOptions& options) {
  const topo::Cluster cluster = find_cluster(options.machine);
  const SimSubject s = is_plan_file(options.program.file) ? plan_of(options, cluster) : program_of(options, cluster);
  sim::Trace trace;
  sim::Options asked = recording(options, s.ranks, trace);
  asked.launches = options.launches;
  const SimResult r = simulate_subject(cluster, s, asked, true);
  if (!options.program.json) print_text(s, cluster, r);
  if (options.pictures())
    write_pictures(options, cluster, plan::Instance(s.plan, s.ranks), trace,
                   {s.name, s.ranks, r.prediction.simulated_ranks, r.launch_ns});
  if (!options.program.json) return;
  const sim::Prediction& p = r.prediction;
  const nlohmann::json out = {{"what", s.name},
                              {"machine", cluster.name},
                              {"ranks", s.ranks},
                              {"time_ns", r.time_ns},
                              {"launch_ns", r.launch_ns},
                              {"launch_end_ns", p.launch_end_ns},
                              {"roofline_ns", r.roofline_ns},
                              {"bound", r.bound},
                              {"busiest_port_ns", p.busiest_port_ns},
                              {"busiest_lane_ns", p.busiest_lane_ns},
                              {"simulated_ranks", p.simulated_ranks},
                              {"messages", p.messages},
                              {"steps", p.steps},
                              {"wire_bytes", p.bytes}};
  std::printf("%s\n", out.dump(2).c_str());
}

}  // namespace weft::tools
