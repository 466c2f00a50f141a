// Collectives for C++ programs: one object per communicator, one call per operation.
//
//   weft::run(4, [](weft::Rank& rank) {
//     weft::Collectives comm(rank.communicator());
//     float* x = static_cast<float*>(comm.allocate(bytes));        // or any memory: then data go through links
//     comm.all_reduce(x, x, count, weft::Dtype::f32, weft::Combine::sum);
//   });
//
// What runs is a plan of weft/algo, chosen by collectives_choice.h, loaded once, bound once per (call, memory) and kept
// in a table: a repeated call looks it up and launches. Counts follow NCCL: the whole for all_reduce, broadcast and
// reduce; one rank's part for the others. docs/communicator.md has the rules (aliases, numbers, agreement).
//
// Calls are collective: every rank makes them in the same order. Ranks that differ get one Error(agreement) that shows
// both calls, on all of them. An object is used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/runtime/communicator.h"

namespace weft {

enum class Operation : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  scatter,
  gather,
  all_to_all,
  barrier
};
std::string_view name(Operation operation);
std::optional<Operation> parse_operation(std::string_view text);
const std::vector<Operation>& all_operations();

// avg divides by the number of ranks (integers: toward zero); premul_sum multiplies what this rank gives by its own
// scale first.
enum class Combine : uint8_t {
  sum,
  prod,
  min,
  max,
  avg,
  premul_sum,
  bit_and,
  bit_or,
  bit_xor,
  logical_and,
  logical_or
};
std::string_view name(Combine combine);
std::optional<Combine> parse_combine(std::string_view text);
const std::vector<Combine>& all_combines();
// Why the two do not go together; empty: they do.
std::string why_illegal(Combine combine, Dtype dtype);
bool reduces(Operation operation);
bool has_root(Operation operation);

struct Call {
  Operation operation = Operation::all_reduce;
  const void* send = nullptr;
  void* recv = nullptr;
  int64_t count = 0;  // elements, as the header says
  Dtype dtype = Dtype::f32;
  Combine combine = Combine::sum;
  int root = 0;
  double scale = 1;                 // premul_sum
  std::span<const int64_t> counts;  // reduce_scatter and all_gather: one count per rank instead of `count`
};
std::string describe(const Call& call);  // "all_reduce sum f32, 1024 elements"

struct CollectiveOptions {
  // Forced, in NCCL's syntax ("ring,direct;all_reduce:^ring"); "": WEFT_ALGO, NCCL_ALGO; the same for protocols.
  std::string algorithms, protocols;
  bool any_order = false;    // sums need not be in rank order: ring and others may be taken
  int64_t arena_bytes = -1;  // reserved per rank for ordinary allocations that peers map; -1: WEFT_ARENA
  std::string tuning_file;   // "": WEFT_COLLECTIVES_TUNING, else none
};

class Pending {  // of one started call
 public:
  Pending() = default;
  bool test();  // advances; true when complete; throws its error
  void wait();  // bounded by the communicator's timeout
  struct State;
  explicit Pending(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

class Collectives {
 public:
  // Collective.
  explicit Collectives(runtime::Communicator& communicator, const CollectiveOptions& options = {});
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;
  int rank() const;
  int size() const;

  void run(const Call& call);
  // Starts and returns; buffers and counts stay untouched until it is complete. Calls run in the order of their start.
  Pending start(const Call& call);

  void all_reduce(const void* send, void* recv, int64_t count, Dtype dtype, Combine combine = Combine::sum);
  void reduce_scatter(const void* send, void* recv, int64_t count, Dtype dtype, Combine combine = Combine::sum);
  void reduce_scatter_v(const void* send, void* recv, std::span<const int64_t> counts, Dtype dtype,
                        Combine combine = Combine::sum);
  void all_gather(const void* send, void* recv, int64_t count, Dtype dtype);
  void all_gather_v(const void* send, void* recv, std::span<const int64_t> counts, Dtype dtype);
  void broadcast(const void* send, void* recv, int64_t count, Dtype dtype, int root);
  void reduce(const void* send, void* recv, int64_t count, Dtype dtype, Combine combine, int root);
  void scatter(const void* send, void* recv, int64_t count, Dtype dtype, int root);
  void gather(const void* send, void* recv, int64_t count, Dtype dtype, int root);
  void all_to_all(const void* send, void* recv, int64_t count, Dtype dtype);
  void barrier();

  // Symmetric memory: collective, mapped by all peers; release() is collective too. 64-aligned, zero-filled.
  void* allocate(int64_t bytes);
  void release(void* symmetric);
  // Memory of this rank's arena: not collective, mapped by peers all the same. null: the arena is full.
  void* arena_allocate(int64_t bytes);
  void arena_release(void* memory);
  bool is_mapped(const void* memory) const;

  // What would run: algorithm, protocol, chunk, prediction, and why. Pure.
  std::string explain(const Call& call, bool mapped) const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
