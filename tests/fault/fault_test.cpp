// What goes wrong between ranks must end as an error that names who, on every rank, within a bound, and leave nothing:
// dead and stopped ranks, a dead parent, plans, sizes, scalars, counts and orders that differ, a kernel that throws.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "tests/support/descriptors.h"
#include "tests/support/errors.h"
#include "tests/support/source_dir.h"
#include "weft/base/file.h"
#include "weft/runtime/communicator.h"
#include "weft/runtime/loaded.h"

namespace weft::runtime {
namespace {

constexpr int64_t second = 1'000'000'000;
using Body = std::function<void(transport::Transport&)>;
using Run = void (*)(int, const Body&, const transport::RankOptions&);

plan::Plan case_plan(const std::string& name) {
  return plan::parse(read_file(checkout_dir() + "/tests/cases/plan/" + name + ".plan"));
}

// Shared memory has no name, so it is there as long as a process maps it or holds its descriptor.
bool maps_memfd(int pid) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  for (std::string line; std::getline(maps, line);)
    if (has(line, "memfd:weft")) return true;
  return false;
}

// Text that ranks, threads or processes, leave for the test.
struct Notes {
  Notes()
      : memory(
            static_cast<char*>(mmap(nullptr, 16 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Notes() { munmap(memory, 16 * 4096); }
  void set(int rank, const Error& error) {
    std::snprintf(memory + rank * 4096, 4096, "%s: %s", std::string(name(error.kind())).c_str(), error.what());
  }
  std::string of(int rank) const { return memory + rank * 4096; }
  char* memory;
};

// A rank with a plan and flat f32 buffers of its own.
struct Rank {
  Rank(transport::Transport& t, const plan::Plan& plan, const LoadOptions& options = quiet())
      : kernels(kernel::evaluator_library()), communicator(t, *kernels), loaded(communicator.load(plan, options)) {}
  static LoadOptions quiet() {
    LoadOptions options;
    options.verify = false;
    return options;
  }
  void launch(int64_t elements, std::vector<expr::ScalarValue> scalars = {}) {
    const plan::Plan& plan = loaded->instance.plan();
    plan::LaunchArgs args;
    for (size_t s = 0; s < plan.spaces.size(); ++s)
      args.spaces.push_back({plan::Cut{1, elements, 1}, std::nullopt, nullptr});
    args.buffers.resize(plan.buffers.size());
    memory.resize(plan.buffers.size());
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      if (plan.buffers[b].role == plan::Buffer::Role::scratch) continue;
      memory[b].assign(static_cast<size_t>(elements) + 16, 1.0f);
      args.buffers[b] = plan::Dense{memory[b].data()};
    }
    args.scalars = std::move(scalars);
    communicator.launch(*loaded, args);
  }
  std::unique_ptr<kernel::KernelLibrary> kernels;
  Communicator communicator;
  std::shared_ptr<Loaded> loaded;
  std::vector<std::vector<float>> memory;
};

class Faults : public testing::TestWithParam<Run> {
 protected:
  void SetUp() override { descriptors_ = open_descriptors(), mappings_ = shared_mappings(); }
  void TearDown() override {
    EXPECT_EQ(open_descriptors(), descriptors_) << "descriptors are left";
    EXPECT_EQ(shared_mappings(), mappings_) << "mappings are left";
    EXPECT_TRUE(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD) << "a child is left";
    EXPECT_LT(now_ns() - begin_, 2 * second + slack_) << "it took too long";
  }
  void run(int ranks, const Body& body, int64_t timeout_ns = 20 * second) {
    GetParam()(ranks, body, {.timeout_ns = timeout_ns});
  }
  // Every rank runs `body`; what it throws is noted.
  Error run_noting(int ranks, const Body& body, int64_t timeout_ns = 20 * second) {
    return error_of([&] {
      run(
          ranks,
          [&](transport::Transport& t) {
            try {
              body(t);
            } catch (const Error& error) {
              notes_.set(t.rank(), error);
              throw;
            }
          },
          timeout_ns);
    });
  }
  void expect_on_all(int ranks, const std::vector<std::string>& pieces) {
    for (int rank = 0; rank < ranks; ++rank)
      for (const std::string& piece : pieces)
        EXPECT_TRUE(has(notes_.of(rank), piece))
            << "rank " << rank << " says: " << notes_.of(rank) << "\nwithout: " << piece;
  }
  Notes notes_;
  int64_t begin_ = now_ns(), slack_ = 0;

 private:
  int descriptors_ = 0, mappings_ = 0;
};

TEST_P(Faults, SizesThatDifferAreShownOnAllRanks) {
  for (const char* name : {"ring_all_reduce", "pairwise_two_shot_all_reduce", "mesh_one_shot_all_reduce"})
    for (const auto& [a, b] : {std::pair<int64_t, int64_t>{4, 6}, {409600, 409598}}) {
      const plan::Plan plan = case_plan(name);
      const int64_t first = a, other = b;
      const Error error = run_noting(2, [&](transport::Transport& t) {
        Rank rank(t, plan);
        rank.launch(100);
        rank.launch(t.rank() ? other : first);
        rank.launch(100);  // one side may have come through: its next call reports
      });
      EXPECT_EQ(error.kind(), ErrorKind::agreement);
      expect_on_all(
          2, {"agreement", fmt::format("s = {}", a), fmt::format("s = {}", b), "rank 0 runs plan", "rank 1 runs plan"});
    }
  slack_ = 10 * second;
}

// Scratch must grow on one rank only: it waits for the others to allocate, they wait for its messages.
TEST_P(Faults, SizesThatDifferAndNeedMemoryAreShownToo) {
  const plan::Plan plan = case_plan("fused_ring_lamb");
  const plan::SegmentTable small{{100}}, large{std::vector<int64_t>(5000, 1)};
  const Error error = run_noting(2, [&](transport::Transport& t) {
    Rank rank(t, plan);
    std::vector<std::vector<float>> memory(plan.buffers.size(), std::vector<float>(6000, 1));
    for (int i = 0; i < 3; ++i) {
      const plan::SegmentTable& table = i == 1 && t.rank() == 1 ? large : small;
      plan::LaunchArgs args;
      args.spaces.resize(plan.spaces.size());
      args.spaces[0] = {plan::Cut{1, table.lengths[0] * static_cast<int64_t>(table.lengths.size()), 1}, std::nullopt,
                        &table};
      args.buffers.resize(plan.buffers.size());
      for (size_t b = 0; b < plan.buffers.size(); ++b)
        if (plan.buffers[b].role != plan::Buffer::Role::scratch) args.buffers[b] = plan::Dense{memory[b].data()};
      args.scalars.assign(rank.loaded->scalar_names.size(), {true, 1, 1});
      rank.communicator.launch(*rank.loaded, args);
    }
  });
  EXPECT_EQ(error.kind(), ErrorKind::agreement);
  expect_on_all(2, {"s = 100 (1 tensors", "s = 5000 (5000 tensors"});
  slack_ = 2 * second;
}

TEST_P(Faults, ScalarsThatDifferAreShown) {
  const plan::Plan plan = case_plan("fused_ring_adam");
  const Error error = run_noting(2, [&](transport::Transport& t) {
    Rank rank(t, plan);
    std::vector<expr::ScalarValue> scalars(rank.loaded->scalar_names.size(), {false, 0, 0.5});
    rank.launch(40, scalars);
    scalars[0].number = t.rank() ? 0.25 : 0.125;
    rank.launch(40, scalars);
    rank.launch(40, scalars);
  });
  EXPECT_EQ(error.kind(), ErrorKind::agreement);
  expect_on_all(2, {"0.125", "0.25"});
}

TEST_P(Faults, PlansThatDifferAreShownAtLoad) {
  const Error error = run_noting(
      2, [&](transport::Transport& t) { Rank rank(t, case_plan(t.rank() ? "ring_all_reduce" : "chain_all_reduce")); });
  EXPECT_EQ(error.kind(), ErrorKind::agreement);
  expect_on_all(2, {"plan 1 chain_all_reduce", "plan 1 ring_all_reduce"});
}

TEST_P(Faults, ParametersAndIdentityThatDifferAreShownAtLoad) {
  const plan::Plan plan = case_plan("ring_all_reduce");
  Error error = run_noting(2, [&](transport::Transport& t) {
    LoadOptions options = Rank::quiet();
    options.identity = t.rank() ? "schedule b" : "schedule a";
    Rank rank(t, plan, options);
  });
  EXPECT_EQ(error.kind(), ErrorKind::agreement);
  expect_on_all(2, {"schedule a", "schedule b"});
  error = run_noting(2, [&](transport::Transport& t) {
    LoadOptions options = Rank::quiet();
    options.chunk_elements = {t.rank() ? 64 : 128};
    Rank rank(t, plan, options);
  });
  expect_on_all(2, {"chunk_elements 64", "chunk_elements 128"});
}

TEST_P(Faults, OrdersThatDifferAreShown) {
  const plan::Plan ring = case_plan("ring_all_reduce"), chain = case_plan("chain_all_reduce");
  const Error error = run_noting(2, [&](transport::Transport& t) {
    Rank rank(t, ring);
    const auto other = rank.communicator.load(chain, Rank::quiet());
    std::vector<std::shared_ptr<Loaded>> order{rank.loaded, other};
    if (t.rank()) std::swap(order[0], order[1]);
    for (const auto& plan : order) {
      rank.loaded = plan;
      rank.launch(100);
    }
  });
  EXPECT_EQ(error.kind(), ErrorKind::agreement);
  expect_on_all(2, {"ring_all_reduce", "chain_all_reduce"});
}

TEST_P(Faults, CountsThatDifferNameBoth) {
  const plan::Plan plan = case_plan("pairwise_all_to_all_v");
  const Error error = run_noting(2, [&](transport::Transport& t) {
    Rank rank(t, plan);
    plan::LaunchArgs args;
    const int me = t.rank();
    args.spaces = {
        {plan::Given{{2, 2}}, std::nullopt, nullptr},
        {plan::Given{me == 1 ? std::vector<int64_t>{3, 2} : std::vector<int64_t>{2, 2}}, std::nullopt, nullptr}};
    std::vector<float> x(16), y(16);
    args.buffers = {plan::Dense{x.data()}, plan::Dense{y.data()}};
    rank.communicator.launch(*rank.loaded, args);
  });
  EXPECT_EQ(error.kind(), ErrorKind::agreement);
  EXPECT_TRUE(has(error.what(), "8 bytes") || has(error.what(), "12 ") || has(error.what(), "4 bytes")) << error.what();
}

TEST_P(Faults, AnExceptionInOneRankEndsAll) {
  const plan::Plan plan = case_plan("ring_all_reduce");
  const Error error = run_noting(3, [&](transport::Transport& t) {
    Rank rank(t, plan);
    rank.launch(100);
    rank.communicator.internals().delay_hook = [&](const char*) {
      if (t.rank() == 1) throw Error(ErrorKind::internal, "the kernel is broken");
    };
    rank.launch(100);
  });
  EXPECT_EQ(error.kind(), ErrorKind::internal);
  EXPECT_TRUE(has(error.what(), "rank 1: the kernel is broken")) << error.what();
  for (int rank : {0, 2})
    EXPECT_TRUE(has(notes_.of(rank), "peer: rank 1 failed: the kernel is broken")) << notes_.of(rank);
  EXPECT_TRUE(has(notes_.of(0), "(rank 0 was ")) << notes_.of(0);
}

TEST_P(Faults, APoisonedCommunicatorSaysWhy) {
  const plan::Plan plan = case_plan("ring_all_reduce");
  run_noting(2, [&](transport::Transport& t) {
    Rank rank(t, plan);
    if (t.rank() == 1) t.raise({ErrorKind::user, 1, "stop"});
    while (!t.abort_word().load()) std::this_thread::yield();
    for (int i = 0; i < 3; ++i) {
      const Error error = error_of([&] { rank.launch(10); });
      if (!has(error.what(), "rank 1 failed: stop")) throw Error(ErrorKind::internal, error.what());
    }
    throw Error(ErrorKind::user, "as expected");
  });
  expect_on_all(2, {"as expected"});
}

TEST_P(Faults, ARankThatDoesNotLaunchIsTimedOutAndNamed) {
  for (const char* name : {"ring_all_reduce", "chain_all_reduce"}) {
    const plan::Plan plan = case_plan(name);
    const Error error = run_noting(
        3,
        [&](transport::Transport& t) {
          Rank rank(t, plan);
          if (t.rank() != 1) return rank.launch(100);
          while (!t.abort_word().load()) usleep(1000);
        },
        second / 2);
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    EXPECT_TRUE(has(error.what(), "channel 0 step")) << error.what();
    // Rank 2 waits for the silent rank 1, rank 0 for rank 2 (ring) or 1: whose deadline passes first is open, but the
    // job's error tells both waits, so that the silent one can be seen in it.
    EXPECT_TRUE(has(error.what(), "rank 0 lane") && has(error.what(), "rank 2 lane")) << error.what();
    EXPECT_TRUE(has(error.what(), "from rank 1") || has(error.what(), "to rank 1")) << error.what();
    EXPECT_FALSE(has(error.what(), "rank 1 lane")) << error.what();
    EXPECT_TRUE(has(error.what(), " bytes ") && has(error.what(), "`")) << error.what();
    EXPECT_TRUE(has(error.what(), fmt::format("plan {}, launch 0", name))) << error.what();
    EXPECT_TRUE(has(error.remedy(), "the time limit that these ranks were given")) << error.what();
  }
  slack_ = 3 * second;
}

TEST_P(Faults, BadBindingsAreRefusedBeforeAnythingRuns) {
  const plan::Plan plan = case_plan("two_shot_symmetric");
  const Error error = run_noting(2, [&](transport::Transport& t) {
    Rank rank(t, plan);
    rank.launch(100);  // private memory for a mapped buffer
  });
  EXPECT_EQ(error.kind(), ErrorKind::user);
  EXPECT_TRUE(has(error.what(), "peers access it")) << error.what();
}

TEST_P(Faults, TooLittleMemoryForScratchIsSaidFirst) {
  const plan::Plan plan = plan::parse(
      "plan 1 big\norder any\nround once\nchannels 1\nspace s parts 1 even\nspace b parts 1 fixed "
      "1099511627776\nbuffer x s f32 in\nbuffer y s f32 out\nbuffer t b f32 scratch\n"
      "lane main:\n  loop s:\n    x[0] -> y[0]\n");
  const Error error = run_noting(1, [&](transport::Transport& t) {
    Rank rank(t, plan);
    plan::LaunchArgs args;
    std::vector<float> x(16), y(16);
    args.spaces = {{plan::Cut{1, 4, 1}, std::nullopt, nullptr}, {}};
    args.buffers = {plan::Dense{x.data()}, plan::Dense{y.data()}, std::monostate()};
    rank.communicator.launch(*rank.loaded, args);
  });
  EXPECT_EQ(error.kind(), ErrorKind::io);
  EXPECT_TRUE(has(error.what(), "needed") && has(error.what(), "free")) << error.what();
  setenv("WEFT_VERIFY", "1", 1);  // the verifier says it before anything is asked for
  const Error verified = run_noting(1, [&](transport::Transport& t) {
    Rank rank(t, plan);
    plan::LaunchArgs args;
    std::vector<float> x(16), y(16);
    args.spaces = {{plan::Cut{1, 4, 1}, std::nullopt, nullptr}, {}};
    args.buffers = {plan::Dense{x.data()}, plan::Dense{y.data()}, std::monostate()};
    rank.communicator.launch(*rank.loaded, args);
  });
  unsetenv("WEFT_VERIFY");
  EXPECT_EQ(verified.kind(), ErrorKind::plan);
  EXPECT_TRUE(has(verified.what(), "V14") && has(verified.what(), "scratch and slots need")) << verified.what();
}

TEST_P(Faults, TwoCommunicatorsInOppositeOrder) {
  const plan::Plan plan = case_plan("ring_all_reduce");
  run(2, [&](transport::Transport& t) {
    Rank a(t, plan), b(t, plan);
    std::vector<float> x(200, 1), y(200), u(200, 2), v(200);
    const auto args = [](float* in, float* out) {
      plan::LaunchArgs args;
      args.spaces = {{plan::Cut{1, 200, 1}, std::nullopt, nullptr}};
      args.buffers = {plan::Dense{in}, plan::Dense{out}};
      return args;
    };
    Work first = a.communicator.start(*a.loaded, args(x.data(), y.data())),
         second = b.communicator.start(*b.loaded, args(u.data(), v.data()));
    if (t.rank() == 0)
      first.wait(), second.wait();
    else
      second.wait(), first.wait();
    if (y[199] != 2 || v[199] != 4) throw Error(ErrorKind::internal, "wrong sums");
    t.barrier("both");
  });
}

TEST_P(Faults, CommunicatorsComeAndGo) {
  const plan::Plan plan = case_plan("ring_all_reduce");
  run(2, [&](transport::Transport& t) {
    int before = 0;
    for (int i = 0; i < 100; ++i) {
      Rank rank(t, plan);
      rank.launch(64);
      t.barrier("done");
      if (i == 5) before = open_descriptors() * 1000 + shared_mappings();
      if (i > 5 && t.name() == "processes" && open_descriptors() * 1000 + shared_mappings() > before)
        throw Error(ErrorKind::internal, fmt::format("something is left after {}", i));
    }
  });
  slack_ = 60 * second;  // a hundred times, maybe on a busy machine
}

INSTANTIATE_TEST_SUITE_P(Both, Faults, testing::Values(&transport::run_threads, &transport::run_processes),
                         [](const auto& info) {
                           return info.param == &transport::run_threads ? "threads" : "processes";
                         });

// ---- processes only
class Deaths : public Faults {};

TEST_P(Deaths, ARankKilledInALaunch) {
  for (const char* name : {"ring_all_reduce", "pairwise_two_shot_all_reduce", "double_tree_all_reduce"}) {
    const plan::Plan plan = case_plan(name);
    const int64_t begin = now_ns();
    const Error error = run_noting(4, [&](transport::Transport& t) {
      Rank rank(t, plan);
      int steps = 0;
      rank.communicator.internals().delay_hook = [&](const char*) {
        if (t.rank() != 2 || ++steps != 4) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until the others wait for this rank
        raise(SIGKILL);
      };
      for (int i = 0; i < 5; ++i) rank.launch(1000);
    });
    EXPECT_EQ(error.kind(), ErrorKind::peer) << error.what();
    EXPECT_TRUE(has(error.what(), "rank 2 was killed by signal 9")) << error.what();
    EXPECT_LT(now_ns() - begin, 2 * second);
    for (int rank : {0, 1, 3}) EXPECT_TRUE(has(notes_.of(rank), "rank 2 ")) << notes_.of(rank);
    // Who waited, in which step of the plan, for whom and for how much.
    int waits = 0;
    for (int rank : {0, 1, 3}) waits += has(error.what(), fmt::format("(rank {0} was rank {0} lane ", rank));
    EXPECT_GE(waits, 2) << error.what();  // one may have been between two launches
    for (const char* piece : {"step ", "` (chunk ", "waits for ", " bytes ", " rank 2", "plan ", "launch "})
      EXPECT_TRUE(has(error.what(), piece)) << error.what() << "\nwithout " << piece;
    EXPECT_TRUE(has(error.remedy(), "smaller sizes")) << error.what();
  }
  slack_ = 6 * second;
}

TEST_P(Deaths, AStoppedRankIsTimedOutAndNamed) {
  const plan::Plan plan = case_plan("ring_all_reduce");
  const Error error = run_noting(
      2,
      [&](transport::Transport& t) {
        Rank rank(t, plan);
        rank.launch(1000);
        if (t.rank() == 1) raise(SIGSTOP);
        rank.launch(1000);
      },
      second / 2);
  EXPECT_EQ(error.kind(), ErrorKind::timeout);
  EXPECT_TRUE(has(error.what(), "from rank 1")) << error.what();
  EXPECT_TRUE(has(error.what(), "(rank 1 was stopped (process ")) << error.what();
  EXPECT_TRUE(has(error.remedy(), "the time limit that these ranks were given")) << error.what();
  slack_ = 2 * second;
}

TEST_P(Deaths, ThePresenceOfAChildOfARankDoesNotMatter) {
  const plan::Plan plan = case_plan("ring_all_reduce");
  run(2, [&](transport::Transport& t) {
    Rank rank(t, plan);
    const pid_t child = fork();  // a data loader
    if (child == 0) _exit(0);
    rank.launch(1000);
    waitpid(child, nullptr, 0);
    rank.launch(1000);
  });
}

TEST_P(Deaths, ACommunicatorInAForkedChildIsRefused) {
  const plan::Plan plan = case_plan("ring_all_reduce");
  run(2, [&](transport::Transport& t) {
    Rank rank(t, plan);
    rank.launch(1000);
    const pid_t child = fork();
    if (child == 0) {
      const Error launch = error_of([&] { rank.launch(1000); });
      const Error load = error_of([&] { rank.communicator.load(plan, Rank::quiet()); });
      const Error memory = error_of([&] { rank.communicator.allocate(64, "a block"); });
      for (const Error* error : {&launch, &load, &memory})
        if (error->kind() != ErrorKind::user || !has(error->what(), "is a fork of") || error->remedy().empty())
          _exit(1);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw Error(ErrorKind::internal, "the child was not refused");
    rank.launch(1000);  // and nobody is poisoned
  });
}

TEST_P(Deaths, MessagesInPiecesTellTheirProgress) {
  for (const char* protocol : {"simple", "ll", "ll128"}) {
    const plan::Plan plan = plan::parse(fmt::format(
        "plan 1 two\norder any\nround once\nchannels 1\nspace s parts 1 even\nbuffer x s f32 in\nbuffer y s f32 out\n"
        "link main {} slots 1\nlane main:\n  loop s:\n    when r == 0:\n      put: x[0] -> >1\n    when r == 1:\n"
        "      get: <0 -> y[0]\n",
        protocol));
    const Error error = run_noting(
        2,
        [&](transport::Transport& t) {
          Rank rank(t, plan);
          if (t.rank() == 1) return rank.launch(1000);
          while (!t.abort_word().load()) usleep(1000);
        },
        second / 4);
    const std::string pieces = protocol[0] == 's' ? ""
                               : protocol[2]      ? "; 0 of its 72 pieces are there"
                                                  : "; 0 of its 1000 pieces are there";
    EXPECT_TRUE(has(error.what(),
                    "step get `get: <0 -> y[0]` (chunk 0 of 1) waits for a message of 4000 bytes from rank 0 on "
                    "link main (number 1 of this launch" +
                        pieces))
        << error.what();
  }
  slack_ = 3 * second;
}

TEST_P(Deaths, RanksInALaunchEndWithTheirParent) {
  auto* pids =
      static_cast<std::atomic<int>*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t parent = fork();
  if (parent == 0) {
    const plan::Plan plan = case_plan("ring_all_reduce");
    transport::run_processes(3, [&](transport::Transport& t) {
      Rank rank(t, plan);
      pids[t.rank()] = getpid();
      for (;;) rank.launch(1000);
    });
    _exit(0);
  }
  const int64_t begin = now_ns();
  while ((!pids[0] || !pids[1] || !pids[2]) && now_ns() - begin < 10 * second) usleep(1000);
  EXPECT_TRUE(maps_memfd(pids[0])) << "nothing to look for";
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  const auto running = [&](int i) {
    std::ifstream stat(fmt::format("/proc/{}/stat", pids[i].load()));
    std::string pid, name, state;
    return stat >> pid >> name >> state && state != "Z" && state != "X";
  };
  const int64_t killed = now_ns();
  while ((running(0) || running(1) || running(2)) && now_ns() - killed < 2 * second) usleep(1000);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(running(i)) << "rank " << i << " outlives its parent";
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(maps_memfd(pids[i]));
  munmap(pids, 4096);
  slack_ = 10 * second;
}

INSTANTIATE_TEST_SUITE_P(Processes, Deaths, testing::Values(&transport::run_processes),
                         [](const auto&) { return "processes"; });

}  // namespace
}  // namespace weft::runtime
