// Transports, threads and processes alike: memory, exchange, failure, and what is left when ranks or parents die.
#include "weft/transport/transport.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/support/descriptors.h"
#include "tests/support/errors.h"
#include "tests/support/sanitizers.h"
#include "weft/base/file.h"
#include "weft/transport/board.h"
#include "weft/transport/descriptors.h"
#include "weft/transport/mapping.h"
#include "weft/transport/wait.h"

namespace weft::transport {
namespace {

constexpr int64_t second = 1'000'000'000;
using Body = std::function<void(Transport&)>;
using Start = std::function<void(int, const Body&, const RankOptions&)>;
struct Kind {
  const char* name;
  Start run;
  std::function<std::unique_ptr<Job>(int, const std::function<CommandLoop(Transport&)>&, const RankOptions&)> start;
};

bool has_children() { return waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD; }

class Transports : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { before_ = open_descriptors(); }
  void TearDown() override {
    EXPECT_EQ(open_descriptors(), before_);
    EXPECT_FALSE(has_children());
  }
  int before_ = 0;
};

TEST_P(Transports, RanksKnowThemselves) {
  for (int n : {1, 2, 3, 5, 8})
    GetParam().run(n,
                   [n](Transport& t) {
                     need(t.size() == n && t.rank() >= 0 && t.rank() < n && t.mappable(0), "rank and size");
                     need(t.oversubscribed() == (n > allowed_core_count()) || n <= 2, "oversubscribed");
                   },
                   {});
}

TEST_P(Transports, ExchangeIsAllGatherOfAnySize) {
  for (int n : {1, 2, 4, 7})
    GetParam().run(
        n,
        [n](Transport& t) {
          for (int64_t size : {0, 1, 100, 16383, 16384, 16385, 100000}) {
            const int64_t mine = t.rank() == n - 1 ? size : size / 3;
            const std::string text(static_cast<size_t>(mine), static_cast<char>('a' + t.rank()));
            const auto all = t.exchange(text, "sizes");
            for (int q = 0; q < n; ++q)
              need(all[static_cast<size_t>(q)] ==
                       std::string(static_cast<size_t>(q == n - 1 ? size : size / 3), static_cast<char>('a' + q)),
                   "exchanged text");
          }
          for (int i = 0; i < 50; ++i) t.barrier("again");
        },
        {});
}

TEST_P(Transports, WindowsAreSharedZeroFilledAndAligned) {
  for (int n : {1, 2, 3, 8})
    GetParam().run(
        n,
        [n](Transport& t) {
          for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{5000}, int64_t{3} << 20}) {
            auto w = t.allocate(bytes, "block");
            need(w->bytes == bytes && static_cast<int>(w->at.size()) == n, "window's size");
            const uintptr_t align = bytes >= (2 << 20) ? (2 << 20) : 4096;
            for (auto* at : w->at) need(at && reinterpret_cast<uintptr_t>(at) % align == 0, "alignment");
            for (int64_t i = 0; i < bytes; i += 999)
              need(w->at[static_cast<size_t>(t.rank())][i] == std::byte{0}, "zero");
            t.barrier("looked");
            for (int64_t i = 0; i < bytes; ++i)
              w->at[static_cast<size_t>((t.rank() + 1) % n)][i] = static_cast<std::byte>(i * 7 + t.rank());
            t.barrier("written");
            for (int64_t i = 0; i < bytes; ++i)
              need(w->at[static_cast<size_t>(t.rank())][i] == static_cast<std::byte>(i * 7 + (t.rank() + n - 1) % n),
                   "a peer's bytes");
          }
        },
        {});
}

TEST_P(Transports, DisagreeingSizesAreRefusedWithBoth) {
  const Error e =
      error_of([&] { GetParam().run(2, [](Transport& t) { t.allocate(t.rank() ? 6000 : 5000, "the thing"); }, {}); });
  EXPECT_EQ(e.kind(), ErrorKind::agreement);
  EXPECT_NE(std::string(e.what()).find("5000"), std::string::npos) << e.what();
  EXPECT_NE(std::string(e.what()).find("6000"), std::string::npos) << e.what();
}

TEST_P(Transports, DifferentCallsAreNamed) {
  const Error e =
      error_of([&] { GetParam().run(2, [](Transport& t) { t.rank() ? t.barrier("b") : t.barrier("a"); }, {}); });
  EXPECT_EQ(e.kind(), ErrorKind::agreement);
  EXPECT_NE(std::string(e.what()).find("rank 0 at \"a\", rank 1 at \"b\""), std::string::npos) << e.what();
}

TEST_P(Transports, TooLittleMemoryIsAskedFirstAndLeavesTheJobAlive) {
  GetParam().run(2,
                 [](Transport& t) {
                   const Error e = error_of([&] { t.allocate(int64_t{1} << 45, "everything"); });
                   need(e.kind() == ErrorKind::io && std::string(e.what()).find("free") != std::string::npos &&
                            !e.remedy().empty(),
                        "asks first");
                   t.barrier("goes on");
                   need(t.allocate(100, "small")->bytes == 100, "allocates again");
                 },
                 {});
}

TEST_P(Transports, SizesThatOverflowAreRefused) {
  GetParam().run(4,
                 [](Transport& t) {
                   for (const int64_t bytes : {INT64_MAX, INT64_MAX / 4 + 1, (int64_t{1} << 62) + 8, int64_t{-1}}) {
                     const Error e = error_of([&] { t.allocate(bytes, "a number"); });
                     need(e.kind() == ErrorKind::user && std::string(e.what()).find("a number") != std::string::npos,
                          "refused");
                   }
                   t.barrier("goes on");
                 },
                 {});
}

TEST_P(Transports, ALateRankIsNamed) {
  const int64_t begin = now_ns();
  const Error e = error_of([&] {
    GetParam().run(3,
                   [](Transport& t) {
                     if (t.rank() != 1) return t.barrier("meet");
                     while (!t.abort_word()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
                   },
                   {.timeout_ns = second / 3});
  });
  EXPECT_EQ(e.kind(), ErrorKind::timeout);
  EXPECT_NE(std::string(e.what()).find("for rank 1 at \"meet\""), std::string::npos) << e.what();
  EXPECT_LT(now_ns() - begin, 3 * second);
}

TEST_P(Transports, TheFirstExceptionEndsAll) {
  const int64_t begin = now_ns();
  const Error e = error_of([&] {
    GetParam().run(4,
                   [](Transport& t) {
                     if (t.rank() == 2) throw Error(ErrorKind::user, "forty-two");
                     t.barrier("never");
                   },
                   {});
  });
  EXPECT_EQ(e.kind(), ErrorKind::user);
  EXPECT_STREQ(e.what(), "rank 2: forty-two");
  EXPECT_LT(now_ns() - begin, 2 * second);
}

TEST_P(Transports, OtherRanksSeeWhatTheyWereDoing) {
  auto* seen = static_cast<char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const Error job = error_of([&] {
    GetParam().run(2,
                   [seen](Transport& t) {
                     if (t.rank() == 1) return t.raise({ErrorKind::user, 1, "boom"});
                     const Error e = error_of([&] { t.barrier("meet"); });
                     std::snprintf(seen, 4096, "%s: %s", std::string(name(e.kind())).c_str(), e.what());
                   },
                   {});
  });
  EXPECT_STREQ(job.what(), "rank 1: boom");
  EXPECT_STREQ(seen, "peer: rank 1 failed: boom\n    (rank 0 was waiting for rank 1 at \"meet\")");
  munmap(seen, 4096);
}

TEST_P(Transports, ParkedRanksAreWoken) {
  GetParam().run(2,
                 [](Transport& t) {
                   auto w = t.allocate(64, "word");
                   auto& word = *reinterpret_cast<std::atomic<uint64_t>*>(w->at[0]);
                   for (uint64_t i = 1; i <= 20; ++i) {
                     if (t.rank() == 0) {
                       std::this_thread::sleep_for(std::chrono::milliseconds(1));
                       word.store(i);
                       if (t.parked(1).load()) t.wake(1);
                     } else {
                       need(wait_until(t, second, [&] { return word.load() >= i; }) == Waited::ready, "woken");
                     }
                   }
                 },
                 {});
}

TEST_P(Transports, JobsAnswerInOrder) {
  auto job = GetParam().start(3,
                              [](Transport& t) {
                                return [&t, count = 0](Transport&, std::string_view text) mutable {
                                  t.barrier("all have the command");
                                  return fmt::format("{} {} {}", t.rank(), ++count, text.size());
                                };
                              },
                              {});
  for (int i = 1; i <= 3; ++i) {
    const std::string big(static_cast<size_t>(i) * 300000, 'x');
    for (int r = 0; r < 3; ++r) job->send(r, big);
    for (int r = 0; r < 3; ++r) EXPECT_EQ(job->receive(r, 10 * second), fmt::format("{} {} {}", r, i, big.size()));
  }
  EXPECT_EQ(error_of([&] { job->receive(0, second / 100); }).kind(), ErrorKind::timeout);
  job->finish();
}

TEST_P(Transports, AJobsFailureReachesItsParent) {
  auto job = GetParam().start(2,
                              [](Transport&) {
                                return [](Transport& t, std::string_view) -> std::string {
                                  if (t.rank() == 1) throw Error(ErrorKind::plan, "no such plan");
                                  return "fine";
                                };
                              },
                              {});
  for (int r = 0; r < 2; ++r) job->send(r, "go");
  const Error e = error_of([&] { job->receive(1, 5 * second); });
  EXPECT_EQ(e.kind(), ErrorKind::plan);
  EXPECT_STREQ(e.what(), "rank 1: no such plan");
  EXPECT_EQ(error_of([&] { job->finish(); }).kind(), ErrorKind::plan);
}

TEST_P(Transports, AForgottenJobEnds) {
  const int64_t begin = now_ns();
  {
    auto job =
        GetParam().start(3, [](Transport&) { return [](Transport&, std::string_view) { return std::string(); }; }, {});
  }
  EXPECT_LT(now_ns() - begin, 2 * second);
}

TEST_P(Transports, ManyJobsLeaveNothing) {
  for (int i = 0; i < 20; ++i)
    GetParam().run(
        2, [](Transport& t) { t.allocate(1 << 16, "a")->at[static_cast<size_t>(t.rank())][0] = std::byte{1}; }, {});
}

TEST_P(Transports, NoRanksIsAnError) {
  EXPECT_EQ(error_of([&] { GetParam().run(0, [](Transport&) {}, {}); }).kind(), ErrorKind::user);
}

INSTANTIATE_TEST_SUITE_P(Both, Transports,
                         testing::Values(Kind{"threads", run_threads, start_threads},
                                         Kind{"processes", run_processes, start_processes}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Transports, AWrongEnvironmentIsRefusedBeforeRanksStart) {
  for (const char* value : {"0", "-1", "nan"}) {
    setenv("WEFT_TIMEOUT_S", value, 1);
    const Error e = error_of([&] { GetParam().run(2, [](Transport&) {}, {}); });
    unsetenv("WEFT_TIMEOUT_S");
    EXPECT_EQ(e.kind(), ErrorKind::user);
    EXPECT_NE(e.message().find(std::string("WEFT_TIMEOUT_S=") + value), std::string::npos) << e.what();
    EXPECT_EQ(e.message().find("rank"), std::string::npos) << "not one rank's affair: " << e.what();
  }
}

TEST_P(Transports, ATimeoutTellsWhatEveryRankDidAndTheRemedy) {
  const Error e = error_of([&] {
    GetParam().run(4,
                   [](Transport& t) {
                     if (t.rank() != 1) return t.barrier("meet");
                     while (!t.abort_word()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
                   },
                   {.timeout_ns = second / 4});
  });
  EXPECT_EQ(e.kind(), ErrorKind::timeout);
  EXPECT_NE(e.remedy().find("the time limit that these ranks were given (now 250 ms)"), std::string::npos) << e.what();
  EXPECT_NE(timeout_remedy(600 * second).find("WEFT_TIMEOUT_S (now 600)"), std::string::npos);
  int waiting = 0;
  for (const char* rank :
       {"(rank 0 was waiting for rank 1", "(rank 2 was waiting for rank 1", "(rank 3 was waiting for rank 1"})
    waiting += std::string(e.what()).find(rank) != std::string::npos;
  EXPECT_GE(waiting, 2) << e.what();  // the one that reported says it in the first line
}

// ---- what only processes can do

TEST(Processes, AForkOfARankIsNotTheRank) {
  run_processes(2, [](Transport& t) {
    for (int i = 0; i < 2; ++i) {
      const pid_t copy = fork();
      if (copy == 0) {
        if (i == 0) throw Error(ErrorKind::user, "from a copy, on purpose");  // comes back to where ranks are run
        const Error e = error_of([&] { t.barrier("meet"); });
        _exit(e.kind() == ErrorKind::user && std::string(e.what()).find("fork") != std::string::npos ? 0 : 1);
      }
      int status = 0;
      waitpid(copy, &status, 0);
      need(WIFEXITED(status) && WEXITSTATUS(status) == (i == 0 ? 1 : 0), "what the copy said");
    }
    t.barrier("meet");
  });
}

TEST(Processes, AParentWithThreadsIsRefused) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const Error e = error_of([] { run_processes(2, [](Transport&) {}); });
  stop = true;
  other.join();
#if !defined(__SANITIZE_THREAD__)
  EXPECT_EQ(e.kind(), ErrorKind::user);
  EXPECT_NE(e.message().find("2 threads"), std::string::npos) << e.what();
  EXPECT_NE(e.remedy().find("run_threads"), std::string::npos);
#endif
  run_processes(2, [](Transport& t) { t.barrier("meet"); });
}

// A rank that has no descriptor left, for its socket (0) or for what it is passed (1): all are told at once, and go on.
TEST(Processes, ARankThatCannotTakeDescriptorsTellsAll) {
  if (address_sanitizer) GTEST_SKIP() << "the sanitizer asks about objects through a pipe";
  for (const int poor : {0, 2})
    for (const int left : {0, 1})
      run_processes(3, [&](Transport& t) {
        const Fd file(memfd_create("passed", MFD_CLOEXEC));
        const Fd next(dup(file.get()));
        rlimit before{}, few{};
        getrlimit(RLIMIT_NOFILE, &before);
        few.rlim_cur = static_cast<rlim_t>(next.get() + 1 + left), few.rlim_max = before.rlim_max;
        if (t.rank() == poor) setrlimit(RLIMIT_NOFILE, &few);
        const int64_t begin = clock_ns();
        const Error error = error_of([&] { exchange_descriptors(t, file.get(), "files"); });
        setrlimit(RLIMIT_NOFILE, &before);
        need(error.kind() == ErrorKind::io && has(error.what(), fmt::format("rank {}: ", poor)), error.what());
        need(clock_ns() - begin < 5'000'000'000, "it took too long");
        const auto files = exchange_descriptors(t, file.get(), "files");
        need(files[static_cast<size_t>((t.rank() + 1) % 3)].get() >= 0, "none came");
      });
}

// Rank 0 makes the memory of all: where it cannot, the others must not wait for a descriptor until the deadline.
TEST(Processes, NoDescriptorsOnOneRankIsAnErrorOnAllAtOnce) {
  if (address_sanitizer) GTEST_SKIP() << "the sanitizer asks about objects through a pipe";
  for (const int poor : {0, 1})
    run_processes(3, [poor](Transport& t) {
      rlimit before{}, none{};
      getrlimit(RLIMIT_NOFILE, &before);
      none.rlim_max = before.rlim_max;
      if (t.rank() == poor) setrlimit(RLIMIT_NOFILE, &none);
      const int64_t begin = now_ns();
      const Error e = error_of([&] { t.allocate(100, "the thing"); });
      setrlimit(RLIMIT_NOFILE, &before);
      need(e.kind() == ErrorKind::io && std::string(e.what()).find(fmt::format("rank {}: ", poor)) != std::string::npos,
           e.what());
      need(now_ns() - begin < 5 * second, "nobody waits for the deadline");
      need(t.allocate(100, "the thing")->bytes == 100, "goes on");
    });
}

TEST(Processes, AStoppedRankIsNamedAsStopped) {
  const Error e = error_of([] {
    run_processes(3,
                  [](Transport& t) {
                    if (t.rank() == 1) raise(SIGSTOP);
                    t.barrier("meet");
                  },
                  {.timeout_ns = second / 4});
  });
  EXPECT_EQ(e.kind(), ErrorKind::timeout);
  EXPECT_NE(std::string(e.what()).find("(rank 1 was stopped (process "), std::string::npos) << e.what();
}

TEST(Processes, ARankThatDoesNotAnswerIsDescribed) {
  auto job = start_processes(1, [](Transport&) {
    return [](Transport&, std::string_view) -> std::string {
      raise(SIGSTOP);
      return "";
    };
  });
  job->send(0, "go");
  const Error e = error_of([&] { job->receive(0, second / 5); });
  EXPECT_EQ(e.kind(), ErrorKind::timeout);
  EXPECT_NE(e.message().find("rank 0 did not answer within 200 ms: it is stopped"), std::string::npos) << e.what();
  EXPECT_NE(e.remedy().find("the time limit that these ranks were given"), std::string::npos);
}

// The others have answered, and nobody waits for the rank that is stopped but the parent.
TEST(Processes, AStoppedRankThatNoPeerWaitsForIsNamedByTheParent) {
  for (const bool answered : {false, true}) {
    auto job = start_processes(2,
                               [=](Transport&) {
                                 return [=](Transport& t, std::string_view) -> std::string {
                                   if (t.rank() == 1 && !answered) raise(SIGSTOP);
                                   return std::to_string(getpid());
                                 };
                               },
                               {.timeout_ns = second / 4});
    const int64_t begin = now_ns();
    const Error e = error_of([&] {
      for (int r = 0; r < 2; ++r) job->send(r, "go");
      for (int r = 0; r < 2; ++r) {
        const pid_t pid = std::stoi(job->receive(r, 600 * second));
        if (r == 1) kill(pid, SIGSTOP);
      }
      job->finish();
    });
    EXPECT_EQ(e.kind(), ErrorKind::timeout);
    EXPECT_NE(e.message().find("rank 1 has done nothing for"), std::string::npos) << e.what();
    EXPECT_NE(e.message().find("it is stopped (process "), std::string::npos) << e.what();
    EXPECT_NE(e.remedy().find("the time limit that these ranks were given"), std::string::npos);
    EXPECT_LT(now_ns() - begin, 8 * second);
    job.reset();
    EXPECT_FALSE(has_children());
  }
}

TEST(Processes, TheRemedyOfADeathGoesWithItsSignal) {
  const std::pair<int, const char*> ways[] = {{SIGKILL, "oom"}, {SIGSEGV, "core"}, {SIGTERM, "asked it to end"}};
  for (const auto& [signal, remedy] : ways) {
    const int number = signal;
    const Error e = error_of([&] {
      run_processes(2, [&](Transport& t) {
        if (t.rank() == 1) ::signal(number, SIG_DFL), raise(number);
        t.barrier("meet");
      });
    });
    EXPECT_EQ(e.kind(), ErrorKind::peer);
    EXPECT_NE(e.remedy().find(remedy), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("(rank 0 was waiting for rank 1 at \"meet\")"), std::string::npos) << e.what();
  }
}

TEST(Processes, AKilledRankEndsAllAndIsNamedWithItsSignal) {
  const int64_t begin = now_ns();
  const Error e = error_of([] {
    run_processes(3, [](Transport& t) {
      if (t.rank() == 1) raise(SIGKILL);
      t.barrier("meet");
    });
  });
  EXPECT_EQ(e.kind(), ErrorKind::peer);
  EXPECT_NE(std::string(e.what()).find("rank 1 was killed by signal 9"), std::string::npos) << e.what();
  EXPECT_LT(now_ns() - begin, 2 * second);
}

TEST(Processes, ARankThatLeavesEarlyIsNamed) {
  const Error e = error_of([] {
    run_processes(2, [](Transport& t) {
      if (t.rank() == 0) _exit(0);
      t.barrier("meet");
    });
  });
  EXPECT_EQ(e.kind(), ErrorKind::peer);
  EXPECT_NE(std::string(e.what()).find("rank 0 left with exit status 0"), std::string::npos) << e.what();
}

TEST(Processes, ARankThatIgnoresTheAbortIsKilled) {
  const int64_t begin = now_ns();
  const Error e = error_of([] {
    run_processes(2, [](Transport& t) {
      if (t.rank() == 0) throw Error(ErrorKind::user, "mine");
      for (;;) sleep(1);
    });
  });
  EXPECT_EQ(e.kind(), ErrorKind::user);
  EXPECT_LT(now_ns() - begin, 2 * second);
}

TEST(Processes, AStoppedRankIsTimedOutAndKilled) {
  const int64_t begin = now_ns();
  const Error e = error_of([] {
    run_processes(2,
                  [](Transport& t) {
                    if (t.rank() == 1) raise(SIGSTOP);
                    t.barrier("meet");
                  },
                  {.timeout_ns = second / 2});
  });
  EXPECT_EQ(e.kind(), ErrorKind::timeout);
  EXPECT_NE(std::string(e.what()).find("for rank 1"), std::string::npos) << e.what();
  EXPECT_LT(now_ns() - begin, 3 * second);
  EXPECT_FALSE(has_children());
}

TEST(Processes, PeersNoticeADeathWhileTheParentIsBusy) {
  auto job = start_processes(2, [](Transport&) {
    return [](Transport& t, std::string_view) -> std::string {
      if (t.rank() == 1) raise(SIGKILL);
      t.barrier("meet");
      return "";
    };
  });
  for (int r = 0; r < 2; ++r) job->send(r, "go");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // nobody reaps meanwhile
  const Error e = error_of([&] { job->receive(0, 5 * second); });
  EXPECT_EQ(e.kind(), ErrorKind::peer);
  EXPECT_NE(std::string(e.what()).find("rank 1 (process "), std::string::npos) << e.what();
}

// A parent that is killed takes its ranks along: they write their pids into shared memory, we look for them.
TEST(Processes, RanksEndWithTheirParent) {
  auto* pids =
      static_cast<std::atomic<int>*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t parent = fork();
  if (parent == 0) {
    run_processes(3, [pids](Transport& t) {
      pids[t.rank()] = getpid();
      for (;;) sleep(1);
    });
    _exit(0);
  }
  const int64_t begin = now_ns();
  while ((!pids[0] || !pids[1] || !pids[2]) && now_ns() - begin < 5 * second) usleep(1000);
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
  munmap(pids, 4096);
}

TEST(Processes, ChildrenFlushAndSkipTheParentsExitHandlers) {
  char path[] = "/tmp/weft-exit-XXXXXX";
  const int fd = mkstemp(path);
  const pid_t parent = fork();
  if (parent == 0) {
    static int out;
    out = fd;
    atexit([] { (void)!write(out, "handler\n", 8); });
    FILE* file = fdopen(fd, "w");
    fputs("before\n", file);
    run_processes(2, [file](Transport& t) {
      if (t.rank() == 1) t.barrier("second");
      fprintf(file, "rank %d\n", t.rank());
      fflush(file);
      if (t.rank() == 0) t.barrier("second");
    });
    _exit(0);
  }
  waitpid(parent, nullptr, 0);
  EXPECT_EQ(read_file(path), "before\nrank 0\nrank 1\n");
  close(fd);
  unlink(path);
}

TEST(Mapping, SizeAndSealsAreChecked) {
  const int good = sealed_memfd(8192, "test");
  EXPECT_NO_THROW(check_sealed(good, 8192, "test"));
  EXPECT_EQ(error_of([&] { check_sealed(good, 4096, "test"); }).kind(), ErrorKind::io);
  EXPECT_NE(ftruncate(good, 100), 0);
  close(good);
  const int loose = memfd_create("loose", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(loose, 8192), 0);
  EXPECT_EQ(error_of([&] { check_sealed(loose, 8192, "test"); }).kind(), ErrorKind::io);
  close(loose);
}

TEST(Mapping, PrefaultKeepsContent) {
  Mapping m(-1, 100000, "test");
  m.data()[5000] = std::byte{9};
  prefault(m.data() + 10, 99990);
  EXPECT_EQ(m.data()[5000], std::byte{9});
  EXPECT_EQ(m.data()[99999], std::byte{0});
}

}  // namespace
}  // namespace weft::transport
