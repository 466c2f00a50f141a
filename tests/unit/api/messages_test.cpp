// Messages: tags, any source, orders in which sends and receives meet, sizes around every border, what goes wrong; batches.
#include <atomic>
#include <thread>

#include "tests/unit/api/collectives_support.h"

namespace weft::test {
namespace {

class MessagesOn : public testing::TestWithParam<const char*> {};

TEST_P(MessagesOn, EverySizeAroundItsBorders) {
  on(GetParam(), 3, [](Collectives& comm) {
    const int right = (comm.rank() + 1) % 3, left = (comm.rank() + 2) % 3;
    auto* mapped = arena_of<int64_t>(comm, 200'000);
    for (const int64_t count : {0, 1, 7, 119, 120, 121, 8191, 8192, 8193, 40'000, 100'001})
      for (const bool arena : {false, true}) {
        if (arena && !mapped) continue;
        std::vector<int64_t> data = coded_by(comm.rank(), count), got(static_cast<size_t>(count) + 2, -1);
        if (arena) std::copy(data.begin(), data.end(), mapped);
        Pending sent = comm.start_send(arena ? mapped : data.data(), count, Dtype::i64, right, 5);
        const Arrival arrival = comm.receive(got.data(), count, Dtype::i64, left, 5);
        sent.wait();
        need(arrival.source == left && arrival.tag == 5, "who");
        for (int64_t i = 0; i < count; ++i) need(got[static_cast<size_t>(i)] == coded(left, i), "an element");
        need(got[static_cast<size_t>(count)] == -1, "behind it");
      }
  });
}

TEST_P(MessagesOn, TagsAreHonouredWhateverTheOrder) {
  on(GetParam(), 2, [](Collectives& comm) {
    for (const int64_t count : {3, 5000}) {
      std::vector<std::vector<int64_t>> data;
      std::vector<Pending> pending;
      constexpr int tags = 40;  // more than a ring of envelopes holds
      if (comm.rank() == 0) {
        for (int tag = 0; tag < tags; ++tag) data.push_back(coded_by(tag, count));
        for (int tag = 0; tag < tags; ++tag)
          pending.push_back(comm.start_send(data[static_cast<size_t>(tag)].data(), count, Dtype::i64, 1, tag));
      } else {
        for (int tag = 0; tag < tags; ++tag) data.emplace_back(static_cast<size_t>(count));
        for (int tag = tags; tag-- > 0;)  // the last first
          pending.push_back(comm.start_receive(data[static_cast<size_t>(tag)].data(), count, Dtype::i64, 0, tag));
      }
      for (Pending& one : pending) one.wait();
      for (int tag = 0; tag < tags; ++tag)
        need(data[static_cast<size_t>(tag)] == coded_by(tag, count), fmt::format("tag {}", tag));
    }
  });
}

TEST_P(MessagesOn, OneTagDoesNotOvertake) {
  on(GetParam(), 2, [](Collectives& comm) {
    const std::vector<int64_t> counts = {3, 70'000, 5, 9'000, 1};
    std::vector<std::vector<int64_t>> data;
    std::vector<Pending> pending;
    for (size_t i = 0; i < counts.size(); ++i) {
      data.push_back(comm.rank() == 0 ? coded_by(static_cast<int>(i), counts[i])
                                      : std::vector<int64_t>(static_cast<size_t>(counts[i])));
      pending.push_back(comm.rank() == 0
                            ? comm.start_send(data[i].data(), counts[i], Dtype::i64, 1, 0)
                            : comm.start_receive(data[i].data(), counts[i], Dtype::i64, any_source, any_tag));
    }
    for (Pending& one : pending) one.wait();
    for (size_t i = 0; i < counts.size(); ++i) need(data[i] == coded_by(static_cast<int>(i), counts[i]), "its place");
  });
}

TEST_P(MessagesOn, AnySourceTellsWhoSent) {
  on(GetParam(), 4, [](Collectives& comm) {
    for (const int64_t count : {2, 30'000}) {
      const std::vector<int64_t> mine = coded_by(comm.rank(), count);
      comm.barrier();
      if (comm.rank() != 0) {
        comm.send(mine.data(), count, Dtype::i64, 0, 10 + comm.rank());
        continue;
      }
      std::vector<bool> seen(4);
      for (int i = 1; i < 4; ++i) {
        std::vector<int64_t> got(static_cast<size_t>(count));
        const Arrival arrival = comm.receive(got.data(), count, Dtype::i64, any_source, any_tag);
        need(arrival.tag == 10 + arrival.source && !seen[static_cast<size_t>(arrival.source)], "who");
        need(got == coded_by(arrival.source, count), "what");
        seen[static_cast<size_t>(arrival.source)] = true;
      }
    }
  });
}

// Two of three talk; the third does not take part, and calls of all go on (also while messages are under way).
TEST_P(MessagesOn, ASubsetLeavesTheOthersAlone) {
  on(GetParam(), 3, [](Collectives& comm) {
    for (int round = 0; round < 5; ++round) {
      std::vector<int64_t> data = coded_by(comm.rank(), 50'000), got(50'000), one(1, 1);
      Pending message;
      if (comm.rank() == 0) message = comm.start_send(data.data(), 50'000, Dtype::i64, 1, 0);
      comm.barrier();
      comm.all_reduce(one.data(), one.data(), 1, Dtype::i64);
      need(one[0] == 3, "the sum");
      if (comm.rank() == 1) comm.receive(got.data(), 50'000, Dtype::i64, 0, 0);
      message.wait();
      comm.barrier();
      if (comm.rank() == 1) need(got == coded_by(0, 50'000), "the message");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, MessagesOn,
                         testing::Values("threads", "processes", "threads+tcp", "threads+mixed:group=2",
                                         "threads+paced:alpha=5us,bw=1GB/s"));

TEST(Messages, ToOneself) {
  for (const int ranks : {1, 2})
    on("threads", ranks, [](Collectives& comm) {
      const std::vector<int64_t> data = coded_by(comm.rank(), 3000);
      std::vector<int64_t> got(3000), later(2);
      comm.send(data.data(), 3000, Dtype::i64, comm.rank(), 1);
      Pending early = comm.start_receive(later.data(), 2, Dtype::i64, any_source, 2);
      comm.receive(got.data(), 3000, Dtype::i64, comm.rank(), 1);
      comm.send(data.data(), 2, Dtype::i64, comm.rank(), 2);
      early.wait();
      need(got == data && later[1] == data[1], "what was sent");
    });
}

TEST(Messages, CountsAndDtypesThatDifferAreAnErrorOnBothSides) {
  for (const int64_t sent : {2, 50'000})
    for (const auto& [count, dtype] : {std::pair(int64_t{1}, Dtype::i64), {sent + 1, Dtype::i64}, {sent, Dtype::f64}}) {
      const int64_t wanted = count;
      const Dtype type = dtype;
      const Error error = error_of([&] {
        on("threads", 2, [&](Collectives& comm) {
          std::vector<int64_t> data(60'000);
          const Error mine = error_of([&] {
            if (comm.rank() == 0)
              comm.send(data.data(), sent, Dtype::i64, 1, 7),
                  comm.barrier();  // a small one has left when it is noticed
            else
              comm.receive(data.data(), wanted, type, 0, 7);
          });
          need(mine.kind() == ErrorKind::agreement, mine.what());
          throw mine;
        });
      });
      EXPECT_TRUE(says(error, fmt::format("rank 0 sends i64 {} elements", sent)) &&
                  says(error, fmt::format("rank 1 receives {} {} elements", name(type), wanted)))
          << error.what();
    }
}

TEST(Messages, WhatNeverComesIsNamedInTime) {
  const Error error = error_of([] {
    on(
        "threads", 2,
        [](Collectives& comm) {
          std::vector<int64_t> data(10);
          if (comm.rank() == 0) comm.send(data.data(), 10, Dtype::i64, 1, 3);
          if (comm.rank() == 1) comm.receive(data.data(), 10, Dtype::i64, 0, 4);
        },
        0.5);
  });
  EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
}

TEST(Messages, MisuseIsRefused) {
  on("threads", 2, [](Collectives& comm) {
    int64_t x = 0;
    const auto refused = [&](const std::string& what, const std::function<void()>& call) {
      const Error error = error_of(call);
      need(error.kind() == ErrorKind::user && says(error, what), error.what());
    };
    refused("2 is no rank", [&] { comm.send(&x, 1, Dtype::i64, 2, 0); });
    refused("-1 is no rank", [&] { comm.send(&x, 1, Dtype::i64, any_source, 0); });
    refused("-2 is no rank", [&] { comm.receive(&x, 1, Dtype::i64, -2, 0); });
    refused("-1 is no tag", [&] { comm.send(&x, 1, Dtype::i64, 0, any_tag); });
    refused("count of -3", [&] { comm.receive(&x, -3, Dtype::i64, 0, 0); });
    refused("null", [&] { comm.send(nullptr, 1, Dtype::i64, 0, 0); });
  });
}

// ---- batches
// More messages from mapped memory than orders under way, received while their sender is busy: the receives may be over
// only when their sender will hear of it, since nobody moves messages for a rank that has none open.
TEST(Messages, ManyFromMappedMemoryToARankThatThenComputes) {
  std::atomic<bool> over = false;
  on("threads", 2, [&over](Collectives& comm) {
    constexpr int messages = 100;
    constexpr int64_t count = 10'000;
    auto* memory = static_cast<int64_t*>(comm.allocate(messages * count * 8));
    std::vector<Pending> sent;
    std::vector<int64_t> got(count);
    if (comm.rank() == 0) {
      for (int m = 0; m < messages; ++m) {
        std::fill_n(memory + m * count, count, m);
        sent.push_back(comm.start_send(memory + m * count, count, Dtype::i64, 1, 0));
      }
      comm.send(memory, 1, Dtype::i64, 1, 9);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // is busy, too
      for (Pending& one : sent) one.wait();
      over = true;
    } else {
      comm.receive(got.data(), 1, Dtype::i64, 0, 9);  // behind the others: all of them have been announced by now
      for (int m = 0; m < messages; ++m) {
        comm.receive(got.data(), count, Dtype::i64, 0, 0);
        need(got.front() == m && got.back() == m, "message");
      }
      for (int ms = 0; ms < 10'000 && !over; ++ms)  // computes, and moves nothing
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      need(over, "the sender never heard of it");
    }
    comm.barrier();
    comm.release(memory);
  });
}

// What was started before, and is being loaded on a rank that is late, comes before exchanges about groups and memory.
TEST(Started, GroupsAndMemoryWaitForThem) {
  on("threads", 2, [](Collectives& comm) {
    std::vector<float> x(100'000, 1), y(70'000, 1);
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Pending first = comm.start({Operation::all_reduce, x.data(), x.data(), 100'000, Dtype::f32});
    const auto group = comm.split(0);
    if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Pending second = comm.start({Operation::all_reduce, y.data(), y.data(), 70'000, Dtype::f32});
    void* memory = comm.allocate(1000);
    first.wait(), second.wait();
    need(x[99'999] == 2 && y[0] == 2, "sums");
    group->barrier();
    comm.release(memory);
  });
}

TEST(Batches, MessagesInAnyOrder) {
  for (const char* transport : {"threads", "threads+tcp"})
    on(transport, 4, [](Collectives& comm) {
      for (const int64_t count : {10, 60'000}) {
        std::vector<std::vector<int64_t>> mine, got;
        for (int q = 0; q < 4; ++q)
          mine.push_back(coded_by(comm.rank() * 8 + q, count)), got.emplace_back(static_cast<size_t>(count));
        Batch batch;
        for (int i = 0; i < 4; ++i) {
          const auto q = static_cast<size_t>((i * 3 + comm.rank()) % 4);
          const auto receive = [&] { comm.receive(got[q].data(), count, Dtype::i64, static_cast<int>(q), 0); };
          if (comm.rank() % 2) receive();
          comm.send(mine[q].data(), count, Dtype::i64, static_cast<int>(q), 0);
          if (comm.rank() % 2 == 0) receive();
        }
        batch.wait();
        for (int q = 0; q < 4; ++q)
          need(got[static_cast<size_t>(q)] == coded_by(q * 8 + comm.rank(), count), "from each");
      }
    });
}

// Calls of one communicator in another order on every rank, between messages.
TEST(Batches, CallsInAnyOrder) {
  on("threads", 3, [](Collectives& comm) {
    std::vector<int64_t> sum = coded_by(comm.rank(), 100), most = coded_by(comm.rank(), 9000), root(50), mine(1),
                         got(1);
    if (comm.rank() == 1) root = coded_by(7, 50);
    std::vector<std::function<void()>> calls = {
        [&] { comm.all_reduce(sum.data(), sum.data(), 100, Dtype::i64); },
        [&] { comm.all_reduce(most.data(), most.data(), 9000, Dtype::i64, Combine::max); },
        [&] { comm.broadcast(root.data(), root.data(), 50, Dtype::i64, 1); },
        [&] { comm.receive(got.data(), 1, Dtype::i64, (comm.rank() + 1) % 3, 4); },
        [&] { comm.send(mine.data(), 1, Dtype::i64, (comm.rank() + 2) % 3, 4); },
        [&] { comm.barrier(); },
    };
    mine[0] = comm.rank();
    std::rotate(calls.begin(), calls.begin() + comm.rank() * 2, calls.end());
    Batch batch;
    for (const auto& call : calls) call();
    batch.wait();
    for (int64_t i = 0; i < 100; ++i)
      need(sum[static_cast<size_t>(i)] == coded(0, i) + coded(1, i) + coded(2, i), "sum");
    for (int64_t i = 0; i < 9000; ++i) need(most[static_cast<size_t>(i)] == coded(2, i), "max");
    need(root == coded_by(7, 50) && got[0] == (comm.rank() + 1) % 3, "broadcast and message");
  });
}

TEST(Batches, ExchangedCountsAndErrors) {
  on("threads", 2, [](Collectives& comm) {
    const std::vector<int64_t> counts = {1 + comm.rank(), 2}, data = coded_by(comm.rank(), 4);
    std::vector<int64_t> got(2), result(4), x(1, 1);
    {
      Batch batch;
      comm.all_to_all_v(data.data(), counts, result.data(), 4, got, Dtype::i64);
      comm.all_reduce(x.data(), x.data(), 1, Dtype::i64);
      const Error error = error_of([&] { comm.broadcast(x.data(), x.data(), 1, Dtype::i64, 5); });
      need(says(error, "root 5"), "refused when it is noted");
      Batch inner;  // belongs to the outer one
      comm.barrier();
      inner.wait();
      batch.wait();
    }
    need(x[0] == 2 && got[1] == (comm.rank() ? 2 : 2), "results");
    comm.barrier();
  });
}

// Exchanges of two dtypes, noted in another order on each rank; and a group that goes before its batch does.
TEST(Batches, ExchangesInAnyOrderAndGroupsThatAreGone) {
  on("threads", 2, [](Collectives& comm) {
    const std::vector<int64_t> counts = {1, 2};
    std::vector<int64_t> got(2), got_bytes(2), wide = coded_by(comm.rank(), 3), wide_to(6);
    std::vector<uint8_t> bytes = {uint8_t(comm.rank()), 5, 6}, bytes_to(6, 9);
    std::vector<std::function<void()>> calls = {
        [&] { comm.all_to_all_v(wide.data(), counts, wide_to.data(), 6, got, Dtype::i64); },
        [&] { comm.all_to_all_v(bytes.data(), counts, bytes_to.data(), 6, got_bytes, Dtype::u8); }};
    {
      Batch batch;
      calls[static_cast<size_t>(comm.rank())]();
      calls[static_cast<size_t>(1 - comm.rank())]();
      batch.wait();
    }
    need(got_bytes == got && got[0] == comm.rank() + 1, "counts");
    need(comm.rank() ? bytes_to[0] == 5 && bytes_to[3] == 6 : bytes_to[0] == 0 && bytes_to[1] == 1, "bytes");
    {
      auto group = comm.split(0);
      Batch batch;
      group->barrier();
      comm.barrier();
      group.reset();
      const Error error = error_of([&] { batch.wait(); });
      need(error.kind() == ErrorKind::user && says(error, "destroyed before the batch ended"), error.what());
    }
    comm.barrier();
  });
}

}  // namespace
}  // namespace weft::test
