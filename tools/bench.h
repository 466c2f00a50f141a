// The pieces of `weft bench`: what one rank does, peers as processes, how a table, JSON and a picture are written.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/api/collectives.h"
#include "weft/transport/transport.h"

namespace weft::tools {

enum class Memory { mapped, arena, private_ };

// One measurement: what a cell of the table asks of all ranks.
struct BenchCell {
  Operation operation = Operation::all_reduce;
  Dtype dtype = Dtype::f32;
  Combine combine = Combine::sum;
  int root = 0;
  int64_t count = 0;  // as in a call
  bool in_place = false, touch = false, read = false;
  int64_t iterations = 20, warmup = 5, grouped = 1;
};
std::string print(const BenchCell& cell);
BenchCell parse_cell(const std::string& text);
int64_t whole_bytes(const BenchCell& cell, int ranks);
// nccl-tests' names beside Weft's. Error(user).
Dtype bench_dtype(const std::string& text);
Combine bench_combine(const std::string& text);
// The sizes of -b, -e, and -i or -f. Error(user) for ends that are out of order, and for more than 10,000 of them.
struct SizeSweep {
  std::string least = "32M", most = "32M", step;
  std::optional<double> factor;
};
void add_sweep_options(CLI::App& verb, SizeSweep& sweep);
std::vector<int64_t> sizes_of(const SizeSweep& sweep);
// nccl-tests': bus bandwidth over algorithm bandwidth.
double bus_factor(Operation operation, int ranks);

// `weft explain OPERATION`.
struct CollectiveQuestion {
  int ranks = 2;
  std::string bytes, dtype;
  bool mapped = true, any_order = false, json = false;
};
void explain_collective(Operation operation, const CollectiveQuestion& question);

// Commands of a rank: "time CELL" -> ns a call, "check CELL" -> wrong elements, "explain CELL" -> what runs.
struct BenchSetup {
  int64_t room_bytes = 0;  // of each buffer
  Memory memory = Memory::mapped;
  CollectiveOptions options;
};
transport::CommandLoop bench_rank(transport::Transport& transport, const BenchSetup& setup);

// A peer that runs the same cells: an MPI, or gloo.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual const std::string& name() const = 0;
  virtual double time_ns(const BenchCell& cell) = 0;
};
// Error(unsupported) where it is not installed; names: openmpi, openmpi-ucx, intelmpi, mpich, gloo.
std::unique_ptr<Peer> start_peer(const std::string& name, int ranks, int64_t room_bytes);

// A row of the result.
struct BenchSide {
  double time_us = 0, algbw = 0, busbw = 0;
  int64_t wrong = -1;  // -1: not checked
  bool measured = false;
};
struct BenchRow {
  int64_t bytes = 0, count = 0;
  std::string dtype, combine;
  int root = -1;
  BenchSide out_of_place, in_place;
  std::map<std::string, double> peers_us;
  double ratio = 0, limit_us = 0;  // ratio: best peer over ours, median of rounds
  std::string runs;
};
struct BenchReport {
  std::string operation;
  int ranks = 0;
  std::vector<std::string> peers;
  std::vector<BenchRow> rows;
};
void print_head(const BenchReport& report);
void print_row(const BenchReport& report, const BenchRow& row);
void print_tail(const BenchReport& report);
std::string to_json(const BenchReport& report);
std::string to_svg(const BenchReport& report);

}  // namespace weft::tools
