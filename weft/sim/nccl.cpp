// The tuner's table and the calibrated time.
#include "weft/sim/nccl.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::sim {
namespace {

constexpr std::string_view algorithm_names[] = {"Tree", "Ring", "NVLS", "NVLSTree"};
constexpr std::string_view protocol_names[] = {"LL", "LL128", "Simple"};

// us, by protocol: what starting costs, and a step over each kind of link (NVLink, PCIe, network).
constexpr double base_tree[] = {6.8, 14, 8.4}, base_ring[] = {6.6, 14, 8.4};
constexpr double step_tree[3][3] = {{0.6, 1.25, 4.0}, {1.0, 1.9, 4.0}, {5.0, 8.5, 14}};
constexpr double step_ring[3][3] = {{0.6, 1.9, 3.4}, {1.0, 2.5, 5.7}, {2.7, 4.0, 14}};
constexpr double net_overhead_us[] = {1, 2};  // Intel and others, AMD; three times for Simple
constexpr double nvls_us = 25;
constexpr double nvls_tree_channel[] = {57.7, 45.5};  // GB/s, Hopper, 2 nodes and more
// GB/s by architecture (Volta, Ampere, Hopper) and by 1, 2, more nodes.
constexpr double ll_most[3][3] = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}};
constexpr double ring_ll128_channel[] = {20, 20, 36.7};
constexpr double tree_ll128_channel[3][3] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}};
constexpr double tree_channel[3][3] = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}};
// Factors by log2(bytes / 64).
constexpr double tree_correction[3][23] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}};

double correction(NcclAlgorithm algorithm, int protocol, double bytes) {
  if (algorithm != NcclAlgorithm::tree) return 1;
  const int at = static_cast<int>(std::floor(std::log2(std::max(1.0, bytes / 64))));
  return at > 22 ? 1 : tree_correction[protocol][at];
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return std::tolower(x) == std::tolower(y); });
}

// "ring,tree" or "^ring" onto `allowed`.
struct Words {
  const char* variable;
  std::vector<std::string_view> modelled, others;  // others: NCCL knows them, the table has no row for them
};
const Words algorithm_words{
    "NCCL_ALGO", {std::begin(algorithm_names), std::end(algorithm_names)}, {"CollnetDirect", "CollnetChain", "PAT"}};
const Words protocol_words{"NCCL_PROTO", {std::begin(protocol_names), std::end(protocol_names)}, {}};

void apply_list(std::string_view list, const Words& known, bool* allowed) {
  const bool inverted = !list.empty() && list[0] == '^';
  if (inverted) list.remove_prefix(1);
  std::vector<bool> named(known.modelled.size());
  for (const std::string& word : split(list, ',')) {
    bool found = std::any_of(known.others.begin(), known.others.end(),
                             [&](std::string_view other) { return same_word(word, other); });
    for (size_t i = 0; i < named.size(); ++i)
      if (same_word(word, known.modelled[i])) named[i] = found = true;
    if (!found)
      throw Error(ErrorKind::user, fmt::format("{}: `{}` is unknown", known.variable, word),
                  known.others.empty()
                      ? "protocols: LL, LL128, Simple"
                      : "algorithms: Tree, Ring, NVLS, NVLSTree (CollnetDirect, CollnetChain, PAT are known and not "
                        "modelled)");
  }
  for (size_t i = 0; i < named.size(); ++i) allowed[i] = named[i] != inverted;
}

bool is_function(std::string_view word, NcclCollective collective) {
  constexpr std::string_view names[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast",
                                        "Reduce",    "AlltoAll",  "SendRecv"};
  for (const std::string_view n : names)
    if (same_word(word, n)) return same_word(word, names[static_cast<size_t>(collective)]);
  throw Error(ErrorKind::user, fmt::format("NCCL_ALGO or NCCL_PROTO names the function `{}`", word),
              "functions: AllReduce, AllGather, ReduceScatter, Broadcast, Reduce");
}

void apply(std::string_view setting, const Words& known, bool* allowed, NcclCollective collective) {
  if (trim(setting).empty()) return;
  for (const std::string& entry : split(setting, ';')) {
    const size_t colon = entry.find(':');
    if (colon == std::string::npos)
      apply_list(trim(entry), known, allowed);
    else if (is_function(trim(std::string_view(entry).substr(0, colon)), collective))
      apply_list(trim(std::string_view(entry).substr(colon + 1)), known, allowed);
  }
  if (std::none_of(allowed, allowed + known.modelled.size(), [](bool b) { return b; }))
    throw Error(ErrorKind::user, fmt::format("{}={} leaves nothing for this collective", known.variable, setting),
                "name at least one that NCCL has for it and that is modelled");
}

bool is_p2p(NcclCollective c) { return c == NcclCollective::all_to_all || c == NcclCollective::send_recv; }

struct TableMaker {
  const NcclMachine& m;
  const NcclJob& job;
  int local, nets, channels;
  double bus;

  TableMaker(const NcclMachine& machine, const NcclJob& j)
      : m(machine),
        job(j),
        local(std::max(1, j.ranks / std::max(1, j.nodes))),
        nets(j.nodes == 1   ? 0
             : j.nodes == 2 ? 1
                            : 2) {
    channels = job.nodes > 1 ? m.channels_inter : m.channels;
    bus = channels * (job.nodes > 1 ? m.bw_inter : m.bw_intra);
  }
  int arch() const { return static_cast<int>(m.arch); }
  double ll_cap() const { return ll_most[nets == 0 ? arch() : (m.amd_cpu ? 1 : 0)][nets]; }

  NcclChoice ring(int p) const {
    const bool all_reduce = job.collective == NcclCollective::all_reduce;
    const bool chain = job.collective == NcclCollective::broadcast || job.collective == NcclCollective::reduce;
    const double k = job.ranks, steps = all_reduce ? 2 * (k - 1) : chain ? k : k - 1;
    double bw = bus;
    if (p == 0) bw = std::min(ll_cap(), bus * (m.release >= 223 ? .5 : nets == 0 && !all_reduce ? 1. / 3 : .25));
    if (p == 1) bw = std::min(bus * (local < 2 ? 0.7 : 0.92), channels * ring_ll128_channel[arch()]);
    NcclChoice c{NcclAlgorithm::ring, static_cast<NcclProtocol>(p), base_ring[p], 0, 0, bw * k / steps, 1};
    const double inter = job.nodes > 1 ? (all_reduce ? 2 : 1) * (job.nodes - 1.) : 0;
    // Across nodes a step inside of one cannot be faster than what the proxies need to keep up.
    const double overhead = job.nodes > 1 && !chain ? net_overhead_us[m.amd_cpu ? 1 : 0] * (p == 2 ? 3 : 1) : 0;
    const double intra_step = std::max(step_ring[m.nvlink ? 0 : 1][p], overhead);
    c.intra_us = chain ? (job.nodes > 1 ? 0 : intra_step) : (steps - inter) * intra_step;
    const double net =
        local == 1 && !chain ? step_tree[2][p] : step_ring[2][p];  // as measured where a node has one GPU
    c.inter_us = chain ? (job.nodes > 1 ? net : 0) : inter * net;
    const bool plateau = p == 2 && all_reduce && job.nodes > 1 && job.bytes / (channels * k) >= 64;
    const double longer = plateau ? (m.arch == GpuArch::volta ? 1.9 : 1.4) : 1;
    c.base_us *= longer, c.intra_us *= longer, c.inter_us *= longer;
    return c;
  }

  NcclChoice tree(int p) const {
    const double whole = std::min(bus * 0.92, channels * tree_channel[arch()][nets]);
    double bw = whole;
    if (p == 0) bw = std::min(whole / 3.8, ll_cap());
    if (p == 1) bw = std::min(whole * (nets == 0 ? 7. / 9 : 120. / 128), channels * tree_ll128_channel[arch()][nets]);
    NcclChoice c{NcclAlgorithm::tree, static_cast<NcclProtocol>(p), base_tree[p], 0, 0, bw * 0.5, 1};
    c.intra_us = 2 * (local - 1.) * step_tree[m.nvlink ? 0 : 1][p];
    c.inter_us = 2 * std::log2(static_cast<double>(job.nodes)) * step_tree[2][p];
    c.correction = correction(NcclAlgorithm::tree, p, job.bytes);
    return c;
  }
};

}  // namespace

std::string_view name(NcclAlgorithm algorithm) { return algorithm_names[static_cast<size_t>(algorithm)]; }
std::string_view name(NcclProtocol protocol) { return protocol_names[static_cast<size_t>(protocol)]; }

NcclCollective nccl_collective(std::string_view name) {
  constexpr std::pair<std::string_view, NcclCollective> names[] = {{"all_reduce", NcclCollective::all_reduce},
                                                                   {"all_gather", NcclCollective::all_gather},
                                                                   {"reduce_scatter", NcclCollective::reduce_scatter},
                                                                   {"broadcast", NcclCollective::broadcast},
                                                                   {"reduce", NcclCollective::reduce},
                                                                   {"alltoall", NcclCollective::all_to_all},
                                                                   {"all_to_all", NcclCollective::all_to_all},
                                                                   {"sendrecv", NcclCollective::send_recv},
                                                                   {"send_recv", NcclCollective::send_recv}};
  for (const auto& [text, value] : names)
    if (text == name) return value;
  throw Error(ErrorKind::user, fmt::format("`{}` is no collective of nccl-tests", name),
              "such as all_reduce or alltoall");
}

NcclFilter nccl_filter(std::string_view algo, std::string_view proto, NcclCollective collective) {
  NcclFilter filter;
  apply(algo, algorithm_words, filter.algorithm, collective);
  apply(proto, protocol_words, filter.protocol, collective);
  return filter;
}

std::vector<NcclChoice> nccl_table(const NcclMachine& machine, const NcclJob& job, const NcclFilter& filter) {
  if (job.ranks < 1 || job.nodes < 1 || job.nodes > job.ranks || job.bytes < 0)
    throw Error(ErrorKind::user, fmt::format("{} ranks on {} nodes, {} bytes", job.ranks, job.nodes, job.bytes),
                "at least one rank a node, and no negative sizes");
  std::vector<NcclChoice> table;
  if (is_p2p(job.collective)) return table;
  const TableMaker make(machine, job);
  const bool forced_ll128 = !filter.protocol[0] && !filter.protocol[2];  // a forced one passes the safety rule
  for (int p = 0; p < 3; ++p) {
    if (!filter.protocol[p] || (p == 1 && !machine.ll128 && !forced_ll128)) continue;
    if (filter.algorithm[0] && job.collective == NcclCollective::all_reduce) table.push_back(make.tree(p));
    if (filter.algorithm[1]) table.push_back(make.ring(p));
  }
  const bool reduces = job.collective == NcclCollective::all_reduce;
  const NcclAlgorithm switched = job.nodes == 1 ? NcclAlgorithm::nvls : NcclAlgorithm::nvls_tree;
  const bool nvls = machine.nvls && filter.algorithm[static_cast<size_t>(switched)] && filter.protocol[2] &&
                    make.local > 2 && reduces;
  if (nvls) {
    NcclChoice c{switched, NcclProtocol::simple, 0, nvls_us, 0, 0, 1};
    if (job.nodes == 1) {
      c.bandwidth = 5. / 6 * machine.channels * machine.bw_intra;
    } else {  // NVLSTree: the switch in the node, a double tree among nodes
      const double inter = machine.channels_inter * machine.bw_inter * (job.nodes == 2 ? 2 : 1);
      c.bandwidth = 0.5 * std::min(inter, machine.channels_inter * nvls_tree_channel[job.nodes == 2 ? 0 : 1]);
      c.inter_us = 2 * std::log2(static_cast<double>(job.nodes)) * 14;
    }
    table.push_back(c);
  }
  return table;
}

const NcclChoice& nccl_choose(const std::vector<NcclChoice>& table, double bytes) {
  if (table.empty())
    throw Error(ErrorKind::user, "no algorithm and protocol is left to choose from", "loosen NCCL_ALGO or NCCL_PROTO");
  return *std::min_element(table.begin(), table.end(), [bytes](const NcclChoice& a, const NcclChoice& b) {
    return a.tuner_us(bytes) < b.tuner_us(bytes);
  });
}

std::array<double, NcclParameters::count> NcclParameters::values() const {
  return {launch_us,      simple_efficiency, ll_efficiency, knee,           ll_latency,
          simple_latency, inter_latency,     peer_us,       p2p_efficiency, nvls_efficiency};
}
NcclParameters NcclParameters::from(const std::array<double, count>& v) {
  return {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]};
}

double nccl_time_us(const NcclMachine& machine, const NcclJob& job, const NcclChoice* choice, const NcclParameters& p) {
  const double floor_us = job.gpus_per_process * p.launch_us;
  if (!choice) {
    const bool all = job.collective == NcclCollective::all_to_all;
    const double peers = all ? job.ranks - 1 : 1;
    const double wire = all ? job.bytes * (job.ranks - 1) / job.ranks : job.bytes;
    const double bw = job.nodes > 1 ? machine.nic : machine.channels * machine.bw_intra;
    return std::max(floor_us, 8.4 + p.peer_us * peers + wire / (1000 * p.p2p_efficiency * bw));
  }
  const bool simple = choice->protocol == NcclProtocol::simple;
  const double a = (simple ? p.simple_latency : p.ll_latency) *
                   (choice->base_us + choice->intra_us + p.inter_latency * choice->inter_us);
  const double w = choice->algorithm >= NcclAlgorithm::nvls ? p.nvls_efficiency
                   : simple                                 ? p.simple_efficiency
                                                            : p.ll_efficiency;
  const double b = job.bytes / (1000 * w * choice->bandwidth);
  const double device = std::pow(std::pow(a, p.knee) + std::pow(b, p.knee), 1 / p.knee);
  return std::max(floor_us, device) *
         std::pow(1 + std::pow(std::min(floor_us, device) / std::max(floor_us, device), 8), 1. / 8);
}

namespace {

int search_channels(const NcclMachine& machine, const NcclJob& job) {
  return std::max(1, job.nodes > 1 ? machine.channels_inter : machine.channels);
}

}  // namespace

NcclLaunch nccl_launch(const NcclMachine& machine, const NcclJob& job, const NcclChoice& choice,
                       const NcclLimits& limits) {
  constexpr int threads[] = {512, 640, 512};  // LL, LL128, Simple
  constexpr int threshold[] = {8, 8, 64};     // bytes per thread
  const int most = machine.release >= 225 ? 64 : 32;
  const auto protocol = static_cast<size_t>(choice.protocol);
  NcclLaunch launch{std::min(most, 2 * search_channels(machine, job)), threads[protocol]};
  if (limits.threads) launch.threads = limits.threads;
  if (limits.max_channels) launch.channels = std::min(launch.channels, limits.max_channels);
  if (limits.min_channels) launch.channels = std::clamp(limits.min_channels, launch.channels, most);
  if (choice.algorithm >= NcclAlgorithm::nvls) return launch;
  const bool per_rank = choice.algorithm == NcclAlgorithm::ring && choice.protocol == NcclProtocol::ll;
  const double least = threshold[protocol] * (per_rank ? job.ranks : 1);
  while (job.bytes < launch.channels * launch.threads * least) {
    if (launch.channels > std::max(1, limits.min_channels))
      --launch.channels;
    else if (launch.channels == 1 && launch.threads % 128 == 0)
      launch.threads /= 2;
    else
      break;
  }
  return launch;
}

void nccl_limit(std::vector<NcclChoice>& table, const NcclMachine& machine, const NcclJob& job,
                const NcclLimits& limits) {
  if (!limits.max_channels) return;
  const double share = std::min(1., static_cast<double>(limits.max_channels) / search_channels(machine, job));
  for (NcclChoice& c : table) c.bandwidth *= share;
}

double nccl_step_us(NcclLink link, NcclProtocol protocol) {
  return step_ring[static_cast<size_t>(link)][static_cast<size_t>(protocol)];
}

NcclSteps nccl_steps(NcclAlgorithm algorithm, NcclProtocol protocol, NcclCollective collective, int ranks, int channels,
                     int64_t bytes) {
  constexpr int64_t payload[] = {32 << 10, 576000,
                                 512 << 10};  // of a slot: half of LL's bytes, 15/16 of LL128's are data
  NcclSteps s;
  s.step_bytes = payload[static_cast<size_t>(protocol)];
  const bool looped = collective == NcclCollective::all_reduce || collective == NcclCollective::all_gather ||
                      collective == NcclCollective::reduce_scatter;
  if (protocol == NcclProtocol::simple && algorithm == NcclAlgorithm::ring && looped)
    s.steps_per_chunk = 4, s.slices_per_chunk = 2;
  s.chunk_bytes = s.step_bytes * s.steps_per_chunk;
  s.slice_bytes = s.chunk_bytes / s.slices_per_chunk;
  const int64_t chunks = algorithm == NcclAlgorithm::ring && looped ? ranks : 1;
  const int64_t loop = std::max<int64_t>(1, channels) * chunks * s.chunk_bytes;
  s.loops = (bytes + loop - 1) / loop;
  return s;
}

}  // namespace weft::sim
