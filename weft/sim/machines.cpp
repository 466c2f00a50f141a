// Figures of a file as costs: bytes per second become ns per byte, protocols bring their lines.
#include "weft/sim/machines.h"

#include "weft/base/error.h"

namespace weft::sim {

NcclMachine nccl_machine(const topo::Cluster& c) {
  if (c.architecture == "cpu")
    throw Error(ErrorKind::unsupported, fmt::format("NCCL on {}, which has no GPUs", c.name), "take a cluster of GPUs");
  NcclMachine m;
  m.arch = c.architecture == "volta" ? GpuArch::volta : c.architecture == "ampere" ? GpuArch::ampere : GpuArch::hopper;
  m.gpus_per_node = c.gpus_per_node;
  m.channels = c.intra.channels;
  m.bw_intra = c.intra.channel_gb_per_s;
  m.channels_inter = c.inter.channels;
  m.bw_inter = c.inter.channel_gb_per_s;
  m.nic = c.inter.gb_per_s;
  m.nvlink = c.intra.kind != "pcie";
  m.amd_cpu = c.cpu == "amd";
  m.ll128 = c.ll128;
  m.nvls = c.nvls;
  m.release = c.nccl;
  return m;
}

Network network_of(const topo::Cluster& c, NcclProtocol protocol) {
  constexpr double wire[] = {2, 16. / 15, 1};
  if (c.architecture == "cpu" && protocol != NcclProtocol::simple) return network_of(c);
  const auto cost = [&](const topo::Joint& joint, NcclLink link) {
    // A file's latency is that of lines which carry their flags (LL); fences and flags apart take longer by what NCCL's
    // model says.
    const double longer = 1000 * (nccl_step_us(link, protocol) - nccl_step_us(link, NcclProtocol::ll));
    LinkCost l{joint.latency_ns + longer, c.send_ns, c.receive_ns, c.gap_ns, 1 / joint.gb_per_s,
               1 / joint.channel_gb_per_s};
    l.wire = wire[static_cast<size_t>(protocol)];
    return l;
  };
  Network n;
  const NcclLink inside = c.intra.kind == "pcie" ? NcclLink::pcie : NcclLink::nvlink;
  n.costs = {cost(c.intra, inside), c.inter.kind == "none" ? cost(c.intra, inside) : cost(c.inter, NcclLink::network)};
  n.ports = 2;
  n.period = c.gpus_per_node;
  n.await_ns = c.intra.latency_ns;
  const int node = c.gpus_per_node;
  n.route = [node](int, int, int from, int to) {
    const auto way = static_cast<uint16_t>(from / node == to / node ? 0 : 1);
    return Route{way, way, way};
  };
  n.step.read_ns_per_byte = n.step.write_ns_per_byte = 1 / c.memory_gb_per_s;
  n.step.read_peer_ns_per_byte = n.step.write_peer_ns_per_byte = 1 / c.intra.gb_per_s;
  n.step.flop_ns = 1e-3 / c.tflops;
  return n;
}

Network network_of(const topo::Cluster& c, const plan::Instance& instance) {
  Network n = network_of(c);
  n.costs.clear();
  for (const NcclProtocol protocol : {NcclProtocol::ll, NcclProtocol::ll128, NcclProtocol::simple})
    for (const LinkCost& cost : network_of(c, protocol).costs) n.costs.push_back(cost);
  std::vector<uint16_t> first;  // of each family: its protocol's cost within a node; the next is that across nodes
  for (const plan::Family& family : instance.plan().families)
    first.push_back(family.protocol == plan::Protocol::ll ? 0 : family.protocol == plan::Protocol::ll128 ? 2 : 4);
  const int node = c.gpus_per_node;
  n.route = [node, first](int family, int, int from, int to) {
    const auto way = static_cast<uint16_t>(from / node == to / node ? 0 : 1);
    return Route{static_cast<uint16_t>(first[static_cast<size_t>(family)] + way), way, way};
  };
  const double channels = instance.channels();
  StepCost& s = n.step;
  for (double* cost :
       {&s.read_ns_per_byte, &s.write_ns_per_byte, &s.read_peer_ns_per_byte, &s.write_peer_ns_per_byte, &s.flop_ns})
    *cost *= channels;
  return n;
}

topo::Machine machine_of(const topo::Cluster& c, int ranks) {
  const topo::Joint& outer = ranks > c.gpus_per_node ? c.inter : c.intra;
  const auto flat = [](double gb_per_s) {
    return topo::BandwidthCurve{{4096, 1e12}, {gb_per_s * 1e9, gb_per_s * 1e9}};
  };
  topo::Machine m;
  m.name = c.name;
  m.source = c.source;
  m.cores = ranks;  // every rank has a GPU of its own
  m.ranks = ranks;
  m.hop_ns = m.await_ns = m.wire_ns = outer.latency_ns;
  m.message_ns = c.send_ns + c.receive_ns;
  m.step_ns = c.gap_ns;
  m.launch_ns = c.launch_us * 1000;
  m.wire_bytes_per_s = outer.gb_per_s * 1e9;
  m.read = m.write = m.write_stream = flat(c.memory_gb_per_s);
  m.read_peer = m.write_peer = m.write_peer_stream = flat(c.intra.gb_per_s);
  m.flops_per_s = m.matmul_flops_per_s = c.tflops * 1e12;
  m.packed_bytes_per_s = c.memory_gb_per_s * 1e9;
  return m;
}

}  // namespace weft::sim
