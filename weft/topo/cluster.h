// Cluster: a machine that need not be here, as a file says it: nodes of GPUs, what joins them in a node and across nodes.
// TOML, "cluster = 1" first; every figure in a shipped file (machines/) has its source in a comment beside it.
#pragma once

#include <filesystem>
#include <string>

namespace weft::topo {

constexpr int cluster_version = 1;

struct Joint {            // how two GPUs are joined
  std::string kind;       // in a node: nvlink, nvswitch, pcie, memory; across: infiniband, slingshot, ethernet, none
  double latency_ns = 0;  // first byte
  double gb_per_s = 0;    // of one GPU, each way, all channels together
  int channels = 1;       // that NCCL finds
  double channel_gb_per_s = 0;  // its graph search's figure for one of them
};

struct Cluster {
  std::string name, source;
  int nodes = 1, gpus_per_node = 8;
  std::string architecture;                        // volta, ampere, hopper, cpu
  double memory_gb_per_s = 0, tflops = 0;          // of one GPU: memory, and fp32 outside of tensor cores
  double launch_us = 0;                            // one kernel launch
  double send_ns = 0, receive_ns = 0, gap_ns = 0;  // of one message: sender, receiver, port
  std::string cpu;                                 // intel, amd, arm
  bool ll128 = false, nvls = false;                // may NCCL use them here
  int nccl = 219;                                  // release whose constants it has: 219 is 2.19
  Joint intra, inter;                              // inter: of a machine with one node, unused
};

// Error(user) with the file and, where it is known, the line: a syntax error, a missing or unknown key, a figure that
// cannot be. Error(io) where the file cannot be read.
Cluster read_cluster(const std::filesystem::path& path);
Cluster parse_cluster(const std::string& text, const std::string& name = "cluster");

}  // namespace weft::topo
