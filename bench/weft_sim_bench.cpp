// What the simulator does a second: prints one figure a line, "name value", as bench/sim.py reads them.
//
//     weft_sim_bench [NAME...]       all groups, or some of: events scale goal maxmin whatif accuracy coconet
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "weft/algo/algorithm.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/sim/accuracy.h"
#include "weft/sim/flows.h"
#include "weft/sim/goal.h"
#include "weft/sim/sim.h"

namespace {

using namespace weft;
using namespace weft::sim;

void figure(const char* name, double value) { fmt::print("{} {:.6g}\n", name, value), fflush(stdout); }

// Processor time of this one thread: what others run meanwhile does not count.
struct Timer {
  static double now() {
    struct timespec t {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  }
  double begin = now();
  double seconds() const { return now() - begin; }
};

struct Ring {
  int ranks = 8, channels = 1, slices = 1, slots = 4;
  int64_t bytes = 0, chunk_bytes = 0;
  LinkCost cost{3700, 200, 200, 5, 0.04, 0};  // Alps, as ATLAHS states
  Prediction run(Fold fold, int64_t period) const {
    algo::PlanRequest request;
    request.channels = channels;
    request.slices = slices;
    request.slots = slots;
    const plan::Instance instance(algo::make_plan(*algo::find_algorithm("ring"), request), ranks);
    std::vector<plan::SpaceExtent> spaces(instance.plan().spaces.size());
    spaces[0].extent = plan::Cut{1, bytes / 4, 1};
    Network network;
    network.costs = {{800, 200, 200, 5, 0.005, 0}, cost};
    network.period = period;
    network.route = [period](int, int, int from, int to) {
      return Route{static_cast<uint16_t>(from / period == to / period && period > 1 ? 0 : 1), 0, 0};
    };
    Options options;
    options.fold = fold;
    return simulate(instance, spaces, {chunk_bytes / 4}, network, options);
  }
};

void events() {
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const Timer timer;
    const Prediction p = Ring{1024, 8, 1, 4, 64 << 20, 1 << 20}.run(Fold::off, 1);
    best = std::max(best, static_cast<double>(p.events) / timer.seconds());
  }
  figure("events_per_s_1024x8", best);
}

// Chunks of 512 bytes: two of them, of two slices each, a rank and channel of the 1 GiB on 16,384.
void scale() {
  int mismatches = 0;
  for (const int ranks : {8, 32, 64})
    for (const int channels : {1, 4}) {
      const Ring small{ranks, channels, 2, 4, ranks * channels * 4096, 512};
      mismatches += small.run(Fold::exact, 8).end_ns != small.run(Fold::off, 8).end_ns;
    }
  figure("fold_mismatches", mismatches);
  const auto large = [](int ranks, int64_t bytes, const char* name) {
    const Timer timer;
    const Prediction p = Ring{ranks, 16, 2, 4, bytes, 2048}.run(Fold::exact, 8);
    figure(name, timer.seconds());
    return p;
  };
  large(16384, 1ll << 30, "all_reduce_16384x16_s");
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  figure("all_reduce_16384x16_gb", static_cast<double>(usage.ru_maxrss) * 1024e-9);
  large(131072, 1ll << 30, "all_reduce_131072_s");
}

void whatif() {
  const Timer timer;
  int points = 0;
  double sum = 0;
  for (const int64_t bytes : {64ll << 10, 1ll << 20, 16ll << 20, 256ll << 20, 1ll << 30})
    for (const int channels : {1, 2, 4, 8, 16})
      for (const int64_t chunk : {32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10})
        for (const int slices : {1, 2})
          for (const double wire : {1., 2., 16. / 15, 1.02}) {
            Ring ring{1024, channels, slices, 8, bytes, chunk};
            ring.cost.wire = wire;
            sum += ring.run(Fold::always, 8).end_ns;
            ++points;
          }
  figure("whatif_points", sum > 0 ? points : 0);
  figure("whatif_1000_at_1024_s", timer.seconds() * 1000 / points);
}

// Dissemination among 64 ranks, a hundred times over, with the labels and lines that generators write.
std::string goal_text() {
  constexpr int ranks = 64, rounds = 5000;
  std::string text = fmt::format("num_ranks {}\n", ranks);
  for (int r = 0; r < ranks; ++r) {
    text += fmt::format("\nrank {} {{\n", r);
    for (int i = 0; i < rounds; ++i) {
      const int step = 1 << i % 6, a = 2 * i + 1;
      text += fmt::format("l{}: send {}b to {} tag {}\nl{}: recv {}b from {} tag {}\n", a, 4096 + i, (r + step) % ranks,
                          1000000 + i, a + 1, 4096 + i, (r + ranks - step) % ranks, 1000000 + i);
      if (i > 0) text += fmt::format("l{} requires l{}\nl{} requires l{}\n", a, a - 1, a + 1, a - 2);
    }
    text += "}\n";
  }
  return text;
}

int64_t oracle_mismatches(const std::filesystem::path& folder, const char* goal, const char* oracle,
                          const GoalCosts& costs, GoalMode mode) {
  const GoalResult result = simulate_goal(read_goal(folder / goal), costs, mode);
  const std::string text = read_file(folder / oracle);
  int64_t wrong = 0, seen = 0;
  for (size_t h = 0; h < result.end_ns.size(); ++h) {
    const std::string head = fmt::format("Host {}: ", h);
    const size_t at = text.find(head);
    if (at == std::string::npos) continue;
    ++seen;
    wrong += std::stoll(text.substr(at + head.size())) != result.end_ns[h];
  }
  const size_t most = text.find("Maximum finishing time");
  if (seen == 0 && most != std::string::npos)
    wrong += std::stoll(text.substr(text.find(": ", most) + 2)) != result.last_ns();
  return wrong > 0;
}

void goal() {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("weft-bench-{}.goal", getpid());
  write_file(file, goal_text());
  const auto size = static_cast<double>(std::filesystem::file_size(file));
  double best = 0;
  uint64_t ops = 0;
  for (int round = 0; round < 3; ++round) {
    const Timer timer;
    ops = read_goal(file).ops();
    best = std::max(best, size / timer.seconds() / 1e6);
  }
  figure("goal_text_mb_per_s", best);
  const Goal goal = read_goal(file);
  const Timer timer;
  const GoalResult result = simulate_goal(goal, GoalCosts::ai(), GoalMode::original);
  figure("goal_events_per_s", static_cast<double>(result.events) / timer.seconds());
  figure("goal_ops", static_cast<double>(ops));
  std::filesystem::remove(file);
  const char* set = std::getenv("WEFT_SHARED");
  const std::filesystem::path folder = std::filesystem::path(set ? set : "../shared") / "data" / "sim" / "goal";
  if (!std::filesystem::exists(folder)) return;
  int64_t wrong = 0;
  const std::string sweep =
      fmt::format("{}/weft-sweep-{}.goal", std::filesystem::temp_directory_path().string(), getpid());
  if (std::system(fmt::format("gzip -dc '{}' > '{}'", (folder / "sweep3d_4.goal.gz").string(), sweep).c_str()) != 0)
    return;
  for (const char* name : {"dissemination_16", "binomialbcast_32", "sweep3d_4"}) {
    const std::string text = std::strcmp(name, "sweep3d_4") == 0 ? sweep : fmt::format("{}.goal", name);
    const auto oracle = [&](const char* kind) { return fmt::format("{}.{}.txt", name, kind); };
    wrong += oracle_mismatches(folder, text.c_str(), oracle("default.lgs-orig").c_str(), {}, GoalMode::original);
    wrong += oracle_mismatches(folder, text.c_str(), oracle("default.lgs").c_str(), {}, GoalMode::fork);
    wrong += oracle_mismatches(folder, text.c_str(), oracle("ai.lgs").c_str(), GoalCosts::ai(), GoalMode::fork);
  }
  wrong += oracle_mismatches(folder, "incast_8to1.goal", "incast_8to1.ai.lgs.txt", GoalCosts::ai(), GoalMode::fork);
  std::filesystem::remove(sweep);
  figure("goal_mismatches", static_cast<double>(wrong));
}

// 1,024 hosts, each always sending one message of its own size to somebody.
void maxmin() {
  const auto fabric = make_fat_tree({16, 8, 8}, {1, 8, 8}, {12.5, 12.5, 12.5});
  FlowNetwork net(fabric->capacities());
  std::mt19937 random(1);
  std::vector<uint32_t> route, over, host_of;
  const auto start = [&](double now, uint32_t host) {
    route.clear();
    uint32_t to = random() % 1024;
    if (to == host) to = (to + 1) % 1024;
    fabric->route(static_cast<int>(host), static_cast<int>(to), route);
    const uint32_t flow = net.start(now, route, 1e5 + static_cast<double>(random() % 1900000));
    host_of.resize(std::max<size_t>(host_of.size(), flow + 1));
    host_of[flow] = host;
  };
  for (uint32_t host = 0; host < 1024; ++host) start(0, host);
  const Timer timer;
  int64_t completions = 0;
  const uint64_t before = net.refilled();
  while (timer.seconds() < 2) {
    const double now = net.next_ns();
    net.take_completed(now, over);
    std::vector<uint32_t> hosts;
    for (const uint32_t flow : over) hosts.push_back(host_of[flow]);
    for (const uint32_t host : hosts) start(now, host);
    completions += static_cast<int64_t>(over.size());
  }
  figure("maxmin_completions_per_s", static_cast<double>(completions) / timer.seconds());
  figure("maxmin_refilled_per_completion",
         static_cast<double>(net.refilled() - before) / static_cast<double>(completions));
}

// Every table with its errors, then the figures.
void accuracy() {
  const char* set = std::getenv("WEFT_SHARED");
  const std::filesystem::path folder = std::filesystem::path(set ? set : "../shared") / "data" / "nccl";
  if (!std::filesystem::exists(folder)) return;
  const Accuracy a = evaluate_accuracy(read_measured(folder));
  for (const SetAccuracy& s : a.sets)
    fmt::print(
        "# {}{:80.80} spec {:3.0f}/{:3.0f}  calibrated {:3.0f}/{:3.0f}  monotone points {:3.0f}/{:3.0f}  ({} points, "
        "{} suspicious)\n",
        s.pooled ? " " : "-", s.name, s.spec.median, s.spec.p95, s.calibrated.median, s.calibrated.p95,
        s.calibrated_monotone.median, s.calibrated_monotone.p95, s.spec.count, s.suspicious);
  figure("accuracy_sets", static_cast<double>(a.spec.count));
  figure("accuracy_spec_median", a.spec.median);
  figure("accuracy_spec_p95", a.spec.p95);
  figure("accuracy_calibrated_median", a.calibrated.median);
  figure("accuracy_calibrated_p95", a.calibrated.p95);
  figure("accuracy_calibrated_monotone_p95", a.calibrated_monotone.p95);
  figure("accuracy_known_median", a.known.median);
  figure("accuracy_known_p95", a.known.p95);
  figure("accuracy_tree_p95", a.tree.p95);
  figure("choice_within_2pct_share", a.choice_within_2pct);
}

// CoCoNet's fused Adam against AllReduce + FusedAdam on 128 V100 (8 DGX-2): what its artifact measured, in ms, by log2 of the
// elements. The model says why the curve has its shape, it does not predict it: the constants marked * were chosen on
// these nine rows. The others are NCCL's of that time: 2 steps between nodes for each node, no proxies' overhead.
struct CoconetRow {
  int log2_elements;
  double fused_ms, baseline_ms;
};
constexpr CoconetRow coconet_rows[] = {{10, .113, .142},   {14, .140, .217},   {17, .313, .296},
                                       {20, .480, .744},   {22, .892, 1.580},  {24, 2.435, 3.765},
                                       {26, 7.272, 9.874}, {28, 26.40, 35.95}, {30, 104.7, 143.7}};

class CoconetModel {
 public:
  // Speed-up of the fused program.
  double speedup(int log2_elements) const {
    const double elements = std::ldexp(1., log2_elements), bytes = 4 * elements;
    const double optimizer_us = 40 /* * */ + 28 * elements / 790e3 /* * FusedAdam's measured rate, bytes a us */;
    const double tree = tree_ll_us(bytes), ll = ring_us(bytes, NcclProtocol::ll, .25);
    const double ll128 = ring_us(bytes, NcclProtocol::ll128, .92), simple = ring_us(bytes, NcclProtocol::simple, 1);
    const double baseline = std::min({tree, ll, simple}) + optimizer_us;
    const double fused = log2_elements <= 14 ? tree : std::min({ll, ll128, simple});
    return baseline / fused;
  }

 private:
  static constexpr double launch_us = 60 /* * */, ring_gb_per_s = 41.7 /* * measured at 2^30 */;
  static constexpr int ranks = 128, nodes = 8, steps = 2 * (ranks - 1), across = 2 * nodes;
  static double ring_us(double bytes, NcclProtocol protocol, double share) {
    constexpr double base[] = {6.6, 14, 8.4};
    const double inside = protocol == NcclProtocol::ll128 ? 1.25 /* * */ : nccl_step_us(NcclLink::nvlink, protocol);
    return launch_us + base[static_cast<size_t>(protocol)] + (steps - across) * inside +
           across * nccl_step_us(NcclLink::network, protocol) + bytes / (1000 * share * ring_gb_per_s);
  }
  double tree_ll_us(double bytes) const {
    NcclMachine m;
    m.arch = GpuArch::volta;
    m.gpus_per_node = 16;
    m.channels_inter = 8, m.bw_inter = 12;
    const NcclJob job{NcclCollective::all_reduce, ranks, nodes, bytes, 1};
    const auto table = nccl_table(m, job, nccl_filter("tree", "LL", job.collective));
    const NcclChoice& c = table.front();
    return launch_us + c.base_us + c.intra_us + c.inter_us + bytes / (1000 * c.bandwidth * c.correction);
  }
};

void coconet() {
  double worst = 0, large = 0, dip = 0;
  for (const CoconetRow& row : coconet_rows) {
    const double predicted = CoconetModel().speedup(row.log2_elements), measured = row.baseline_ms / row.fused_ms;
    const double error = 100 * std::abs(std::log(predicted / measured));
    fmt::print("# 2^{:<3} predicted {:.2f} measured {:.2f}\n", row.log2_elements, predicted, measured);
    if (row.log2_elements == 17) dip = predicted < 1;
    if (row.log2_elements >= 26) large = std::max(large, error);
    if (row.log2_elements == 22 || row.log2_elements >= 26) worst = std::max(worst, error);
  }
  figure("coconet_curve_worst_pct", worst);
  figure("coconet_curve_large_worst_pct", large);
  figure("coconet_dip_found", dip);
}

}  // namespace

int main(int argc, char** argv) {
  const auto wanted = [&](const char* name) {
    return argc == 1 || std::any_of(argv + 1, argv + argc, [&](const char* a) { return std::strcmp(a, name) == 0; });
  };
  try {
    if (wanted("events")) events();
    if (wanted("scale")) scale();
    if (wanted("goal")) goal();
    if (wanted("maxmin")) maxmin();
    if (wanted("whatif")) whatif();
    if (wanted("accuracy")) accuracy();
    if (wanted("coconet")) coconet();
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return exit_code(error.kind());
  }
  return 0;
}
