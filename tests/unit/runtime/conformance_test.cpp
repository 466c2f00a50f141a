// Every transport passes these: memory and words of the control plane, links in all protocols, plans of the registry bitwise
// against the interpreter, tags of other launches, deaths, aborts and deadlines.
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "tests/support/errors.h"
#include "tests/unit/runtime/harness.h"
#include "weft/algo/algorithm.h"
#include "weft/transport/spec.h"
#include "weft/transport/wait.h"

namespace weft::runtime::test {
namespace {

using transport::Transport;
constexpr int64_t second = 1'000'000'000;

class Conformance : public testing::TestWithParam<const char*> {
 protected:
  void run(int ranks, const std::function<void(Transport&)>& body, int64_t timeout_ns = 20 * second) {
    transport::run_ranks(GetParam(), ranks, body, {.timeout_ns = timeout_ns});
  }
  // All of it in one job: starting ranks costs more than running a plan.
  struct Item {
    std::string what;
    plan::Plan plan;
    Sizes sizes;
    RunOptions options;
  };
  void check(int ranks, const std::vector<Item>& items) {
    std::vector<Expected> expected;
    for (const Item& item : items)
      expected.push_back(interpret(item.plan, ranks, item.sizes, item.options.launches, 1));
    try {
      run(ranks, [&](Transport& t) {
        for (size_t i = 0; i < items.size(); ++i) try {
            const Start here = [&](int, const auto& body, const auto&) { body(t); };
            run_and_compare(here, items[i].plan, ranks, items[i].sizes, expected[i], items[i].options);
          } catch (const Error& error) {
            throw Error(error.kind(), fmt::format("{} on {} ranks: {}", items[i].what, ranks, error.what()));
          }
      });
    } catch (const Error& error) { ADD_FAILURE() << error.what(); }
  }
  // Whether all ranks map one another.
  bool maps(int ranks) {
    const std::string word = GetParam();
    return ranks == 1 || word == "threads" || word == "processes";
  }
};

TEST_P(Conformance, ExchangeAndMemory) {
  run(3, [](Transport& t) {
    for (int round = 0; round < 20; ++round) {
      const std::string mine(static_cast<size_t>(round * 3000 * (t.rank() + 1)), static_cast<char>('a' + t.rank()));
      const auto all = t.exchange(mine, "strings");
      for (int q = 0; q < t.size(); ++q)
        need(all[static_cast<size_t>(q)] ==
                 std::string(static_cast<size_t>(round * 3000 * (q + 1)), static_cast<char>('a' + q)),
             "what a rank says");
      t.barrier("round");
    }
    const auto block = t.allocate(100'000, "a block");
    const auto copy = t.allocate_mirrored(4096, "a mirrored block");
    for (int q = 0; q < t.size(); ++q) {
      need((block->at[static_cast<size_t>(q)] != nullptr) == t.mappable(q), "blocks of those that are mapped");
      need(copy->at[static_cast<size_t>(q)] != nullptr, "a copy of every block");
    }
    need(t.mappable(t.rank()), "own memory");
    std::memset(block->at[static_cast<size_t>(t.rank())], 1, 100'000);
  });
}

// A word at each peer, and a body before its head, many times.
TEST_P(Conformance, PutsComeInOrderAndWhole) {
  run(3, [](Transport& t) {
    constexpr int64_t body_bytes = 60'000;
    const auto window = t.allocate_mirrored(t.size() * (body_bytes + 64), "messages");
    for (uint64_t round = 1; round <= 50; ++round) {
      for (int q = 0; q < t.size(); ++q) {
        if (q == t.rank()) continue;
        const int64_t at = t.rank() * (body_bytes + 64);
        std::byte* const there = window->at[static_cast<size_t>(q)] + at;
        std::memset(there + 64, static_cast<int>(round), body_bytes);
        reinterpret_cast<std::atomic<uint64_t>*>(there)->store(round, std::memory_order_release);
        if (!t.mappable(q)) t.put(*window, {q, q, at, 8, at + 64, body_bytes, false});
      }
      for (int q = 0; q < t.size(); ++q) {
        if (q == t.rank()) continue;
        std::byte* const here = window->at[static_cast<size_t>(t.rank())] + q * (body_bytes + 64);
        auto* word = reinterpret_cast<std::atomic<uint64_t>*>(here);
        need(transport::wait_until(t, 10 * second, [&] { return word->load(std::memory_order_acquire) == round; }) ==
                 transport::Waited::ready,
             "comes");
        for (int64_t i = 0; i < body_bytes; ++i) need(here[64 + i] == static_cast<std::byte>(round), "whole");
      }
      t.barrier("round");
    }
  });
}

TEST_P(Conformance, LinksInAllProtocols) {
  for (int ranks : {2, 3}) {
    std::vector<Item> items;
    for (const auto protocol : {plan::Protocol::simple, plan::Protocol::ll, plan::Protocol::ll128})
      for (int64_t elements : {0, 2, 27, 1001})
        for (const bool asynchronous : {false, true}) {
          Item& item = items.emplace_back();
          item.what = fmt::format("protocol {} {} elements", static_cast<int>(protocol), elements);
          item.plan = case_plan("ring_all_reduce");
          for (plan::Family& family : item.plan.families) family.protocol = protocol;
          item.sizes.spaces = {flat(elements)};
          item.sizes.chunk_elements = {static_cast<int64_t>(elements % 2 ? 64 : 1024)};
          item.options.launches = 5, item.options.asynchronous = asynchronous;
        }
    check(ranks, items);
  }
}

// Messages of some hundred KiB, more of them than there are slots: what a socket's buffer does not hold.
TEST_P(Conformance, LargeMessages) {
  std::vector<Item> items;
  for (const char* name : {"ring_all_reduce", "chain_all_reduce"}) {
    Item& item = items.emplace_back();
    item.what = name, item.plan = case_plan(name);
    item.sizes.spaces = {flat(150'001)};
    item.sizes.chunk_elements = {1 << 15};
    item.options.launches = 2;
  }
  check(2, items);
}

TEST_P(Conformance, PlansOfTheRegistry) {
  using algo::Collective;
  size_t checked = 0;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    std::vector<Item> items;
    for (const algo::Algorithm* algorithm : algo::algorithms())
      for (const Collective collective :
           {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather, Collective::broadcast,
            Collective::reduce, Collective::all_to_all, Collective::barrier}) {
        if (!algorithm->supports(collective) || !algorithm->supports_ranks(ranks)) continue;
        if (algorithm->needs_mapped() && !maps(ranks)) continue;
        algo::PlanRequest request;
        request.collective = collective;
        request.root = ranks - 1;
        request.channels = algorithm->channel_multiple();
        for (int64_t elements : {0, 12, 1008}) {  // some spaces want equal parts
          Item& item = items.emplace_back();
          item.what = fmt::format("{} {} of {}", algorithm->name(), algo::name(collective), elements);
          item.plan = algo::make_plan(*algorithm, request);
          item.sizes.spaces.assign(item.plan.spaces.size(), flat(elements));
          item.sizes.chunk_elements.assign(item.plan.spaces.size(), 128);
          item.options.launches = 2;
        }
      }
    check(ranks, items);
    checked += items.size();
  }
  EXPECT_GT(checked, 100u);
}

// A rank with a ring and a buffer of its own.
struct Ring {
  explicit Ring(Transport& t, std::string_view name = "ring_all_reduce", bool verify = false)
      : kernels(kernel::evaluator_library()), communicator(t, *kernels) {
    LoadOptions options;
    options.verify = verify;
    loaded = communicator.load(case_plan(std::string(name)), options);
  }
  void launch(int64_t elements) {
    x.assign(static_cast<size_t>(elements), 1), y.assign(static_cast<size_t>(elements), 0);
    plan::LaunchArgs args;
    args.spaces = {flat(elements)};
    args.buffers.resize(loaded->instance.plan().buffers.size());
    args.buffers[0] = plan::Dense{x.data()}, args.buffers[1] = plan::Dense{y.data()};
    communicator.launch(*loaded, args);
  }
  std::unique_ptr<kernel::KernelLibrary> kernels;
  Communicator communicator;
  std::shared_ptr<Loaded> loaded;
  std::vector<float> x, y;
};

// Sizes differ: one error that shows both, whichever rank sees it first.
TEST_P(Conformance, OtherLaunchesAreSeen) {
  const Error error = error_of([&] {
    run(3, [](Transport& t) {
      Ring ring(t);
      for (int64_t i = 0; i < 20; ++i) ring.launch(i == 17 && t.rank() == 1 ? 600 : 300);
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::agreement) << error.what();
  EXPECT_TRUE(has(error.what(), "= 600") && has(error.what(), "= 300")) << error.what();
}

TEST_P(Conformance, AFailureReachesAllRanks) {
  const int64_t begin = now_ns();
  const Error error = error_of([&] {
    run(3, [](Transport& t) {
      Ring ring(t);
      ring.launch(100);
      if (t.rank() == 1) throw Error(ErrorKind::user, "no more paper");
      const Error here = error_of([&] { ring.launch(100), t.barrier("all"); });
      if (here.kind() != ErrorKind::peer || !has(here.what(), "no more paper"))
        throw Error(ErrorKind::internal, fmt::format("rank {} saw: {}", t.rank(), here.what()));
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::user) << error.what();
  EXPECT_TRUE(has(error.what(), "no more paper")) << error.what();
  EXPECT_LT(now_ns() - begin, 4 * second);
}

TEST_P(Conformance, ALateRankIsNamed) {
  const int64_t begin = now_ns();
  const Error error = error_of([&] {
    run(
        2,
        [](Transport& t) {
          Ring ring(t);
          ring.launch(100);
          if (t.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
          ring.launch(100);
        },
        second / 2);
  });
  EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
  EXPECT_TRUE(has(error.what(), "from rank 1") && has(error.what(), "link")) << error.what();
  EXPECT_LT(now_ns() - begin, 5 * second);
}

TEST_P(Conformance, ADeadRankEndsAll) {
  if (transport::wants_threads(GetParam())) GTEST_SKIP() << "a thread cannot be killed alone";
  for (const int signal : {SIGKILL, SIGSEGV}) {
    const int64_t begin = now_ns();
    const Error error = error_of([&] {
      run(3, [&](Transport& t) {
        Ring ring(t);
        ring.launch(100);
        if (t.rank() == 2) ::signal(signal, SIG_DFL), raise(signal);
        for (;;) ring.launch(100);
      });
    });
    EXPECT_EQ(error.kind(), ErrorKind::peer) << error.what();
    EXPECT_TRUE(has(error.what(), "rank 2")) << error.what();
    EXPECT_LT(now_ns() - begin, 4 * second);
  }
}

// Where peers do not map memory, a plan that needs it is refused when it is loaded, by its rule.
TEST_P(Conformance, MappedPlansOnlyWhereMemoryIsMapped) {
  const Error error = error_of([&] { run(3, [](Transport& t) { Ring ring(t, "two_shot_symmetric", true); }); });
  if (maps(3))
    EXPECT_TRUE(has(error.what(), "nothing was thrown")) << error.what();
  else
    EXPECT_TRUE(error.kind() == ErrorKind::plan && has(error.what(), "V3")) << error.what();
}

TEST_P(Conformance, JobsAreCommanded) {
  const auto make = [](Transport&) -> transport::CommandLoop {
    return
        [](Transport& t, std::string_view text) { return fmt::format("{} {}", t.exchange(text, "said")[1], t.rank()); };
  };
  const auto job = transport::start_ranks(GetParam(), 2, make);
  for (int i = 0; i < 3; ++i) {
    for (int rank = 0; rank < 2; ++rank) job->send(rank, fmt::format("{}-{}", i, rank));
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(job->receive(rank, 10 * second), fmt::format("{}-1 {}", i, rank));
  }
  job->finish();
}

std::string label(const testing::TestParamInfo<const char*>& info) {
  std::string name;
  for (const char c : std::string_view(info.param)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Transports, Conformance,
                         testing::Values("threads", "processes", "threads+paced:alpha=2us,bw=5GB/s",
                                         "paced:alpha=5us,bw=1GB/s", "paced:alpha=5us,bw=1GB/s,group=2,shared", "tcp",
                                         "threads+tcp", "mixed:group=2"),
                         label);

}  // namespace
}  // namespace weft::runtime::test
