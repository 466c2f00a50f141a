// NCCL as it is described: which algorithm and protocol its tuner takes, and how long that should last. Constants and
// formulas are those of its public tuning model (src/graph/tuning.cc, releases 2.19 to 2.30) and of "Demystifying NCCL"
// (arXiv 2507.04786); the calibrated form is ours: launches as a floor, an efficiency for each protocol, a soft knee.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::sim {

enum class NcclAlgorithm : uint8_t { tree, ring, nvls, nvls_tree };
enum class NcclProtocol : uint8_t { ll, ll128, simple };
enum class NcclCollective : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  send_recv
};
std::string_view name(NcclAlgorithm algorithm);
std::string_view name(NcclProtocol protocol);
// Names of nccl-tests and of ours ("alltoall", "all_to_all", "sendrecv"). Error(user) else.
NcclCollective nccl_collective(std::string_view name);

enum class GpuArch : uint8_t { volta, ampere, hopper };

// What the tuner knows of a machine once its rings and trees are found.
struct NcclMachine {
  GpuArch arch = GpuArch::ampere;
  int gpus_per_node = 8;
  int channels = 12;       // in a node
  double bw_intra = 20;    // GB/s of a channel
  int channels_inter = 8;  // across nodes
  double bw_inter = 20;
  double nic = 25;                      // GB/s of one GPU's way out
  bool nvlink = true, amd_cpu = false;  // GPUs joined by NVLink, else PCIe
  bool ll128 = true, nvls = false;
  int release = 219;  // of NCCL: constants changed in 2.23
};

struct NcclJob {
  NcclCollective collective = NcclCollective::all_reduce;
  int ranks = 8, nodes = 1;
  double bytes = 0;  // nccl-tests' size
  int gpus_per_process = 1;
};

// One row of the tuner's table. Latency = base + intra + inter, us; bandwidth in GB/s of nccl-tests' size.
struct NcclChoice {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  double base_us = 0, intra_us = 0, inter_us = 0, bandwidth = 0;
  double correction = 1;  // of the bandwidth, when choosing (trees)
  double tuner_us(double bytes) const {
    return base_us + intra_us + inter_us + bytes / (1000 * bandwidth * correction);
  }
};

// Which rows NCCL_ALGO and NCCL_PROTO leave. Both syntaxes: "ring,tree" and "^ll" (before 2.24), and
// "ring;allreduce:tree;broadcast:^ll128" (since). Error(user) for an unknown name, or where nothing is left.
struct NcclFilter {
  bool algorithm[4] = {true, true, true, true}, protocol[3] = {true, true, true};
};
NcclFilter nccl_filter(std::string_view algo, std::string_view proto, NcclCollective collective);

// The rows that exist for a job, in the tuner's order. Empty for all_to_all and send_recv, which it does not tune.
std::vector<NcclChoice> nccl_table(const NcclMachine& machine, const NcclJob& job, const NcclFilter& filter = {});
const NcclChoice& nccl_choose(const std::vector<NcclChoice>& table, double bytes);

// What a machine's measured times can teach: at most these, in the order of their worth (docs/simulation.md).
struct NcclParameters {
  double launch_us = 5.6, simple_efficiency = 0.94, ll_efficiency = 0.54, knee = 0.65, ll_latency = 1.2,
         simple_latency = 1.3, inter_latency = 0.67, peer_us = 10.5, p2p_efficiency = 0.51, nvls_efficiency = 0.94;
  static constexpr size_t count = 10;
  std::array<double, count> values() const;
  static NcclParameters from(const std::array<double, count>& values);
};

// Channels and threads of a launch. NCCL has twice the channels that its search found, and takes some away, then threads,
// until each thread has enough bytes. min and max: NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS, 0: not set.
struct NcclLimits {
  int min_channels = 0, max_channels = 0;
  int threads = 0;  // NCCL_NTHREADS; 0: as the protocol has them
};
struct NcclLaunch {
  int channels = 1, threads = 512;
};
NcclLaunch nccl_launch(const NcclMachine& machine, const NcclJob& job, const NcclChoice& choice,
                       const NcclLimits& limits = {});
// With fewer channels than the search found the rest of the links lies idle; more bring nothing.
void nccl_limit(std::vector<NcclChoice>& table, const NcclMachine& machine, const NcclJob& job,
                const NcclLimits& limits);
// What a step over a link of a kind adds, us (the tuner's table for rings).
enum class NcclLink : uint8_t { nvlink, pcie, network };
double nccl_step_us(NcclLink link, NcclProtocol protocol);

// Time of one repetition, us: max(launches, device), since a benchmark's launches queue up behind one another.
double nccl_time_us(const NcclMachine& machine, const NcclJob& job, const NcclChoice* choice, const NcclParameters& p);

struct NcclSample {
  NcclMachine machine;
  NcclJob job;
  NcclChoice choice;
  bool tuned = false;  // choice holds
  double measured_us = 0, weight = 1;
};
// Robust least squares on logarithms, with priors about `start`; `fit[i]` says which parameters may move.
NcclParameters nccl_calibrate(const std::vector<NcclSample>& samples, const NcclParameters& start,
                              const std::array<bool, NcclParameters::count>& fit, double prior_strength = 1);

// Chunk arithmetic (Demystifying NCCL, section 4): what one channel sends in one step of the protocol's FIFO.
struct NcclSteps {
  int64_t step_bytes = 0, chunk_bytes = 0, slice_bytes = 0;  // of payload
  int steps_per_chunk = 1, slices_per_chunk = 1, slots = 8;
  int64_t loops = 0;  // iterations of a channel
};
NcclSteps nccl_steps(NcclAlgorithm algorithm, NcclProtocol protocol, NcclCollective collective, int ranks, int channels,
                     int64_t bytes);

}  // namespace weft::sim
