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

#include "weft/algo/algorithm.h"
#include "weft/runtime/communicator.h"

namespace weft {

// The registry's collectives are the operations; send_recv is a plan of programs, messages with tags are below.
using Operation = algo::Collective;
using algo::has_root;
using algo::name;
using algo::reduces;
std::optional<Operation> parse_operation(std::string_view text);
const std::vector<Operation>& all_operations();  // that a Call may have

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

struct Call {
  Operation operation = Operation::all_reduce;
  const void* send = nullptr;
  void* recv = nullptr;
  int64_t count = 0;  // elements, as the header says; where counts differ: of this rank's own part (scatter, gather)
  Dtype dtype = Dtype::f32;
  Combine combine = Combine::sum;
  int root = 0;
  double scale = 1;  // premul_sum
  // One count per rank instead of `count`. reduce_scatter, all_gather: the same on all ranks; scatter, gather: at the
  // root; all_to_all: what goes to each rank, and in recv_counts what comes from each.
  std::span<const int64_t> counts;
  std::span<const int64_t> recv_counts;
  bool uneven = false;  // scatter and gather: parts differ, also on ranks that know only their own
};
std::string describe(const Call& call);  // "all_reduce sum f32, 1024 elements"

namespace api {
class ProcessArena;
}

struct CollectiveOptions {
  // Forced, in NCCL's syntax ("ring,direct;all_reduce:^ring"); "": WEFT_ALGO, NCCL_ALGO; the same for protocols.
  std::string algorithms, protocols;
  bool any_order = false;    // sums need not be in rank order: ring and others may be taken
  int64_t arena_bytes = -1;  // reserved per rank for ordinary allocations that peers map; -1: WEFT_ARENA
  std::string tuning_file;   // "": WEFT_COLLECTIVES_TUNING, else none
  // This process's own instead of one of this communicator's (process_arena.h). Where rank 0 has one, all should.
  std::shared_ptr<api::ProcessArena> process_arena = {};
};

class Pending {  // of one started call or message
 public:
  Pending() = default;
  // Advances everything that this thread has started; true when this one is complete. Throws its error, nobody else's.
  bool test();
  void wait();  // bounded: the communicator's timeout since anything of this communicator moved last
  struct State;
  explicit Pending(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

// Sources and tags of receives that take any.
constexpr int any_source = -1, any_tag = -1;

// What came.
struct Arrival {
  int source = any_source, tag = any_tag;
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
  // Starts and returns; buffers stay untouched until it is complete (counts may go). Calls run in the order of their
  // start.
  Pending start(const Call& call);

  void all_reduce(const void* send, void* recv, int64_t count, Dtype dtype, Combine combine = Combine::sum);
  void reduce_scatter(const void* send, void* recv, int64_t count, Dtype dtype, Combine combine = Combine::sum);
  void all_gather(const void* send, void* recv, int64_t count, Dtype dtype);
  void broadcast(const void* send, void* recv, int64_t count, Dtype dtype, int root);
  void reduce(const void* send, void* recv, int64_t count, Dtype dtype, Combine combine, int root);
  void scatter(const void* send, void* recv, int64_t count, Dtype dtype, int root);
  void gather(const void* send, void* recv, int64_t count, Dtype dtype, int root);
  void all_to_all(const void* send, void* recv, int64_t count, Dtype dtype);
  void barrier();

  // Throws what has ended this communicator, if anything; looks after peers that died.
  void check();

  // A count per rank, in rank order; zeros are fine. Parts stand one behind the other.
  void reduce_scatter_v(const void* send, void* recv, std::span<const int64_t> counts, Dtype dtype,
                        Combine combine = Combine::sum);
  void all_gather_v(const void* send, void* recv, std::span<const int64_t> counts, Dtype dtype);
  // counts: at the root; elsewhere they may be empty. `count` is this rank's own.
  void scatter_v(const void* send, std::span<const int64_t> counts, void* recv, int64_t count, Dtype dtype, int root);
  void gather_v(const void* send, int64_t count, void* recv, std::span<const int64_t> counts, Dtype dtype, int root);
  // What goes to each rank, and what comes from each: known on all ranks of this call or, in the second form, on none.
  // That one exchanges counts first, fills `got`, and returns their sum, which `room` elements must hold.
  void all_to_all_v(const void* send, std::span<const int64_t> counts, void* recv, std::span<const int64_t> recv_counts,
                    Dtype dtype);
  int64_t all_to_all_v(const void* send, std::span<const int64_t> counts, void* recv, int64_t room,
                       std::span<int64_t> got, Dtype dtype);

  // Messages, with tags from 0 on, between two ranks; nobody else takes part. Counts and dtypes of both sides must be
  // equal. Two ranks' messages of one tag arrive in the order in which they were sent. A send of up to 960 bytes does not
  // wait for its receive, for up to 16 that the receiver has not looked at; start larger ones where both sides send first. To oneself: never waits.
  void send(const void* data, int64_t count, Dtype dtype, int to, int tag);
  Arrival receive(void* data, int64_t count, Dtype dtype, int from, int tag);  // any_source, any_tag
  Pending start_send(const void* data, int64_t count, Dtype dtype, int to, int tag);
  // arrival: filled when it is complete.
  Pending start_receive(void* data, int64_t count, Dtype dtype, int from, int tag, Arrival* arrival = nullptr);

  // Collective. A communicator of the ranks that say this color, ordered by key, then by rank; color < 0: none, null.
  // Mapped memory of this one (symmetric and arena) is mapped there too. This one must outlive it.
  std::unique_ptr<Collectives> split(int color, int key = 0);
  const std::vector<int>& members() const;  // of the communicator that was split, by rank here; empty: it was not split

  // Symmetric memory: collective, mapped by all peers; release() is collective too. 64-aligned, zero-filled.
  void* allocate(int64_t bytes);
  void release(void* symmetric);
  // Memory of this rank's arena: not collective, mapped by peers all the same. null: the arena is full.
  void* arena_allocate(int64_t bytes);
  void arena_release(void* memory);
  bool is_mapped(const void* memory, int64_t bytes = 1) const;

  // What would run: algorithm, protocol, chunk, prediction, and why. Pure.
  std::string explain(const Call& call, bool mapped) const;

  struct Impl;
  explicit Collectives(std::unique_ptr<Impl> impl);  // of split()

 private:
  std::unique_ptr<Impl> impl_;
};

// While it lives, this thread's blocking calls and messages, of any communicators, are only noted; wait() makes them all
// at once, in an order of its own, so that none can wait for one behind it: messages in any order, calls of different
// communicators in any order, and calls of one communicator too, as long as all ranks note the same ones (of those that are
// alike in operation, dtype, count and root the first is still the first). Buffers and counts stay until then. What calls
// return is not there yet. A batch in a batch belongs to the outer one.
//
//   weft::Batch batch;
//   comm.send(mine, n, dtype, right, 0);
//   comm.receive(theirs, n, dtype, left, 0);
//   batch.wait();
class Batch {
 public:
  Batch();
  ~Batch();     // what was not waited for is dropped, unmade
  void wait();  // throws the first error, when all are complete or failed
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
  Impl* before_;
};

}  // namespace weft
