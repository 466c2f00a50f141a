// Groups: every operation in them, memory of the parent, several at once in any order, what ends with them; started calls
// whose communicators are gone or disagree.
#include <unistd.h>

#include "tests/support/descriptors.h"
#include "tests/unit/api/collectives_support.h"

namespace weft::test {
namespace {

class GroupsOn : public testing::TestWithParam<const char*> {};

TEST_P(GroupsOn, EvenAndOddRanksAreOnTheirOwn) {
  on(GetParam(), 5, [](Collectives& comm) {
    const auto group = comm.split(comm.rank() % 2, -comm.rank());  // ordered backwards
    const int n = comm.rank() % 2 ? 2 : 3;
    need(group && group->size() == n && static_cast<int>(group->members().size()) == n, "its size");
    need(group->members()[static_cast<size_t>(group->rank())] == comm.rank(), "where it stands");
    for (int i = 1; i < n; ++i)
      need(group->members()[static_cast<size_t>(i - 1)] > group->members()[static_cast<size_t>(i)], "by key");
    auto* arena = arena_of<int64_t>(comm, 50'000);
    auto* symmetric = static_cast<int64_t*>(group->allocate(50'000 * 8));
    need(!arena || group->is_mapped(arena), "the parent's arena");
    for (int64_t* buffer : {arena, symmetric})
      for (const int64_t count : {3, 9000, 50'000}) {
        if (!buffer) continue;
        for (int64_t i = 0; i < count; ++i) buffer[i] = coded(comm.rank(), i);
        group->all_reduce(buffer, buffer, count, Dtype::i64);
        for (int64_t i = 0; i < count; ++i) {
          int64_t want = 0;
          for (const int member : group->members()) want += coded(member, i);
          need(buffer[i] == want, fmt::format("{} of {}", i, count));
        }
      }
    std::vector<int64_t> whole(static_cast<size_t>(n) * 10), mine = coded_by(comm.rank(), 10);
    group->all_gather(mine.data(), whole.data(), 10, Dtype::i64);
    for (int q = 0; q < n; ++q)
      for (int64_t i = 0; i < 10; ++i)
        need(whole[static_cast<size_t>(q * 10 + i)] == coded(group->members()[static_cast<size_t>(q)], i), "gathered");
    const int right = (group->rank() + 1) % n, left = (group->rank() + n - 1) % n;
    std::vector<int64_t> got(20'000), sent = coded_by(comm.rank(), 20'000);
    Pending message = group->start_send(sent.data(), 20'000, Dtype::i64, right, 0);
    group->receive(got.data(), 20'000, Dtype::i64, left, 0);
    message.wait();
    need(got == coded_by(group->members()[static_cast<size_t>(left)], 20'000), "a message in the group");
    group->barrier();
  });
}

TEST_P(GroupsOn, RowsAndColumnsAtOnce) {
  on(GetParam(), 4, [](Collectives& comm) {
    const int row = comm.rank() / 2, column = comm.rank() % 2;
    const auto rows = comm.split(row), columns = comm.split(column);
    for (const int64_t count : {2, 20'000}) {
      std::vector<int64_t> a = coded_by(comm.rank(), count), b(a), c(a);
      // Nothing was loaded before, and every rank begins in another order.
      std::vector<std::pair<Collectives*, std::vector<int64_t>*>> calls = {
          {rows.get(), &a}, {columns.get(), &b}, {&comm, &c}};
      std::rotate(calls.begin(), calls.begin() + comm.rank() % 3, calls.end());
      std::vector<Pending> pending;
      for (const auto& [where, x] : calls)
        pending.push_back(where->start({Operation::all_reduce, x->data(), x->data(), count, Dtype::i64}));
      for (Pending& one : pending) one.wait();
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(i);
        need(a[at] == coded(row * 2, i) + coded(row * 2 + 1, i), "row");
        need(b[at] == coded(column, i) + coded(column + 2, i), "column");
        need(c[at] == coded(0, i) + coded(1, i) + coded(2, i) + coded(3, i), "all");
      }
    }
    comm.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(All, GroupsOn,
                         testing::Values("threads", "processes", "threads+tcp", "threads+mixed:group=2",
                                         "threads+paced:alpha=5us,bw=1GB/s"));

TEST(Groups, SomeRanksAreInNone) {
  on("threads", 4, [](Collectives& comm) {
    const auto group = comm.split(comm.rank() == 2 ? -1 : 0);
    need((group == nullptr) == (comm.rank() == 2), "in none");
    std::vector<int64_t> x(1, 1);
    if (group) group->all_reduce(x.data(), x.data(), 1, Dtype::i64);
    need(x[0] == (group ? 3 : 1), "the sum");
    const auto alone = comm.split(comm.rank());  // groups of one
    alone->all_reduce(x.data(), x.data(), 1, Dtype::i64);
    need(alone->size() == 1 && x[0] == (group ? 3 : 1), "alone");
  });
}

TEST(Groups, OfGroups) {
  on("processes", 4, [](Collectives& comm) {
    const auto half = comm.split(comm.rank() / 2);
    const auto again = half->split(0, -half->rank());
    auto* x = static_cast<int64_t*>(comm.allocate(30'000 * 8));
    auto* y = static_cast<int64_t*>(half->allocate(30'000 * 8));
    auto* z = static_cast<int64_t*>(again->allocate(30'000 * 8));
    for (int64_t* at : {x, y, z}) {
      need(again->is_mapped(at), "memory of all levels");
      for (int64_t i = 0; i < 30'000; ++i) at[i] = coded(comm.rank(), i);
      again->all_reduce(at, at, 30'000, Dtype::i64);
      const int first = comm.rank() / 2 * 2;
      for (int64_t i = 0; i < 30'000; ++i) need(at[i] == coded(first, i) + coded(first + 1, i), "the sum");
    }
    need(!comm.is_mapped(y), "a group's memory is not the parent's");
  });
}

TEST(Groups, ThatComeAndGoLeaveNothing) {
  on("processes", 3, [](Collectives& comm) {
    int before = 0;
    for (int round = 0; round < 40; ++round) {
      const auto group = comm.split(comm.rank() == 0 ? 0 : 1);
      auto* x = static_cast<int64_t*>(group->allocate(20'000 * 8));
      for (int again = 0; again < 3; ++again) {
        for (int64_t i = 0; i < 20'000; ++i) {
          need(again > 0 || x[i] == 0, "memory comes as zeros");
          x[i] = 1;
        }
        group->all_reduce(x, x, 20'000, Dtype::i64);
        need(x[19'999] == group->size(), "the sum");
        group->release(x);
        x = static_cast<int64_t*>(group->allocate(20'000 * 8));
        need(x[0] == 0 && x[19'999] == 0, "memory is used again, as zeros");
      }
      if (round == 2) before = open_descriptors();
    }
    need(open_descriptors() == before, "descriptors");
  });
}

// A group keeps no memory of its parent's that has been released.
TEST(Groups, MemoryOfTheParentGoesWhenItIsReleased) {
  on("processes", 2, [](Collectives& comm) {
    const auto group = comm.split(0);
    int before = 0;
    for (int round = 0; round < 12; ++round) {
      auto* x = static_cast<int64_t*>(comm.allocate(20'000 * 8));
      for (int64_t i = 0; i < 20'000; ++i) x[i] = coded(comm.rank(), i);
      group->all_reduce(x, x, 20'000, Dtype::i64);
      for (int64_t i = 0; i < 20'000; ++i) need(x[i] == coded(0, i) + coded(1, i), "the sum");
      comm.release(x);
      if (round == 2) before = shared_mappings();
    }
    need(before > 0 && shared_mappings() == before, "mappings");
  });
}

TEST(Groups, AFailureNamesTheGroupAndReachesAll) {
  const Error error = error_of([] {
    on("threads", 4, [](Collectives& comm) {
      const auto group = comm.split(comm.rank() / 2);
      std::vector<int64_t> x(5000);
      const Error mine = error_of([&] {
        group->all_reduce(x.data(), x.data(), comm.rank() == 3 ? 4000 : 5000, Dtype::i64);
        comm.barrier();
      });
      need(mine.kind() == ErrorKind::agreement && says(mine, "group of ranks 2, 3"), mine.what());
      throw mine;
    });
  });
  EXPECT_TRUE(says(error, "4000") && says(error, "5000")) << error.what();
}

// ---- started calls
TEST(Started, SmallCallsThatDisagreeAreToldBoth) {
  const Error error = error_of([] {
    on("threads", 2, [](Collectives& comm) {
      std::vector<float> x(64);
      comm.all_reduce(x.data(), x.data(), 4, Dtype::f32);
      comm.all_reduce(x.data(), x.data(), 6, Dtype::f32);
      comm.start({Operation::all_reduce, x.data(), x.data(), 4 + 2 * comm.rank(), Dtype::f32}).wait();
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::agreement) << error.what();
}

TEST(Started, ErrorsAreTheirOwnAndTheNextCallGoesOn) {
  on("threads", 2, [](Collectives& comm) {
    std::vector<float> x(64, 1), y(64, 1);
    const Call call{Operation::all_reduce, x.data(), x.data(), 4, Dtype::f32};
    Pending first = comm.start(call);
    Call wrong = call;
    wrong.root = 9, wrong.operation = Operation::broadcast;
    need(says(error_of([&] { comm.run(wrong); }), "root 9"), "a wrong call behind a started one");
    need(says(error_of([&] { comm.start(wrong); }), "root 9"), "a wrong call that is started");
    comm.run({Operation::all_reduce, y.data(), y.data(), 4, Dtype::f32});
    first.wait();
    need(x[0] == 2 && y[0] == 2, "the others");
  });
}

TEST(Started, WithoutItsCommunicatorIsAnError) {
  on("threads", 2, [](Collectives& comm) {
    Pending left;
    std::vector<float> x(64, 1);
    {
      const auto group = comm.split(0);
      if (comm.rank() == 0) left = group->start({Operation::barrier});
    }
    if (comm.rank() == 0) need(says(error_of([&] { left.wait(); }), "communicator is gone"), "left behind");
  });
}

// What a deadline's error tells: who has not come, and the last calls of all.
TEST(Started, ATimeoutShowsTheLastCallsOfAllRanks) {
  for (const bool started : {false, true}) {
    const Error error = error_of([&] {
      on(
          "threads", 3,
          [&](Collectives& comm) {
            std::vector<float> x(5000);
            comm.all_reduce(x.data(), x.data(), 5000, Dtype::f32);
            const Call call{Operation::broadcast, x.data(), x.data(), 5000, Dtype::f32};
            if (comm.rank() != 2 && started) comm.start(call).wait();
            if (comm.rank() != 2 && !started) comm.run(call);
            if (comm.rank() == 2) usleep(3'000'000);
          },
          0.5);
    });
    EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
    EXPECT_TRUE(says(error, "for rank 2") && says(error, "rank 2: call 1 all_reduce sum f32, 5000") &&
                says(error, "call 2 broadcast f32, 5000 elements, root 0"))
        << error.what();
  }
}

}  // namespace
}  // namespace weft::test
