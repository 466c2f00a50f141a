// weft tune PROGRAM --machine: schedules ranked for a cluster that is not there.
//
// The cost model sorts schedules (it takes microseconds and knows no waiting); those it likes are simulated, and from each
// a walk by simulation along algorithm, protocol, channels and chunk finds its launch configuration. Messages are budgeted,
// not seconds, so that the answer is the same everywhere.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/sim.h"
#include "weft/algo/algorithm.h"
#include "weft/base/plural.h"
#include "weft/base/text.h"
#include "weft/tune/configure.h"
#include "weft/tune/search.h"

namespace weft::tools {
namespace {

constexpr uint64_t most_messages = 1'500'000;  // of one simulation
constexpr uint64_t messages_a_trial = 5'000'000;
constexpr int most_moves = 8;

struct Ranked {
  tune::Trial trial;
  SimResult result;
};

class ClusterSearch {
 public:
  ClusterSearch(const ClusterTune& options, topo::Cluster cluster, ir::Program program, ir::Sizes sizes)
      : cluster_(std::move(cluster)), program_(std::move(program)), machine_(sim::machine_of(cluster_, sizes.ranks)) {
    search_.ranks = sizes.ranks;
    search_.sizes = std::move(sizes);
    search_.mapped = sim::nodes_of(cluster_, search_.ranks) == 1;
    search_.keep_state_shapes = options.keep_state;
    search_.any_order = options.any_order;
    search_.limit = options.limit;
    search_.samples = 0;
  }

  std::vector<Ranked> run() {
    space_ = tune::make_trials(program_, machine_, search_);
    std::vector<Ranked> list;
    std::set<std::string> seen;  // configurations differ only by what the walk finds anyway
    for (tune::Trial& trial : space_.trials) {
      schedule::Schedule bare = trial.schedule;
      bare.launches.clear();
      if (!seen.insert(schedule::print(bare)).second) continue;
      progress_line(fmt::format("schedule {}: {}", list.size() + 1, trial.label));
      if (auto ranked = walk(std::move(trial))) list.push_back(std::move(*ranked));
    }
    end_progress();
    std::stable_sort(list.begin(), list.end(),
                     [](const Ranked& a, const Ranked& b) { return a.result.time_ns < b.result.time_ns; });
    if (!list.empty()) list.front().result = simulate(list.front().trial, true).value_or(list.front().result);
    return list;
  }
  const tune::SearchSpace& space() const { return space_; }

 private:
  // Nothing: it would be too many messages, or has no such plan.
  std::optional<SimResult> simulate(const tune::Trial& trial, bool with_bound) {
    sim::Options options;
    options.fold = sim::Fold::always;
    options.most_messages = most_messages;
    const lower::Lowered& lowered = trial.lowered;
    SimSubject subject{trial.label, lowered.plan, lower::common_launch_args(lowered, search_.sizes),
                       tune::chunk_elements(lowered, search_.ranks), search_.ranks};
    try {
      SimResult result = simulate_subject(cluster_, subject, options, with_bound);
      spent_ += result.prediction.messages;
      return result;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::timeout && error.kind() != ErrorKind::unsupported) throw;
      spent_ += error.kind() == ErrorKind::timeout ? most_messages : 0;
      return {};
    }
  }

  std::optional<Ranked> simulated(const tune::Trial& from, const schedule::LaunchConfig& config) {
    try {
      tune::Trial trial =
          tune::make_trial(program_, tune::with_configuration(from.schedule, config), machine_, search_);
      trial.plain = from.plain;
      const auto result = simulate(trial, false);
      if (!result) return {};
      return Ranked{std::move(trial), *result};
    } catch (const Error& error) {  // an algorithm that cannot carry this schedule, or a plan of too many steps
      if (error.kind() == ErrorKind::internal) throw;
      return {};
    }
  }

  std::vector<schedule::LaunchConfig> neighbours(const tune::Trial& at, bool first) const {
    const schedule::LaunchConfig from = tune::configuration_of(at.schedule);
    std::vector<schedule::LaunchConfig> list;
    const auto add = [&](auto change) {
      schedule::LaunchConfig next = from;
      change(next);
      list.push_back(next);
    };
    if (first && from.algorithm) {
      const int local = search_.ranks / sim::nodes_of(cluster_, search_.ranks);
      if (search_.any_order && local > 1 && local < search_.ranks)
        add([&](auto& c) { c.algorithm = fmt::format("hierarchical:{}", local), c.order = "any", c.round = "hops"; });
      for (const schedule::LaunchConfig& c : tune::algorithm_configurations(at.program, search_))
        add([&](auto& next) { next.algorithm = c.algorithm, next.order = c.order, next.round = c.round; });
    }
    const int channels = from.channels.value_or(1);
    if (channels < 32) add([&](auto& c) { c.channels = 2 * channels; });
    if (channels < 16) add([&](auto& c) { c.channels = 4 * channels; });
    if (channels > 1) add([&](auto& c) { c.channels = channels / 2; });
    const std::string protocol = from.protocol.value_or("simple");
    for (const char* other : {"simple", "ll128", "ll"})
      if (protocol != other && (cluster_.ll128 || std::string(other) != "ll128"))
        add([&](auto& c) { c.protocol = other; });
    const int64_t chunk = from.chunk_bytes.value_or(tune::default_chunk_bytes);
    if (chunk > 8 << 10) add([&](auto& c) { c.chunk_bytes = chunk / 4; });
    if (chunk < 8 << 20) add([&](auto& c) { c.chunk_bytes = chunk * 4; });
    return list;
  }

  std::optional<Ranked> walk(tune::Trial start) {
    spent_ = 0;
    auto result = simulate(start, false);
    std::optional<Ranked> best;
    if (result) best = Ranked{start, *result};
    for (int move = 0; move < most_moves; ++move) {
      std::optional<Ranked> better;
      for (const schedule::LaunchConfig& config : neighbours(best ? best->trial : start, move == 0)) {
        if (spent_ > messages_a_trial) break;
        auto next = simulated(start, config);
        const double bar = better ? better->result.time_ns : best ? 0.99 * best->result.time_ns : 1e300;
        if (next && next->result.time_ns < bar) better = std::move(next);
      }
      if (!better) break;
      best = std::move(better);
    }
    return best;
  }

  topo::Cluster cluster_;
  ir::Program program_;
  topo::Machine machine_;
  tune::SearchOptions search_;
  tune::SearchSpace space_;
  uint64_t spent_ = 0;
};

double plain_ns(const std::vector<Ranked>& list) {
  for (const Ranked& r : list)
    if (r.trial.plain) return r.result.time_ns;
  return 0;
}

void print(const std::vector<Ranked>& list, const topo::Cluster& cluster, int ranks) {
  const double plain = plain_ns(list);
  std::printf("predicted on %s of %s (%s); nothing was run\n%10s %9s %12s  %s\n", counted(ranks, "rank").c_str(),
              cluster.name.c_str(), counted(sim::nodes_of(cluster, ranks), "node").c_str(), "predicted", "speed-up",
              "messages", "schedule");
  for (const Ranked& r : list)
    std::printf("%10s %9s %12llu  %s\n", human_ns(r.result.time_ns).c_str(),
                plain > 0 ? fmt::format("{:.2f}x", plain / r.result.time_ns).c_str() : "-",
                static_cast<unsigned long long>(r.result.prediction.messages), r.trial.label.c_str());
  const Ranked& best = list.front();
  std::printf("\nbest: bound by %s; its bytes and operations alone would take %s\n%s", best.result.bound.c_str(),
              human_ns(best.result.roofline_ns).c_str(), schedule::print(best.trial.schedule).c_str());
}

nlohmann::json to_json(const std::vector<Ranked>& list, const topo::Cluster& cluster, int ranks,
                       const tune::SearchSpace& space) {
  nlohmann::json out = {{"machine", cluster.name},
                        {"ranks", ranks},
                        {"nodes", sim::nodes_of(cluster, ranks)},
                        {"schedules", {{"enumerated", space.schedules}, {"kept", space.kept}}},
                        {"trials", nlohmann::json::array()}};
  const double plain = plain_ns(list);
  for (const Ranked& r : list)
    out["trials"].push_back({{"schedule", r.trial.label},
                             {"text", schedule::print(r.trial.schedule)},
                             {"launch", launch_json(r.trial.schedule)},
                             {"plain", r.trial.plain},
                             {"predicted_ns", r.result.time_ns},
                             {"speedup", plain > 0 ? plain / r.result.time_ns : 0},
                             {"messages", r.result.prediction.messages}});
  out["best"] = {{"bound", list.front().result.bound}, {"roofline_ns", list.front().result.roofline_ns}};
  return out;
}

}  // namespace

void tune_on_cluster(const ClusterTune& options) {
  const topo::Cluster cluster = find_cluster(options.machine);
  ProgramOptions known = options.program;
  if (!options.ranks_given) known.ranks = cluster.nodes * cluster.gpus_per_node;
  sim::nodes_of(cluster, known.ranks);
  const ir::Program program = read_program(known.file);
  ClusterSearch search(options, cluster, program, sizes_of(program, known));
  const std::vector<Ranked> list = search.run();
  if (list.empty())
    throw Error(
        ErrorKind::unsupported,
        fmt::format("no schedule of {} is small enough to simulate on {}", program.name, counted(known.ranks, "rank")),
        "take fewer ranks or nodes, or larger chunks in a schedule of your own with `weft sim`");
  if (known.json)
    std::printf("%s\n", to_json(list, cluster, known.ranks, search.space()).dump(2).c_str());
  else
    print(list, cluster, known.ranks);
}

}  // namespace weft::tools
