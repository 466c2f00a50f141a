// NCCL's answer, and the bound.
#include "weft/sim/collective.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/plural.h"

namespace weft::sim {
namespace {

bool has_parts(NcclCollective c) {
  return c == NcclCollective::all_gather || c == NcclCollective::reduce_scatter || c == NcclCollective::all_to_all;
}

std::string link_name(const topo::Joint& joint) {
  return joint.kind == "nvswitch" ? "nvlink" : joint.kind == "memory" ? "memory" : joint.kind;
}

// How often a byte of nccl-tests' size has to pass the way in or out of one of `parts` equal owners (GPUs, or nodes).
double crossings(NcclCollective c, double parts, double ranks_each) {
  switch (c) {
    case NcclCollective::all_reduce: return 2 * (parts - 1) / parts;
    case NcclCollective::all_gather:
    case NcclCollective::reduce_scatter: return (parts - 1) / parts;
    case NcclCollective::all_to_all: return ranks_each * (parts - 1) / parts;
    case NcclCollective::broadcast:
    case NcclCollective::reduce: return 1;
    case NcclCollective::send_recv: return 1;
  }
  return 1;
}

// Sizes that the busiest GPU's memory has to give and take at least: what it sends once, what it keeps once.
double touched(NcclCollective collective, double ranks) {
  switch (collective) {
    case NcclCollective::all_reduce: return 2;
    case NcclCollective::all_gather:
    case NcclCollective::reduce_scatter: return 1 + 1 / ranks;
    case NcclCollective::all_to_all: return 2 * (ranks - 1) / ranks;
    case NcclCollective::broadcast:
    case NcclCollective::reduce:
    case NcclCollective::send_recv: return 1;
  }
  return 1;
}

}  // namespace

int nodes_of(const topo::Cluster& cluster, int ranks) {
  const int64_t most = int64_t{cluster.nodes} * cluster.gpus_per_node;
  if (ranks < 1 || ranks > most)
    throw Error(ErrorKind::user,
                fmt::format("{} on {}: it has {} of {}", counted(ranks, "rank"), cluster.name,
                            counted(cluster.nodes, "node"), counted(cluster.gpus_per_node, "GPU")),
                "give NAME:NODES for more nodes, such as dgx_h100:16, or fewer --ranks");
  const int nodes = (ranks + cluster.gpus_per_node - 1) / cluster.gpus_per_node;
  if (ranks % nodes != 0)
    throw Error(
        ErrorKind::user, fmt::format("{} do not fill {} evenly", counted(ranks, "rank"), counted(nodes, "node")),
        fmt::format("nodes have {}: take a multiple, or at most so many", counted(cluster.gpus_per_node, "GPU")));
  return nodes;
}

int64_t rounded_bytes(NcclCollective collective, int ranks, int64_t bytes, Dtype dtype) {
  const int64_t unit = size_bytes(dtype) * (has_parts(collective) ? ranks : 1);
  return bytes / unit * unit;
}

double bus_factor(NcclCollective collective, int ranks) {
  const double n = ranks;
  if (collective == NcclCollective::all_reduce) return 2 * (n - 1) / n;
  return has_parts(collective) ? (n - 1) / n : 1;
}

Limit lower_bound(const topo::Cluster& cluster, const Question& question) {
  const int nodes = nodes_of(cluster, question.ranks);
  const double local = question.ranks / nodes, bytes = static_cast<double>(question.bytes);
  Limit limit{cluster.launch_us * question.gpus_per_process, "launch"};
  const auto raise = [&](double us, const std::string& by) {
    if (us > limit.us) limit = {us, by};
  };
  if (question.ranks == 1) return limit;
  const topo::Joint& outer = nodes > 1 ? cluster.inter : cluster.intra;
  const double latency = outer.latency_ns / 1000;
  raise(latency, "latency");
  // What a GPU has to get or send, through all of its ways; a switch that reduces (NVLS) halves it.
  double each = crossings(question.collective, question.ranks, 1);
  if (cluster.nvls && question.collective == NcclCollective::all_reduce) each = std::min(each, 1.);
  const bool p2p = question.collective == NcclCollective::send_recv;
  const double ways_gb =
      nodes == 1 ? cluster.intra.gb_per_s : cluster.inter.gb_per_s + (p2p ? 0 : cluster.intra.gb_per_s);
  raise(latency + each * bytes / (1000 * ways_gb), p2p && nodes > 1 ? "network" : link_name(cluster.intra));
  if (nodes > 1) {
    const double ways = p2p ? 1 : local;  // all GPUs of a node can carry what leaves it
    raise(latency + crossings(question.collective, nodes, local) * bytes / (1000 * cluster.inter.gb_per_s * ways),
          "network");
  }
  raise(touched(question.collective, question.ranks) * bytes / (1000 * cluster.memory_gb_per_s), "memory");
  return limit;
}

NcclAnswer nccl_answer(const topo::Cluster& cluster, const Question& question, const NcclWishes& wishes) {
  const NcclMachine machine = nccl_machine(cluster);
  NcclJob job{question.collective, question.ranks, nodes_of(cluster, question.ranks),
              static_cast<double>(question.bytes), question.gpus_per_process};
  NcclAnswer answer;
  NcclParameters parameters;
  parameters.launch_us = cluster.launch_us;
  std::vector<NcclChoice> table = nccl_table(machine, job, nccl_filter(wishes.algo, wishes.proto, question.collective));
  nccl_limit(table, machine, job, wishes.limits);
  const double floor_us = parameters.launch_us * question.gpus_per_process;
  const bool tuned =
      question.collective != NcclCollective::all_to_all && question.collective != NcclCollective::send_recv;
  const std::string link = job.nodes > 1 ? "network" : link_name(cluster.intra);
  if (!tuned) {
    answer.us = nccl_time_us(machine, job, nullptr, parameters);
    NcclJob empty = job;
    empty.bytes = 0;
    const double latency = nccl_time_us(machine, empty, nullptr, parameters);
    answer.bound = answer.us <= floor_us ? "launch" : 2 * latency > answer.us ? "latency" : link;
    answer.launch = nccl_launch(machine, job, NcclChoice{}, wishes.limits);
  } else {
    answer.choice = nccl_choose(table, job.bytes);
    answer.launch = nccl_launch(machine, job, *answer.choice, wishes.limits);
    answer.us = nccl_time_us(machine, job, &*answer.choice, parameters);
    NcclJob empty = job;
    empty.bytes = 0;
    const double latency = nccl_time_us(machine, empty, &*answer.choice, parameters);
    answer.bound = floor_us > 0.9 * answer.us ? "launch" : 2 * latency > answer.us ? "latency" : link;
  }
  answer.us = std::max(answer.us, lower_bound(cluster, question).us);
  return answer;
}

}  // namespace weft::sim
