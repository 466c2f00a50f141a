// Weft's plans for a collective, simulated.
//
// Algorithm x protocol x channels x chunk would be hundreds of simulations a size. Cost rows order the algorithms in
// microseconds of work; of the first few, the protocols and channels that can be right for the size are simulated.
#include <algorithm>
#include <cmath>

#include "weft/algo/select.h"
#include "weft/base/error.h"
#include "weft/sim/collective.h"

namespace weft::sim {
namespace {

constexpr double most_messages = 8e5;                // of one simulation
constexpr uint64_t messages_for_a_size = 4'000'000;  // of all candidates together: a second or two
constexpr size_t algorithms_simulated = 4;

constexpr int64_t whole_chunk_bytes[] = {32 << 10, 512 << 10, 512 << 10};  // as NCCL's slots: LL, LL128, Simple

// Elements of a part that one channel carries.
int64_t share_bytes(const Question& q, int channels) {
  return std::max<int64_t>(1, q.bytes / std::max(1, q.ranks) / std::max(1, channels));
}

std::vector<NcclProtocol> protocols_for(const topo::Cluster& cluster, int64_t bytes) {
  std::vector<NcclProtocol> list;
  if (cluster.architecture == "cpu") return {NcclProtocol::simple};
  if (bytes <= 4 << 20) list.push_back(NcclProtocol::ll);
  if (cluster.ll128) list.push_back(NcclProtocol::ll128);
  if (bytes >= 64 << 10 || list.empty()) list.push_back(NcclProtocol::simple);
  return list;
}

plan::Protocol plan_protocol(NcclProtocol protocol) {
  constexpr plan::Protocol all[] = {plan::Protocol::ll, plan::Protocol::ll128, plan::Protocol::simple};
  return all[static_cast<size_t>(protocol)];
}

}  // namespace

algo::Collective collective_of(NcclCollective collective) {
  constexpr algo::Collective all[] = {algo::Collective::all_reduce,     algo::Collective::all_gather,
                                      algo::Collective::reduce_scatter, algo::Collective::broadcast,
                                      algo::Collective::reduce,         algo::Collective::all_to_all,
                                      algo::Collective::send_recv};
  return all[static_cast<size_t>(collective)];
}

PlanChoice plan_choice(const topo::Cluster& cluster, const Question& q, const algo::Algorithm& algorithm,
                       NcclProtocol protocol, int channels) {
  PlanChoice choice{&algorithm, protocol, channels, 0, 8};
  const auto cost = algorithm.cost(collective_of(q.collective), q.ranks, static_cast<double>(q.bytes));
  const bool folded = q.ranks > 2 * cluster.gpus_per_node && algorithm.name() == "ring";
  const double ranks = folded ? cluster.gpus_per_node : q.ranks;
  // Values that ranks pass on whole are cut so that each is busy; others need few chunks a channel.
  const double messages = ranks * std::max({1., cost.hops, cost.messages}) * channels;
  const double pieces = std::clamp(most_messages / 2 / messages, 1., 64.);
  const int64_t share = share_bytes(q, channels);
  choice.chunk_bytes = std::clamp<int64_t>(std::min((share + 1) / 2, whole_chunk_bytes[static_cast<size_t>(protocol)]),
                                           1024, int64_t{1} << 40);
  choice.chunk_bytes = std::max(choice.chunk_bytes, static_cast<int64_t>(static_cast<double>(share) / pieces));
  return choice;
}

std::vector<PlanChoice> plan_choices(const topo::Cluster& cluster, const Question& q, const PlanWishes& wishes) {
  const int nodes = nodes_of(cluster, q.ranks);
  algo::Machine machine;
  const topo::Joint& outer = nodes > 1 ? cluster.inter : cluster.intra;
  machine.alpha_s = (outer.latency_ns + cluster.send_ns + cluster.receive_ns) * 1e-9;
  machine.bytes_per_s = outer.gb_per_s * 1e9;
  machine.folded_bytes_per_s = cluster.memory_gb_per_s * 1e9;
  machine.host_ranks = q.ranks / nodes;
  machine.host_alpha_s = (cluster.intra.latency_ns + cluster.send_ns + cluster.receive_ns) * 1e-9;
  machine.host_bytes_per_s = cluster.intra.gb_per_s * 1e9;
  machine.mapped = nodes == 1;
  algo::Wanted wanted{collective_of(q.collective), q.ranks, static_cast<double>(q.bytes)};
  wanted.order = wishes.keep_order ? plan::Order::rank : plan::Order::any;
  std::vector<PlanChoice> list;
  const int found = nodes > 1 ? cluster.inter.channels : cluster.intra.channels;
  const auto wide =
      static_cast<int>(std::clamp<int64_t>(share_bytes(q, 1) / (64 << 10), 1, std::max(found, cluster.intra.channels)));
  const std::vector<NcclProtocol> protocols =
      wishes.protocol ? std::vector{*wishes.protocol} : protocols_for(cluster, q.bytes);
  std::vector<int> channels{wishes.channels ? wishes.channels : wide};
  if (!wishes.channels && wide > 1) channels.push_back(std::max(1, wide / 4));
  const auto add = [&](const algo::Algorithm& algorithm) {
    for (const NcclProtocol protocol : protocols)
      for (const int count : channels) list.push_back(plan_choice(cluster, q, algorithm, protocol, count));
  };
  if (wishes.algorithm) return add(*wishes.algorithm), list;
  size_t algorithms = 0;
  for (const algo::CostRow& row : algo::cost_rows(wanted, machine)) {
    const auto cost = row.algorithm->cost(wanted.collective, q.ranks, static_cast<double>(q.bytes));
    if (cost.messages * q.ranks > most_messages) continue;
    add(*row.algorithm);
    if (++algorithms == algorithms_simulated) break;
  }
  return list;
}

ChosenPlan chosen_plan(const Question& q, const PlanChoice& choice) {
  algo::PlanRequest request;
  request.collective = collective_of(q.collective);
  request.dtype = std::string(name(q.dtype));
  request.channels = choice.channels;
  request.slots = choice.slots;
  request.protocol = plan_protocol(choice.protocol);
  request.to = q.collective == NcclCollective::send_recv ? q.ranks - 1 : 0;
  ChosenPlan chosen{algo::make_plan(*choice.algorithm, request), {}, {}};
  chosen.spaces.resize(chosen.plan.spaces.size());
  chosen.spaces[0].extent = plan::Cut{1, q.bytes / size_bytes(q.dtype), 1};
  const int64_t grain = std::max<int64_t>(1, chosen.plan.spaces[0].grain);
  chosen.chunk_elements.assign(chosen.spaces.size(),
                               std::max(grain, choice.chunk_bytes / size_bytes(q.dtype) / grain * grain));
  return chosen;
}

PlanAnswer simulate_choice(const topo::Cluster& cluster, const Question& q, const PlanChoice& choice,
                           const Options& options) {
  const ChosenPlan chosen = chosen_plan(q, choice);
  const plan::Instance instance(chosen.plan, q.ranks);
  Options asked = options;
  if (!asked.most_messages) asked.most_messages = static_cast<uint64_t>(4 * most_messages);
  if (asked.fold == Fold::exact && q.ranks > 64) asked.fold = Fold::always;
  PlanAnswer answer;
  answer.choice = choice;
  const Network network = network_of(cluster, instance);
  answer.prediction = simulate(instance, chosen.spaces, chosen.chunk_elements, network, asked);
  const double launch_ns = cluster.launch_us * 1000;
  answer.us = (launch_ns + answer.prediction.end_ns) / 1000;
  answer.us = std::max(answer.us, cluster.launch_us * q.gpus_per_process);
  return answer;
}

std::string bound_of(const Prediction& p, double launch_ns, double end_with_more_slots_ns) {
  if (launch_ns > p.end_ns) return "launch";
  if (p.busiest_port_ns > 0.7 * p.end_ns) return "port";
  if (end_with_more_slots_ns < 0.95 * p.end_ns) return "slots";
  if (p.busiest_lane_ns > 0.7 * p.end_ns) return "channel";
  return "latency";
}

std::optional<PlanAnswer> weft_answer(const topo::Cluster& cluster, const Question& question,
                                      const PlanWishes& wishes) {
  std::optional<PlanAnswer> best;
  uint64_t left = messages_for_a_size;
  for (const PlanChoice& choice : plan_choices(cluster, question, wishes)) {
    if (left == 0) break;
    Options options;
    options.most_messages = left;
    try {
      const PlanAnswer answer = simulate_choice(cluster, question, choice, options);
      left -= std::min(left, answer.prediction.messages);
      if (!best || answer.us < best->us) best = answer;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::timeout && error.kind() != ErrorKind::unsupported) throw;
      if (error.kind() == ErrorKind::timeout) left /= 2;
    }
  }
  if (!best) return best;
  PlanChoice more = best->choice;
  more.slots *= 4;
  Options again;  // as many messages, however many slots
  again.most_messages = 2 * best->prediction.messages + 1000;
  const double relaxed = simulate_choice(cluster, question, more, again).prediction.end_ns;
  best->bound = bound_of(best->prediction, cluster.launch_us * 1000, relaxed);
  return best;
}

}  // namespace weft::sim
