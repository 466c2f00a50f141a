// Machine: what a cost model knows about where ranks run. Read from and written to TOML ("machine = 1" first).
//
// For CPU ranks the calibration (weft calibrate, seconds) measures the few numbers below; figures of other machines come
// from files with their sources. Bandwidths are one rank's when all ranks work at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace weft::topo {

constexpr int machine_version = 1;

// Bytes per second as a function of the working set of one rank: piecewise linear in log2(bytes).
struct BandwidthCurve {
  std::vector<double> bytes, bytes_per_s;
  double at(double working_set) const;
};

struct Machine {
  std::string name, cpu, source;  // where the figures come from
  int cores = 1;
  int64_t l2_bytes = 0, l3_bytes = 0, memory_bytes = 0;
  int ranks = 2;        // the ranks the curves were measured with
  double hop_ns = 150;  // a cache line from core to core
  double step_ns = 30, launch_ns = 60, message_ns = 60, await_ns = 150;
  // Where ranks share no memory: what a message takes on its way, and how fast it flows. 0: they do.
  double wire_ns = 0, wire_bytes_per_s = 0;
  BandwidthCurve read, write, write_stream, read_peer, write_peer, write_peer_stream;
  double flops_per_s = 1e9;          // of generated pointwise code, one rank
  double matmul_flops_per_s = 1e10;  // of matrix products (oneDNN, f32), one rank
  double packed_bytes_per_s = 1e9;   // into or out of messages that carry flags in the data (ll, ll128)
};

Machine read_machine(const std::filesystem::path& path);  // Error(user) with line for bad files and versions
Machine parse_machine(const std::string& text, const std::string& name);  // `name`: of the file, in errors
std::string print_machine(const Machine& machine);
void write_machine(const std::filesystem::path& path, const Machine& machine);
Machine detect();                                   // hwloc: cores, caches, memory; default figures
std::string fingerprint(const Machine& machine);    // cpu model, cores, caches: what a calibration belongs to
std::filesystem::path calibration_path(int ranks);  // under cache_directory()/machines, which is made
std::vector<int> allowed_cores();

}  // namespace weft::topo
