// weft sim OPERATION: nccl-tests' columns, predicted.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/sim.h"
#include "weft/base/plural.h"
#include "weft/base/text.h"

namespace weft::tools {
namespace {

struct Row {
  sim::Question question;
  std::optional<sim::NcclAnswer> nccl;  // none: there is no NCCL on this machine
  std::optional<sim::PlanAnswer> plan;
  sim::Limit limit;
};

std::string time_text(double us) {
  if (us >= 100'000) return fmt::format("{:.0f}", us);
  return us >= 100 ? fmt::format("{:.1f}", us) : fmt::format("{:.2f}", us);
}

std::string rates(const sim::Question& q, double us, bool algorithm) {
  const double algbw = us > 0 ? static_cast<double>(q.bytes) / us / 1000 : 0,
               bus = sim::bus_factor(q.collective, q.ranks);
  return algorithm ? fmt::format("{:7.2f} {:7.2f}", algbw, algbw * bus) : fmt::format("{:7.2f}", algbw * bus);
}

std::string nccl_text(const Row& row) {
  if (!row.nccl) return fmt::format("{:>9} {:>7} {:>7}  {:<33}", "-", "-", "-", "-");
  const sim::NcclAnswer& a = *row.nccl;
  const std::string way = a.choice ? fmt::format("{} {} {}x{}", name(a.choice->algorithm), name(a.choice->protocol),
                                                 a.launch.channels, a.launch.threads)
                                   : "point to point";
  return fmt::format("{:>9} {}  {:<22} {:<10}", time_text(a.us), rates(row.question, a.us, true), way, a.bound);
}

std::string plan_text(const sim::PlanChoice& c) {
  return fmt::format("{} {} x{} chunk {}", c.algorithm->name(), name(c.protocol), c.channels,
                     human_bytes(static_cast<double>(c.chunk_bytes)));
}

void print_row(const SimOptions& options, const Row& row) {
  const sim::Question& q = row.question;
  const bool sums = algo::reduces(sim::collective_of(q.collective));
  const bool rooted = algo::has_root(sim::collective_of(q.collective));
  std::printf("  %12lld %12lld %8s %6s %5d  %s", static_cast<long long>(q.bytes),
              static_cast<long long>(q.bytes / size_bytes(q.dtype)), std::string(name(q.dtype)).c_str(),
              sums ? options.combine.c_str() : "none", rooted ? options.root : -1, nccl_text(row).c_str());
  if (!options.no_plans) {
    if (row.plan)
      std::printf("  %9s %s  %-42s %-9s", time_text(row.plan->us).c_str(), rates(q, row.plan->us, false).c_str(),
                  plan_text(row.plan->choice).c_str(), row.plan->bound.c_str());
    else
      std::printf("  %9s %7s  %-42s %-9s", "-", "-", "-", "-");
  }
  std::printf("  %9s  %s\n", time_text(row.limit.us).c_str(), row.limit.by.c_str());
  std::fflush(stdout);
}

void print_head(const SimOptions& options, const topo::Cluster& cluster, int ranks, sim::NcclCollective collective) {
  const int nodes = sim::nodes_of(cluster, ranks);
  std::printf(
      "# weft sim %s: predicted, nothing was run; %s on %s of %s%s\n# GB = 1e9 bytes\n#\n",
      std::string(algo::name(sim::collective_of(collective))).c_str(), counted(ranks, "rank").c_str(),
      counted(nodes, "node").c_str(), cluster.name.c_str(),
      cluster.architecture == "cpu" ? "" : fmt::format("; NCCL {}.{}", cluster.nccl / 100, cluster.nccl % 100).c_str());
  std::printf("# %12s %12s %8s %6s %5s  %9s %7s %7s  %-22s %-10s", "size", "count", "type", "redop", "root", "time",
              "algbw", "busbw", "NCCL chooses", "bound by");
  if (!options.no_plans) std::printf("  %9s %7s  %-42s %-9s", "time", "busbw", "Weft chooses", "bound by");
  std::printf("  %9s  %s\n# %12s %12s %8s %6s %5s  %9s %7s %7s  %-22s %-10s", "least", "set by", "(B)", "(elements)",
              "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "");
  if (!options.no_plans) std::printf("  %9s %7s  %-42s %-9s", "(us)", "(GB/s)", "", "");
  std::printf("  %9s\n", "(us)");
}

nlohmann::json to_json(const SimOptions& options, const Row& row) {
  const sim::Question& q = row.question;
  const double bus = sim::bus_factor(q.collective, q.ranks), bytes = static_cast<double>(q.bytes);
  const auto side = [&](double us) {
    const double algbw = us > 0 ? bytes / us / 1000 : 0;
    return nlohmann::json{{"time", us}, {"alg_bw", algbw}, {"bus_bw", algbw * bus}};
  };
  nlohmann::json out = {{"size", q.bytes},
                        {"count", q.bytes / size_bytes(q.dtype)},
                        {"type", name(q.dtype)},
                        {"redop", options.combine},
                        {"root", options.root},
                        {"least_us", row.limit.us},
                        {"least_set_by", row.limit.by}};
  if (row.nccl) {
    out["nccl"] = side(row.nccl->us);
    out["nccl"]["bound"] = row.nccl->bound;
    out["nccl"]["channels"] = row.nccl->launch.channels;
    out["nccl"]["threads"] = row.nccl->launch.threads;
    if (row.nccl->choice) {
      out["nccl"]["algorithm"] = name(row.nccl->choice->algorithm);
      out["nccl"]["protocol"] = name(row.nccl->choice->protocol);
    }
  }
  if (row.plan) {
    const sim::PlanChoice& c = row.plan->choice;
    out["weft"] = side(row.plan->us);
    out["weft"].update({{"algorithm", c.algorithm->name()},
                        {"protocol", name(c.protocol)},
                        {"channels", c.channels},
                        {"chunk_bytes", c.chunk_bytes},
                        {"messages", row.plan->prediction.messages},
                        {"simulated_ranks", row.plan->prediction.simulated_ranks},
                        {"bound", row.plan->bound}});
  }
  return out;
}

// The plan of the row once more, recorded.
void draw(const SimOptions& options, const topo::Cluster& cluster, const Row& row) {
  if (!row.plan)
    throw Error(ErrorKind::unsupported, "no plan of Weft's to draw: none exists for this, or all are too large",
                "fewer --ranks, or a smaller size");
  const sim::PlanChoice& choice = row.plan->choice;
  sim::Trace trace;
  const sim::PlanAnswer again =
      sim::simulate_choice(cluster, row.question, choice, recording(options, row.question.ranks, trace));
  const plan::Instance instance(sim::chosen_plan(row.question, choice).plan, row.question.ranks);
  write_pictures(options, cluster, instance, trace,
                 {fmt::format("{} of {}, {}", algo::name(sim::collective_of(row.question.collective)),
                              human_bytes(static_cast<double>(row.question.bytes)), plan_text(choice)),
                  row.question.ranks, again.prediction.simulated_ranks, cluster.launch_us * 1000});
}

}  // namespace

sim::PlanWishes plan_wishes(const SimOptions& options) {
  sim::PlanWishes wishes{options.keep_order, std::nullopt, options.channels, nullptr};
  for (const auto p : {sim::NcclProtocol::ll, sim::NcclProtocol::ll128, sim::NcclProtocol::simple})
    if (options.protocol == name(p)) wishes.protocol = p;
  if (!options.protocol.empty() && !wishes.protocol)
    throw Error(ErrorKind::user, fmt::format("no protocol is called {}", options.protocol),
                "there are LL, LL128, Simple");
  if (options.algorithm.empty()) return wishes;
  wishes.algorithm = algo::find_algorithm(options.algorithm);
  std::vector<std::string> names;
  for (const algo::Algorithm* a : algo::algorithms()) names.emplace_back(a->name());
  if (!wishes.algorithm)
    throw Error(ErrorKind::user, fmt::format("no algorithm of Weft's is called {}", options.algorithm),
                fmt::format("there are {}", join(names, ", ")));
  return wishes;
}

void sim_collective(const SimOptions& options, sim::NcclCollective collective) {
  const topo::Cluster cluster = find_cluster(options.machine);
  const int ranks = ranks_of(options, cluster);
  if (options.root < 0 || options.root >= ranks)
    throw Error(ErrorKind::user, fmt::format("--root {}: ranks are 0 to {}", options.root, ranks - 1));
  if (collective == sim::NcclCollective::send_recv && ranks < 2)
    throw Error(ErrorKind::user, "send_recv on one rank", "take --ranks 2 or more");
  bench_combine(options.combine);
  sim::nodes_of(cluster, ranks);
  const Dtype dtype = bench_dtype(options.dtype);
  const sim::NcclWishes wishes = nccl_wishes();
  const bool has_nccl = cluster.architecture != "cpu";
  sim::nccl_filter(wishes.algo, wishes.proto, collective);  // what is wrong is said before anything else
  const bool json = options.program.json;
  nlohmann::json rows = nlohmann::json::array();
  const std::vector<int64_t> sizes = sizes_of(options.sweep);
  const sim::PlanWishes plans = plan_wishes(options);
  if (options.pictures() && (sizes.size() != 1 || options.no_plans))
    throw Error(ErrorKind::user, "--trace and --timeline show one run of a plan of Weft's",
                "give one size (-b 1M -e 1M), and no --no-plans");
  if (!json) print_head(options, cluster, ranks, collective);
  for (const int64_t size : sizes) {
    Row row;
    row.question = {collective, ranks, sim::rounded_bytes(collective, ranks, size, dtype), dtype,
                    options.gpus_per_process};
    row.limit = sim::lower_bound(cluster, row.question);
    if (has_nccl) row.nccl = sim::nccl_answer(cluster, row.question, wishes);
    if (!options.no_plans) row.plan = sim::weft_answer(cluster, row.question, plans);
    if (json)
      rows.push_back(to_json(options, row));
    else
      print_row(options, row);
    if (options.pictures()) draw(options, cluster, row);
  }
  if (!json) return;
  const nlohmann::json out = {{"operation", algo::name(sim::collective_of(collective))},
                              {"machine", cluster.name},
                              {"ranks", ranks},
                              {"nodes", sim::nodes_of(cluster, ranks)},
                              {"results", rows}};
  std::printf("%s\n", out.dump(2).c_str());
}

}  // namespace weft::tools
