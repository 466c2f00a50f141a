// Prices times amounts. A link's message is written into a slot by one rank and read from it by the other, so a sent
// byte costs a peer-visible write and a received one a read of fresh remote lines; both lie in cache-sized rings.
#include "weft/tune/cost.h"

#include <algorithm>

namespace weft::tune {
namespace {

struct Terms {
  double memory, compute, latency;
};

Terms price(const plan::RankStats& s, const topo::Machine& machine, const PriceOptions& options) {
  const double set = std::max(options.working_set_bytes, 4096.0);
  const double slot_set = 1 << 20;  // rings of slots stay in the shared cache
  const topo::BandwidthCurve& write = options.stream ? machine.write_stream : machine.write;
  const topo::BandwidthCurve& push = options.stream ? machine.write_peer_stream : machine.write_peer;
  const double memory = s.bytes_read_here / machine.read.at(set) + s.bytes_read_mapped / machine.read_peer.at(set) +
                        s.bytes_written_here / write.at(set) + s.bytes_written_mapped / push.at(set) +
                        static_cast<double>(s.bytes_sent) / machine.write_peer.at(slot_set) +
                        static_cast<double>(s.bytes_received) / machine.read_peer.at(slot_set);
  const double latency = machine.launch_ns + static_cast<double>(s.steps) * machine.step_ns +
                         static_cast<double>(s.messages_sent + s.messages_received) * machine.message_ns +
                         static_cast<double>(s.awaits) * machine.await_ns +
                         static_cast<double>(s.critical_hops) * machine.hop_ns;
  return {memory * 1e9, s.flops / machine.flops_per_s * 1e9, latency};
}

}  // namespace

Prediction predict(const std::vector<plan::RankStats>& ranks, const topo::Machine& machine,
                   const PriceOptions& options) {
  Prediction slowest;
  // More ranks than cores take turns: what one core must do is the sum over its ranks.
  const double turns = std::max(1.0, static_cast<double>(ranks.size()) / std::max(1, machine.cores));
  for (const plan::RankStats& s : ranks) {
    const Terms terms = price(s, machine, options);
    const double total = (std::max(terms.memory, terms.compute) + terms.latency) * turns;
    if (total < slowest.total_ns) continue;
    const double per = 1.0 / static_cast<double>(std::max<int64_t>(1, options.elements));
    slowest.total_ns = total;
    slowest.memory_ns = terms.memory * turns;
    slowest.compute_ns = terms.compute * turns;
    slowest.latency_ns = terms.latency * turns;
    slowest.read_bytes = (s.bytes_read_here + s.bytes_read_mapped) * per;
    slowest.written_bytes = (s.bytes_written_here + s.bytes_written_mapped) * per;
    slowest.sent_bytes = (static_cast<double>(s.bytes_sent) + s.bytes_read_mapped + s.bytes_written_mapped) * per;
    slowest.passes = s.passes;
    slowest.messages = s.messages_sent;
    slowest.steps = s.steps;
    slowest.bound = terms.latency > std::max(terms.memory, terms.compute) ? "latency"
                    : terms.compute > terms.memory                        ? "arithmetic"
                                                                          : "memory";
  }
  return slowest;
}

}  // namespace weft::tune
