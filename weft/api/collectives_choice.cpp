// The cost model and the choice (collectives_choice.h).
#include "weft/api/collectives_choice.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "weft/base/text.h"
#include "weft/plan/machine_step.h"

namespace weft::api {
namespace {

// Prices of one machine of this kind (docs/communicator.md has the measurements). Only their order of magnitude decides.
constexpr double hop_ns = 130, hop_oversubscribed_ns = 1100, message_ns = 60, launch_ns = 60;
constexpr double stored_ns = 0.5;  // a byte, stored at a peer
constexpr double stored_limit = 44 << 10, stored_limit_folding = 8 << 10;
// Over a network (loopback of this machine): a message there, a message more, and a byte.
constexpr double hop_network_ns = 9000, message_network_ns = 2500, byte_network_ns = 0.45;
constexpr int64_t ll_limit = 256, ll128_limit = 1 << 10, stream_from = 32 << 20;

// Bytes per nanosecond of one rank over a working set.
double bandwidth(double working_set) {
  if (working_set <= 128 << 10) return 24;
  if (working_set < 1 << 20) return 13;
  if (working_set < 16 << 20) return 8;
  return 4.5;
}

// The default promise: the sum in rank order for every element, rounded once. Partial sums that travel are rounded only
// where the dtype is narrower than its accumulator.
bool keeps_order(const algo::Algorithm& algorithm, Dtype dtype) {
  return algorithm.order() == plan::Order::rank &&
         (algorithm.round() == plan::Round::once || accumulate_dtype(dtype) == dtype);
}

// Which of the call's buffers peers access, and whether anybody stores into a peer's: read off the plan itself.
struct Needs {
  bool send = false, recv = false, stores = false;
};
Needs needs_of(const algo::Algorithm& algorithm, algo::Collective collective, bool given) {
  thread_local std::map<std::tuple<const algo::Algorithm*, algo::Collective, bool>, Needs> known;
  const auto [place, fresh] = known.try_emplace({&algorithm, collective, given});
  if (!fresh) return place->second;
  algo::PlanRequest request;
  request.collective = collective;
  if (given) request.counts = algo::Counts::given;
  const plan::Plan plan = algo::make_plan(algorithm, request);
  for (const plan::Buffer& buffer : plan.buffers) {
    if (buffer.name == "x") place->second.send = buffer.mapped;
    if (buffer.name == "y") place->second.recv = buffer.mapped;
  }
  for (const plan::Lane& lane : plan.lanes)
    for (const plan::Step* step : plan::text_steps(lane.body))
      for (const plan::Operand& target : step->targets)
        place->second.stores |= target.kind == plan::Operand::Kind::slice && target.peers.has_value();
  return place->second;
}

// Bytes that the busiest rank reads and writes. Mapped: what is folded is read once, what is fetched is read and written,
// what is stored at a peer is written once. Links: a message is read, written into a slot and read again.
double touched_bytes(const algo::Algorithm& algorithm, algo::Collective collective, const CallShape& shape,
                     const algo::Algorithm::Cost& cost, bool stores) {
  const auto bytes = static_cast<double>(shape.bytes);
  const algo::Owner owner = algorithm.owner(collective);
  const bool copies = owner != algo::Owner::everyone || reduces(shape.operation);  // else nothing is at a joint
  const double own = !copies ? 0 : owner == algo::Owner::part ? bytes / shape.ranks : bytes;
  if (!algorithm.needs_mapped()) return 3 * cost.bytes_sent + 2 * own;
  const double folded = std::min(cost.bytes_folded, cost.bytes_sent), moved = cost.bytes_sent - folded;
  return folded + (stores ? 1 : 2) * moved + 2 * own;
}

double predict(const algo::Algorithm& algorithm, plan::Protocol protocol, algo::Collective collective,
               const CallShape& shape, const ChoiceSettings& settings) {
  const bool oversubscribed = settings.oversubscribed;
  const auto bytes = static_cast<double>(shape.bytes);
  const algo::Algorithm::Cost cost = algorithm.cost(collective, shape.ranks, bytes);
  if (settings.network)
    return launch_ns + cost.hops * hop_network_ns + cost.messages * message_network_ns +
           std::max(cost.bytes_sent, cost.bytes_received) * byte_network_ns;
  const bool stores = !algorithm.needs_mapped() || needs_of(algorithm, collective, shape.given).stores;
  double hop = oversubscribed ? hop_oversubscribed_ns : hop_ns;
  if (algorithm.needs_mapped()) hop *= 3;  // that memory is ready, cold lines, that peers are done
  if (protocol == plan::Protocol::simple && !algorithm.needs_mapped() && bytes / shape.ranks > 48) hop *= 2.5;
  double touched = touched_bytes(algorithm, collective, shape, cost, stores);
  if (protocol == plan::Protocol::ll) touched *= 2;
  if (protocol == plan::Protocol::ll128) touched *= 1.15;
  // Lines that a peer's core holds are given up one by one: a store into a peer's memory or slot costs more than a load,
  // up to some size, and less where the loads of a fold keep the core waiting anyway.
  const double limit = reduces(shape.operation) ? stored_limit_folding : stored_limit;
  const double stored = stores ? std::clamp(cost.bytes_sent - cost.bytes_folded, 0.0, limit) : 0;
  return launch_ns + cost.hops * hop + cost.messages * message_ns + stored * stored_ns +
         (oversubscribed ? 2 : 1) * touched / bandwidth(2 * bytes);
}

std::string refusal(const algo::Algorithm& algorithm, plan::Protocol protocol, const CallShape& shape,
                    const ChoiceSettings& settings) {
  if (!admits(settings.algorithms, shape.operation, algorithm.name())) return "not among the algorithms asked for";
  if (!admits(settings.protocols, shape.operation, protocol_name(protocol))) return "not among the protocols asked for";
  // An algorithm that is forced by name implies the order that it keeps.
  if (reduces(shape.operation) && !keeps_order(algorithm, shape.dtype) && !settings.any_order &&
      settings.algorithms.empty())
    return "its sums are not in rank order";
  // Lines with a flag each are for readers that see them come; over a network they are only longer.
  if (settings.network && protocol != plan::Protocol::simple && settings.protocols.empty())
    return "for memory that peers see";
  if (algorithm.needs_mapped() && settings.network) return "needs memory that all ranks map";
  if (algorithm.needs_mapped() && shape.apart) return "in place on some ranks and not on others";
  if (algorithm.needs_mapped() && shape.in_place && shape.operation == Operation::all_reduce &&
      algorithm.owner(algo::Collective::all_reduce) == algo::Owner::everyone)
    return "reads what it would overwrite in place";
  if (algorithm.name() == "gather") return "the yardstick, never the choice";
  return "";
}

std::string memory_refusal(const algo::Algorithm& algorithm, algo::Collective collective, const CallShape& shape) {
  if (!algorithm.needs_mapped()) return "";
  const Needs needs = needs_of(algorithm, collective, shape.given);
  if (needs.send && !shape.send_mapped) return "needs send memory that peers map";
  if (needs.recv && !shape.recv_mapped) return "needs receive memory that peers map";
  return "";
}

bool worth(plan::Protocol protocol, const CallShape& shape) {
  if (protocol == plan::Protocol::ll) return shape.bytes <= ll_limit;
  if (protocol == plan::Protocol::ll128) return shape.bytes <= ll128_limit;
  return true;
}

const Rule* find_rule(const CallShape& shape, const ChoiceSettings& settings) {
  const bool mapped = shape.send_mapped || shape.recv_mapped;
  for (const Rule& rule : settings.rules) {
    if (rule.operation != name(shape.operation) || (rule.ranks != 0 && rule.ranks != shape.ranks)) continue;
    if (shape.bytes < rule.least_bytes || shape.bytes > rule.most_bytes) continue;
    if (rule.memory != "any" && (rule.memory == "mapped") != mapped) continue;
    return &rule;
  }
  return nullptr;
}

void finish(Setting& setting, const CallShape& shape) {
  if (setting.algorithm->needs_mapped()) {
    setting.stream = shape.bytes >= stream_from;
    return;
  }
  // Small messages in many slots: a root that only sends runs ahead instead of waiting for slots to be given back.
  constexpr int64_t few_bytes = 1024, small_chunk_bytes = 4 << 10, large_chunk_bytes = 128 << 10;
  setting.chunk_bytes = shape.bytes <= few_bytes ? small_chunk_bytes : large_chunk_bytes;
  if (shape.bytes <= few_bytes) setting.slots = 16;
}

}  // namespace

std::string_view protocol_name(plan::Protocol protocol) {
  switch (protocol) {
    case plan::Protocol::simple: return "simple";
    case plan::Protocol::ll: return "ll";
    case plan::Protocol::ll128: return "ll128";
  }
  return "";
}

std::optional<plan::Protocol> parse_protocol(std::string_view text) {
  for (const plan::Protocol protocol : {plan::Protocol::simple, plan::Protocol::ll, plan::Protocol::ll128})
    if (protocol_name(protocol) == text) return protocol;
  return std::nullopt;
}

std::string Setting::text() const {
  std::string out = fmt::format("{} {}", algorithm->name(), protocol_name(protocol));
  if (chunk_bytes > 0) out += fmt::format(" chunk {}", chunk_bytes);
  if (stream) out += " stream";
  return out;
}

std::vector<Candidate> candidates(const CallShape& shape, const ChoiceSettings& settings) {
  std::vector<Candidate> list;
  const Operation collective = shape.operation;
  for (const algo::Algorithm* algorithm : algo::algorithms()) {
    const algo::Counts counts = shape.given ? algo::Counts::given : algo::Counts::even;
    if (!algorithm->supports(collective, counts) || !algorithm->supports_ranks(shape.ranks)) continue;
    for (const plan::Protocol protocol : {plan::Protocol::simple, plan::Protocol::ll, plan::Protocol::ll128}) {
      if (algorithm->needs_mapped() && protocol != plan::Protocol::simple) continue;
      Candidate candidate;
      candidate.setting.algorithm = algorithm;
      candidate.setting.protocol = protocol;
      finish(candidate.setting, shape);
      candidate.predicted_ns = predict(*algorithm, protocol, collective, shape, settings);
      candidate.refused = refusal(*algorithm, protocol, shape, settings);
      if (candidate.refused.empty()) candidate.refused = memory_refusal(*algorithm, collective, shape);
      if (candidate.refused.empty() && !worth(protocol, shape) && settings.protocols.empty())
        candidate.refused = "meant for small messages";
      list.push_back(candidate);
    }
  }
  std::stable_sort(list.begin(), list.end(), [](const Candidate& a, const Candidate& b) {
    if (a.refused.empty() != b.refused.empty()) return a.refused.empty();
    return a.predicted_ns < b.predicted_ns;
  });
  return list;
}

Setting choose(const CallShape& shape, const ChoiceSettings& settings) {
  const std::vector<Candidate> list = candidates(shape, settings);
  const Rule* rule = settings.algorithms.empty() && settings.protocols.empty() ? find_rule(shape, settings) : nullptr;
  if (rule)
    for (const Candidate& candidate : list) {
      if (candidate.setting.algorithm->name() != rule->algorithm ||
          protocol_name(candidate.setting.protocol) != rule->protocol ||
          (!candidate.refused.empty() && candidate.refused != "meant for small messages"))
        continue;
      Setting setting = candidate.setting;
      if (rule->chunk_bytes > 0) setting.chunk_bytes = rule->chunk_bytes;
      if (rule->stream >= 0) setting.stream = rule->stream > 0;
      return setting;
    }
  if (!list.empty() && list.front().refused.empty()) return list.front().setting;
  std::vector<std::string> reasons;
  for (const Candidate& candidate : list)
    reasons.push_back(fmt::format("{}: {}", candidate.setting.text(), candidate.refused));
  throw Error(
      ErrorKind::unsupported,
      fmt::format("no algorithm for {} of {} on {} ranks", name(shape.operation), name(shape.dtype), shape.ranks),
      list.empty() ? "the registry has no plan for this operation" : join(reasons, "\n    "));
}

int64_t small_bytes(const ChoiceSettings& settings, Operation, int) {
  constexpr int64_t hop_is_cheap = 1 << 10, hop_is_a_switch = 16 << 10;
  if (!settings.algorithms.empty()) return 0;
  // With more ranks than cores meeting costs switches of all of them, more than links cost at these sizes.
  return settings.oversubscribed ? hop_is_a_switch : hop_is_cheap;
}

}  // namespace weft::api
