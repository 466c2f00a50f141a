// Prices times amounts. A link's message is written into a slot by one rank and read from it by the other, so a sent
// byte costs a peer-visible write and a received one a read of fresh remote lines; both lie in the link's rings, whose
// size goes with the chunk. Protocols that carry flags within the data (ll, ll128) are packed and unpacked by the CPU.
#include "weft/tune/cost.h"

#include <algorithm>

namespace weft::tune {
namespace {

struct Terms {
  double memory, compute, matmul, links, latency, wire;
  double total() const { return std::max(memory, compute) + matmul + links + latency + wire; }
};

// Sending is a step of its own, that only moves bytes; a receiving step folds or computes meanwhile.
Terms price(const plan::RankStats& s, const topo::Machine& machine, const PriceOptions& options) {
  const double set = std::max(options.working_set_bytes, 4096.0), ring = std::max(options.ring_bytes, 4096.0);
  const double sent = static_cast<double>(s.bytes_sent), received = static_cast<double>(s.bytes_received);
  const topo::BandwidthCurve& write = options.stream ? machine.write_stream : machine.write;
  const topo::BandwidthCurve& push = options.stream ? machine.write_peer_stream : machine.write_peer;
  const double memory = s.bytes_read_here / machine.read.at(set) + s.bytes_read_mapped / machine.read_peer.at(set) +
                        s.bytes_written_here / write.at(set) + s.bytes_written_mapped / push.at(set) +
                        options.wire * received / machine.read_peer.at(ring);
  const double links = options.wire * sent / machine.write_peer.at(ring) +
                       (options.packed ? (sent + received) / machine.packed_bytes_per_s : 0);
  const double latency = machine.launch_ns + static_cast<double>(s.steps) * machine.step_ns +
                         static_cast<double>(s.messages_sent + s.messages_received) * machine.message_ns +
                         static_cast<double>(s.awaits) * machine.await_ns +
                         static_cast<double>(s.critical_hops) * std::max(machine.hop_ns, machine.wire_ns);
  const double wire =
      machine.wire_bytes_per_s > 0 ? options.wire * std::max(sent, received) / machine.wire_bytes_per_s : 0;
  return {memory * 1e9,
          s.flops / machine.flops_per_s * 1e9,
          s.matmul_flops / machine.matmul_flops_per_s * 1e9,
          links * 1e9,
          latency,
          wire * 1e9};
}

const char* bound_of(const Terms& terms) {
  const double memory = terms.memory + terms.links;
  const double most = std::max({memory, terms.compute, terms.matmul, terms.latency, terms.wire});
  if (most == terms.wire) return "wire";
  if (most == memory) return "memory";
  return most == terms.compute ? "arithmetic" : most == terms.matmul ? "products" : "latency";
}

}  // namespace

Prediction predict(const std::vector<plan::RankStats>& ranks, const topo::Machine& machine,
                   const PriceOptions& options) {
  Prediction slowest;
  // More ranks than cores take turns: what one core must do is the sum over its ranks.
  const double turns = std::max(1.0, static_cast<double>(ranks.size()) / std::max(1, machine.cores));
  for (const plan::RankStats& s : ranks) {
    const Terms terms = price(s, machine, options);
    const double total = (terms.total() - terms.wire) * turns + terms.wire;
    if (total < slowest.total_ns) continue;
    const double per = 1.0 / static_cast<double>(std::max<int64_t>(1, options.elements));
    slowest.total_ns = total;
    slowest.memory_ns = (terms.memory + terms.links) * turns;
    slowest.compute_ns = terms.compute * turns;
    slowest.matmul_ns = terms.matmul * turns;
    slowest.latency_ns = terms.latency * turns;
    slowest.wire_ns = terms.wire;
    slowest.read_bytes = (s.bytes_read_here + s.bytes_read_mapped) * per;
    slowest.written_bytes = (s.bytes_written_here + s.bytes_written_mapped) * per;
    slowest.sent_bytes = (static_cast<double>(s.bytes_sent) + s.bytes_read_mapped + s.bytes_written_mapped) * per;
    slowest.passes = s.passes;
    slowest.messages = s.messages_sent;
    slowest.steps = s.steps;
    slowest.bound = bound_of(terms);
  }
  return slowest;
}

}  // namespace weft::tune
