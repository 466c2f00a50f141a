// Collectives against a fold done by hand: every operation, dtype and combination, mapped and private memory, in place
// and out of place, sizes around every border. Data encode (rank, index), results are poisoned, canaries stand behind.
#include "weft/api/collectives.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/support/errors.h"
#include "weft/api/collectives_plan.h"
#include "weft/codegen/library.h"
#include "weft/runtime/communicator.h"

namespace weft {
namespace {

using Bytes = std::vector<std::byte>;

double value(int rank, int64_t index) {
  const auto h = static_cast<uint32_t>(index * 2654435761u + static_cast<uint32_t>(rank) * 40503u + 12345u);
  return static_cast<double>((h >> 16) % 15) - 7;  // small: exact in every dtype for a few ranks
}

void fill(Dtype dtype, std::byte* at, int64_t count, int rank, int64_t first) {
  for (int64_t i = 0; i < count; ++i) {
    const double v = value(rank, first + i);
    const bool no_sign = !is_float(dtype) && !is_signed(dtype);
    if (dtype == Dtype::boolean)
      store_i64(dtype, at + i, v > 0);
    else if (is_float(dtype))
      store_f64(dtype, at + i * size_bytes(dtype), v);
    else
      store_i64(dtype, at + i * size_bytes(dtype), static_cast<int64_t>(no_sign ? v + 8 : v));
  }
}

// The fold in rank order, in the accumulator, rounded once.
Bytes folded(Combine combine, Dtype dtype, const std::vector<Bytes>& given, int64_t count) {
  const int64_t size = size_bytes(dtype);
  const Dtype wide = accumulate_dtype(dtype);
  const kernel::Reduction reduction = api::reduction_of(combine);
  Bytes out(static_cast<size_t>(count * size));
  for (int64_t i = 0; i < count; ++i) {
    alignas(16) std::byte sum[16], next[16];
    const auto widen = [&](const Bytes& from, std::byte* to) {
      if (wide == dtype)
        std::memcpy(to, from.data() + i * size, static_cast<size_t>(size));
      else
        store_f64(wide, to, load_f64(dtype, from.data() + i * size));
    };
    widen(given[0], sum);
    for (size_t r = 1; r < given.size(); ++r) widen(given[r], next), kernel::combine(reduction, wide, sum, next, 1);
    std::byte* to = out.data() + i * size;
    if (wide == dtype)
      std::memcpy(to, sum, static_cast<size_t>(size));
    else
      store_f64(dtype, to, load_f64(wide, sum));
    if (combine != Combine::avg) continue;
    const auto ranks = static_cast<int64_t>(given.size());
    if (is_float(dtype))
      store_f64(dtype, to, load_f64(dtype, to) / static_cast<double>(ranks));
    else
      api::divide(dtype, to, 1, ranks);
  }
  return out;
}

struct Case {
  Operation operation = Operation::all_reduce;
  Dtype dtype = Dtype::f32;
  Combine combine = Combine::sum;
  int64_t count = 0;
  int root = 0;
  bool mapped = false, in_place = false;
  std::vector<int64_t> counts;
  int64_t shift = 0;  // bytes that pointers stand off their alignment
};

Call call_of(const Case& c) {
  Call call;
  call.operation = c.operation;
  call.dtype = c.dtype;
  call.combine = c.combine;
  call.count = c.count;
  call.root = c.root;
  call.counts = c.counts;
  return call;
}

int64_t before(const Call& call, int rank) {
  int64_t sum = 0;
  for (int r = 0; r < rank; ++r) sum += call.counts.empty() ? call.count : call.counts[static_cast<size_t>(r)];
  return sum;
}

Bytes given_by(const Call& call, int ranks, int rank) {
  const int64_t count = api::send_count(call, ranks, rank);
  const bool part = call.operation == Operation::all_gather || call.operation == Operation::gather;
  Bytes data(static_cast<size_t>(count * size_bytes(call.dtype)));
  fill(call.dtype, data.data(), count, rank, part ? before(call, rank) : 0);
  return data;
}

Bytes expected(const Call& call, int ranks, int rank) {
  const int64_t size = size_bytes(call.dtype);
  std::vector<Bytes> given;
  for (int r = 0; r < ranks; ++r) given.push_back(given_by(call, ranks, r));
  const auto slice = [&](const Bytes& from, int64_t first, int64_t count) {
    return Bytes(from.begin() + first * size, from.begin() + (first + count) * size);
  };
  const int64_t mine = api::recv_count(call, ranks, rank);
  switch (call.operation) {
    case Operation::all_reduce: return folded(call.combine, call.dtype, given, call.count);
    case Operation::reduce: return rank == call.root ? folded(call.combine, call.dtype, given, call.count) : Bytes();
    case Operation::reduce_scatter:
      return slice(folded(call.combine, call.dtype, given, api::whole_count(call, ranks)), before(call, rank), mine);
    case Operation::broadcast: return given[static_cast<size_t>(call.root)];
    case Operation::scatter: return slice(given[static_cast<size_t>(call.root)], before(call, rank), mine);
    default: break;
  }
  Bytes out;
  for (int r = 0; r < ranks && mine > 0; ++r) {
    const Bytes part = call.operation == Operation::all_to_all
                           ? slice(given[static_cast<size_t>(r)], call.count * rank, call.count)
                           : given[static_cast<size_t>(r)];
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

constexpr int64_t canary_bytes = 64;
constexpr std::byte poison{0xa5};

// One rank of a test: buffers, the call, the comparison. Throws what is wrong, so that it reaches the test.
class Player {
 public:
  explicit Player(transport::Transport& transport, const CollectiveOptions& options = quiet())
      : kernels(kernel::evaluator_library()), communicator(transport, *kernels), comm(communicator, options) {
    mapped_ = static_cast<std::byte*>(comm.allocate(room * 2));
    private_.resize(room * 2);
  }
  static CollectiveOptions quiet() {
    CollectiveOptions options;
    options.arena_bytes = 0;
    return options;
  }

  // send, recv
  std::pair<std::byte*, std::byte*> place(const Case& c, const Call& call) {
    std::byte* base = c.mapped ? mapped_ : private_.data();
    std::byte *send = base + c.shift, *recv = base + room + c.shift;
    if (!c.in_place) return {send, recv};
    const int64_t part = before(call, comm.rank()) * size_bytes(call.dtype);
    switch (call.operation) {
      case Operation::reduce_scatter: return {send, send + part};
      case Operation::scatter: return {send, comm.rank() == call.root ? send + part : recv};
      case Operation::all_gather: return {recv + part, recv};
      case Operation::gather: return {comm.rank() == call.root ? recv + part : send, recv};
      case Operation::all_to_all: return {send, recv};
      default: return {send, send};
    }
  }

  void play(const Case& c, bool started = false) {
    Call call = call_of(c);
    const Bytes given = given_by(call, comm.size(), comm.rank());
    const Bytes want = expected(call, comm.size(), comm.rank());
    const auto [send, recv] = place(c, call);
    std::memset(recv, static_cast<int>(poison), want.size() + canary_bytes);
    std::copy(given.begin(), given.end(), send);
    if (c.in_place && recv == send) std::memset(send + given.size(), static_cast<int>(poison), canary_bytes);
    call.send = send;
    call.recv = recv;
    if (started)
      comm.start(call).wait();
    else
      comm.run(call);
    for (size_t i = 0; i < want.size(); ++i)
      if (recv[i] != want[i]) wrong(c, call, fmt::format("byte {} is {} not {}", i, int(recv[i]), int(want[i])));
    const bool inside = c.in_place && (call.operation == Operation::reduce_scatter ||
                                       call.operation == Operation::scatter);  // behind it lies input
    if (!inside && want.size() > 0)
      for (int64_t i = 0; i < canary_bytes; ++i)
        if (recv[static_cast<int64_t>(want.size()) + i] != poison)
          wrong(c, call, fmt::format("{} bytes behind the result are overwritten", i));
    if (!c.in_place && !std::equal(given.begin(), given.end(), send)) wrong(c, call, "the input has changed");
  }

  std::unique_ptr<kernel::KernelLibrary> kernels;
  runtime::Communicator communicator;
  Collectives comm;
  static constexpr int64_t room = 1 << 20;

 private:
  [[noreturn]] void wrong(const Case& c, const Call& call, const std::string& what) const {
    throw Error(ErrorKind::internal,
                fmt::format("rank {} of {}: {} {} {} shift {}: {}", comm.rank(), comm.size(), describe(call),
                            c.mapped ? "mapped" : "private", c.in_place ? "in place" : "out of place", c.shift, what));
  }
  std::byte* mapped_ = nullptr;
  Bytes private_;
};

void on_threads(int ranks, const std::function<void(Player&)>& body, const CollectiveOptions& options = Player::quiet(),
                double timeout_s = 60) {
  transport::RankOptions rank_options;
  rank_options.pin = false;
  rank_options.timeout_ns = static_cast<int64_t>(timeout_s * 1e9);
  transport::run_threads(
      ranks,
      [&](transport::Transport& transport) {
        Player player(transport, options);
        body(player);
      },
      rank_options);
}

std::vector<Operation> operations_here() {
  std::vector<Operation> list;
  for (const Operation operation : all_operations())
    if (operation != Operation::barrier) list.push_back(operation);
  return list;
}

class CollectivesOnRanks : public testing::TestWithParam<int> {};

TEST_P(CollectivesOnRanks, EveryOperationAtEverySizeInMappedAndPrivateMemory) {
  on_threads(GetParam(), [](Player& player) {
    for (const Operation operation : operations_here())
      for (const bool mapped : {true, false})
        for (const bool in_place : {false, true})
          for (const int64_t count : {0, 1, 2, 3, 7, 16, 63, 130, 1000, 4099}) {
            Case c{operation, Dtype::f32, Combine::sum, count, player.comm.size() - 1, mapped, in_place, {}, 0};
            if (operation == Operation::all_to_all && in_place) continue;
            player.play(c);
            player.play(c);  // from the table
          }
  });
}

TEST_P(CollectivesOnRanks, StartedCallsGiveTheSame) {
  on_threads(GetParam(), [](Player& player) {
    for (const Operation operation : operations_here())
      for (const int64_t count : {0, 5, 3000}) {
        player.play({operation, Dtype::f32, Combine::sum, count, 0, true, false, {}, 0}, true);
        player.play({operation, Dtype::f32, Combine::sum, count, 0, false, false, {}, 0}, true);
      }
  });
}

TEST_P(CollectivesOnRanks, UnevenAndEmptyCounts) {
  on_threads(GetParam(), [](Player& player) {
    std::vector<int64_t> counts, skewed;
    for (int r = 0; r < player.comm.size(); ++r) {
      counts.push_back((r * 37 + 5) % 11);
      skewed.push_back(r == 0 ? 999 : 0);
    }
    for (const auto& list : {counts, skewed, std::vector<int64_t>(counts.size(), 0)})
      for (const bool mapped : {true, false})
        for (const bool in_place : {true, false}) {
          player.play({Operation::reduce_scatter, Dtype::f32, Combine::sum, 0, 0, mapped, in_place, list, 0});
          player.play({Operation::all_gather, Dtype::f32, Combine::sum, 0, 0, mapped, in_place, list, 0});
        }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesOnRanks, testing::Values(1, 2, 3, 5, 8));

TEST(Collectives, EveryDtypeAndCombinationThatIsLegal) {
  on_threads(3, [](Player& player) {
    for (const Dtype dtype : all_dtypes())
      for (const Combine combine : all_combines()) {
        if (!why_illegal(combine, dtype).empty() || combine == Combine::premul_sum) continue;
        for (const bool mapped : {true, false})
          for (const int64_t count : {5, 700})
            player.play({Operation::all_reduce, dtype, combine, count, 0, mapped, false, {}, 0});
        player.play({Operation::reduce_scatter, dtype, combine, 33, 0, true, true, {}, 0});
      }
  });
}

TEST(Collectives, PointersNeedNoAlignment) {
  on_threads(2, [](Player& player) {
    for (const int64_t shift : {1, 2, 3, 4, 8, 13})
      for (const bool mapped : {true, false})
        for (const Operation operation : operations_here())
          for (const int64_t count : {4, 1024})
            player.play({operation, Dtype::f32, Combine::sum, count, 0, mapped, false, {}, shift});
  });
}

TEST(Collectives, PremultipliedSumsTakeEachRanksOwnScale) {
  on_threads(3, [](Player& player) {
    for (const Operation operation : {Operation::all_reduce, Operation::reduce_scatter, Operation::reduce})
      for (const int64_t count : {1, 50, 2000}) {
        const int64_t whole = operation == Operation::reduce_scatter ? 3 * count : count;
        std::vector<float> x(static_cast<size_t>(whole), 2.0f), y(x);
        Call call{operation, x.data(), y.data(), count, Dtype::f32, Combine::premul_sum, 0, 0.5 + player.comm.rank(),
                  {}};
        player.comm.run(call);
        if (operation == Operation::reduce && player.comm.rank() != 0) continue;
        for (int64_t i = 0; i < count; ++i)
          if (y[static_cast<size_t>(i)] != 2.0f * (0.5f + 1.5f + 2.5f)) fail(ErrorKind::internal, "{} at {}", y[0], i);
      }
  });
}

TEST(Collectives, SixteenBitSumsAreRoundedOnce) {
  on_threads(3, [](Player& player) {
    for (const int64_t count : {4, 5000})
      for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        const double large = dtype == Dtype::f16 ? 2048 : 256;
        std::vector<uint16_t> x(static_cast<size_t>(count)), y(x);
        for (auto& element : x) store_f64(dtype, &element, player.comm.rank() == 0 ? large : 1);
        player.comm.all_reduce(x.data(), y.data(), count, dtype);
        for (const auto& element : y)
          if (load_f64(dtype, &element) != large + 2) fail(ErrorKind::internal, "{}", load_f64(dtype, &element));
      }
  });
}

TEST(Collectives, NotANumberWinsInMinAndMaxOnWhicheverRankItIs) {
  on_threads(3, [](Player& player) {
    for (int holder = 0; holder < 3; ++holder)
      for (const Combine combine : {Combine::min, Combine::max})
        for (const int64_t count : {4, 900}) {
          std::vector<float> x(static_cast<size_t>(count), static_cast<float>(player.comm.rank() + 1)), y(x);
          if (player.comm.rank() == holder) x.assign(x.size(), NAN);
          player.comm.all_reduce(x.data(), y.data(), count, Dtype::f32, combine);
          for (const float element : y)
            if (!std::isnan(element)) fail(ErrorKind::internal, "{} with NaN on rank {}", element, holder);
        }
  });
}

TEST(Collectives, AveragesOfIntegersGoTowardZero) {
  on_threads(2, [](Player& player) {
    const int32_t given[2][4] = {{1, 2, -3, 7}, {0, -1, 0, 8}};
    int32_t got[4] = {};
    player.comm.all_reduce(given[player.comm.rank()], got, 4, Dtype::i32, Combine::avg);
    const int32_t want[4] = {0, 0, -1, 7};
    if (std::memcmp(got, want, sizeof want) != 0)
      fail(ErrorKind::internal, "{} {} {} {}", got[0], got[1], got[2], got[3]);
  });
}

TEST(Collectives, ArenaMemoryIsMappedWhereverItLiesOnEachRank) {
  CollectiveOptions options;
  options.arena_bytes = 64 << 20;
  on_threads(
      3,
      [](Player& player) {
        std::vector<void*> holes;
        for (int i = 0; i <= player.comm.rank(); ++i) holes.push_back(player.comm.arena_allocate(1000 * (i + 1)));
        for (const int64_t count : {64, 5000, 70001}) {
          auto* x = static_cast<float*>(player.comm.arena_allocate(count * 4));
          auto* y = static_cast<float*>(player.comm.arena_allocate(count * 4));
          if (!player.comm.is_mapped(x)) fail(ErrorKind::internal, "arena memory is not mapped");
          for (int round = 0; round < 3; ++round) {
            for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(value(player.comm.rank(), i + round));
            player.comm.all_reduce(x, y, count, Dtype::f32);
            for (int64_t i = 0; i < count; ++i) {
              const double want = value(0, i + round) + value(1, i + round) + value(2, i + round);
              if (y[i] != static_cast<float>(want)) fail(ErrorKind::internal, "{} not {} at {}", y[i], want, i);
            }
          }
          player.comm.arena_release(x);
          player.comm.arena_release(y);
        }
        for (void* hole : holes) player.comm.arena_release(hole);
      },
      options);
}

// Ranks whose memory differs in kind still take one plan.
TEST(Collectives, MixedMemoryAndMixedPlacesAgree) {
  on_threads(3, [](Player& player) {
    auto* mapped = static_cast<float*>(player.comm.allocate(1 << 20));
    std::vector<float> own(1 << 18);
    const int64_t count = 20000;
    for (int holder = 0; holder < 3; ++holder) {
      float* x = player.comm.rank() == holder ? own.data() : mapped + 64 * player.comm.rank();
      float* y = player.comm.rank() == 1 ? x : mapped + 100000;
      for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(value(player.comm.rank(), i));
      player.comm.barrier();
      player.comm.all_reduce(x, y, count, Dtype::f32);
      for (int64_t i = 0; i < count; ++i)
        if (y[i] != static_cast<float>(value(0, i) + value(1, i) + value(2, i))) fail(ErrorKind::internal, "at {}", i);
      player.comm.barrier();
    }
  });
}

TEST(Collectives, ReleasedMemoryIsForgotten) {
  on_threads(2, [](Player& player) {
    for (int round = 0; round < 20; ++round) {
      auto* x = static_cast<float*>(player.comm.allocate(1 << 16));
      for (int i = 0; i < 9000; ++i) x[i] = static_cast<float>(round);
      player.comm.all_reduce(x, x, 9000, Dtype::f32);
      if (x[8999] != static_cast<float>(2 * round)) fail(ErrorKind::internal, "{} in round {}", x[8999], round);
      player.comm.release(x);
    }
  });
}

// ---- disagreement and misuse
std::string disagreement(const std::function<void(Player&)>& body) {
  const Error error = error_of([&] { on_threads(2, body, Player::quiet(), 20); });
  EXPECT_EQ(error.kind(), ErrorKind::agreement) << error.what();
  return error.what();
}

void expect_both(const std::string& text, const std::string& a, const std::string& b) {
  EXPECT_NE(text.find(a), std::string::npos) << text;
  EXPECT_NE(text.find(b), std::string::npos) << text;
}

TEST(CollectivesDisagree, CountsLargeAndSmall) {
  for (const int64_t count : {4, 400'000}) {
    const std::string text = disagreement([count](Player& player) {
      std::vector<float> x(static_cast<size_t>(count) + 8);
      player.comm.all_reduce(x.data(), x.data(), count, Dtype::f32);
      player.comm.all_reduce(x.data(), x.data(), count + 2 * player.comm.rank(), Dtype::f32);
    });
    expect_both(text, std::to_string(count), std::to_string(count + 2));
  }
}

TEST(CollectivesDisagree, Dtypes) {
  for (const int64_t count : {3, 5000})
    expect_both(disagreement([count](Player& player) {
                  std::vector<int64_t> x(static_cast<size_t>(count));
                  player.comm.broadcast(x.data(), x.data(), count, player.comm.rank() ? Dtype::i64 : Dtype::f32, 0);
                }),
                "f32", "i64");
}

TEST(CollectivesDisagree, Roots) {
  for (const int64_t count : {3, 5000})
    expect_both(disagreement([count](Player& player) {
                  std::vector<float> x(static_cast<size_t>(count));
                  player.comm.broadcast(x.data(), x.data(), count, Dtype::f32, player.comm.rank());
                }),
                "root 0", "root 1");
}

TEST(CollectivesDisagree, Combinations) {
  for (const int64_t count : {3, 5000})
    expect_both(disagreement([count](Player& player) {
                  std::vector<float> x(static_cast<size_t>(count));
                  player.comm.all_reduce(x.data(), x.data(), count, Dtype::f32,
                                         player.comm.rank() ? Combine::max : Combine::sum);
                }),
                "sum", "max");
}

TEST(CollectivesDisagree, OperationsAlsoWhereBothAreKnown) {
  for (const int64_t count : {3, 5000})
    expect_both(disagreement([count](Player& player) {
                  std::vector<float> x(static_cast<size_t>(count));
                  player.comm.all_reduce(x.data(), x.data(), count, Dtype::f32);
                  player.comm.broadcast(x.data(), x.data(), count, Dtype::f32, 0);
                  if (player.comm.rank())
                    player.comm.all_reduce(x.data(), x.data(), count, Dtype::f32);
                  else
                    player.comm.broadcast(x.data(), x.data(), count, Dtype::f32, 0);
                }),
                "all_reduce", "broadcast");
}

TEST(CollectivesDisagree, ARankThatDoesNotCallIsNamedWithItsLastCalls) {
  const Error error = error_of([] {
    on_threads(
        2,
        [](Player& player) {
          std::vector<float> x(5000);
          player.comm.all_reduce(x.data(), x.data(), 5000, Dtype::f32);
          if (player.comm.rank() == 0) player.comm.broadcast(x.data(), x.data(), 5000, Dtype::f32, 0);
        },
        Player::quiet(), 1);
  });
  EXPECT_TRUE(error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::peer) << error.what();
  if (error.kind() == ErrorKind::timeout) {
    expect_both(error.what(), "broadcast f32, 5000 elements, root 0", "rank 1: call 1 all_reduce sum f32");
  }
}

TEST(Collectives, MisuseIsRefusedBeforeAnythingIsSent) {
  on_threads(2, [](Player& player) {
    std::vector<float> x(100);
    const auto refused = [&](const Call& call, const std::string& what) {
      const Error error = error_of([&] { api::check_call(call, 2, player.comm.rank()); });
      if (error.kind() != ErrorKind::user || std::string(error.what()).find(what) == std::string::npos)
        fail(ErrorKind::internal, "wanted \"{}\", got {}", what, error.what());
    };
    Call call{Operation::all_reduce, x.data(), x.data() + 3, 10, Dtype::f32, Combine::sum, 0, 1, {}};
    refused(call, "overlap");
    call.recv = x.data() + 50, call.count = -1;
    refused(call, "count of -1");
    call.count = 4, call.combine = Combine::bit_or;
    refused(call, "bits of integers");
    call.combine = Combine::sum, call.send = nullptr;
    refused(call, "null");
    call = {Operation::broadcast, x.data(), x.data(), 4, Dtype::f32, Combine::sum, 2, 1, {}};
    refused(call, "root 2");
    const std::vector<int64_t> counts = {1, 2, 3};
    call = {Operation::all_gather, x.data(), x.data() + 50, 0, Dtype::f32, Combine::sum, 0, 1, counts};
    refused(call, "3 counts for 2 ranks");
  });
}

TEST(Collectives, CommunicatorsInOppositeOrderDoNotBlock) {
  transport::run_threads(2, [](transport::Transport& transport) {
    const auto kernels = kernel::evaluator_library();
    runtime::Communicator a(transport, *kernels), b(transport, *kernels);
    Collectives one(a, Player::quiet()), two(b, Player::quiet());
    for (const int64_t count : {4, 9000}) {
      std::vector<float> x(static_cast<size_t>(count), 1), y(x);
      const Call on_x{Operation::all_reduce, x.data(), x.data(), count, Dtype::f32, Combine::sum, 0, 1, {}};
      const Call on_y{Operation::all_reduce, y.data(), y.data(), count, Dtype::f32, Combine::sum, 0, 1, {}};
      two.run(on_y);  // plans are loaded in one order
      one.run(on_x);
      Pending first = one.start(on_x), second = two.start(on_y);
      if (transport.rank() == 0)
        first.wait(), second.wait();
      else
        second.wait(), first.wait();
      if (x[0] != 4 || y[0] != 4) fail(ErrorKind::internal, "{} {}", x[0], y[0]);
    }
  });
}

}  // namespace
}  // namespace weft
