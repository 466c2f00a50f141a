// What the runtime's tests share: plans from tests/cases, buffers whose values tell rank, index and launch, poisoned
// results with canaries, and the interpreter as the oracle.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "tests/support/errors.h"
#include "tests/support/source_dir.h"
#include "weft/base/dtype.h"
#include "weft/base/file.h"
#include "weft/plan/interpret.h"
#include "weft/runtime/communicator.h"
#include "weft/runtime/loaded.h"

namespace weft::runtime::test {

using Run = void (*)(int, const std::function<void(transport::Transport&)>&, const transport::RankOptions&);

// The same where more than a function's address is needed: over the transport of a word, say.
using Start =
    std::function<void(int, const std::function<void(transport::Transport&)>&, const transport::RankOptions&)>;

inline plan::Plan case_plan(const std::string& name) {
  return plan::parse(read_file(checkout_dir() + "/tests/cases/plan/" + name + ".plan"));
}

// A value that tells where it comes from, small enough to be exact in 16 bits and in sums over 8 ranks.
inline double coded(int rank, int buffer, int64_t index, int launch) {
  return static_cast<double>((rank * 31 + buffer * 17 + index * 7 + launch * 11) % 23 + 1);
}

constexpr int64_t canary_bytes = 64;
constexpr unsigned char canary = 0xa5, poison = 0x7b;

// Sizes of one test: how spaces and buffers of a plan are bound.
struct Sizes {
  std::vector<plan::SpaceExtent> spaces;
  std::function<std::vector<plan::SpaceExtent>(int rank)> per_rank;  // counts that ranks do not share
  std::vector<int64_t> chunk_elements;
  std::vector<expr::ScalarValue> scalars;
  std::map<std::string, std::string> params;
  std::map<std::string, std::function<double(int rank, int64_t index)>> values;  // of inputs that are not just coded
  std::map<std::string, std::string>
      styles;             // by buffer: "segments" (a block per tensor), "strided" (every third element)
  bool in_place = false;  // aliases share memory
  const std::vector<plan::SpaceExtent> of(int rank) const { return per_rank ? per_rank(rank) : spaces; }
};

// All buffers of one rank, as plain memory.
class RankBuffers {
 public:
  using Allocate = std::function<std::byte*(int64_t bytes, const std::string& name)>;
  RankBuffers(const plan::Instance& instance, const Sizes& sizes, int rank, const Allocate& mapped);
  plan::LaunchArgs args() const { return args_; }
  void write_inputs(int launch);  // inputs; states in launch 0; results poisoned
  void check_canaries() const;
  // Contents of results and states, by buffer, for comparison.
  std::vector<std::vector<unsigned char>> results() const;

 private:
  // Contiguous pieces of a buffer's memory, in the order of its elements.
  struct Piece {
    std::byte* data = nullptr;
    int64_t elements = 0;
  };
  struct Memory {
    std::byte* data = nullptr;
    int64_t elements = 0, bytes = 0;
    std::vector<Piece> pieces;
    std::vector<Piece> canaries;  // bytes that nobody may touch
  };
  void fill(int buffer, int launch);
  void bind(int buffer, std::byte* data, const std::string& style);
  const plan::Instance& instance_;
  const Sizes& sizes_;
  int rank_;
  std::vector<Memory> memory_;  // per buffer; those that share an alias share it
  std::vector<std::unique_ptr<std::byte[]>> own_;
  plan::LaunchArgs args_;
};

// results[launch][rank][buffer]
using Expected = std::vector<std::vector<std::vector<std::vector<unsigned char>>>>;
Expected interpret(const plan::Plan& plan, int ranks, const Sizes& sizes, int launches, uint64_t seed);

struct RunOptions {
  int launches = 3;
  bool delays = false;        // random pauses between steps
  unsigned pauses = 1;        // of 256 steps
  bool asynchronous = false;  // all launches started, then waited for
  int64_t timeout_ns = 20'000'000'000;
};
// Runs the plan on the runtime and compares every rank's results with `expected` after each launch.
void run_and_compare(const Start& run, const plan::Plan& plan, int ranks, const Sizes& sizes, const Expected& expected,
                     const RunOptions& options);

// The usual: interpret, then run.
void agree(const Start& run, const plan::Plan& plan, int ranks, const Sizes& sizes, const RunOptions& options = {});

inline plan::SpaceExtent flat(int64_t elements) { return {plan::Cut{1, elements, 1}, std::nullopt, nullptr}; }

}  // namespace weft::runtime::test
