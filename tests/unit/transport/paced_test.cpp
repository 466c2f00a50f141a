// Paced links: when a message may be seen, by the clock, and what text says so.
#include "weft/transport/paced.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/support/errors.h"
#include "tests/support/patience.h"
#include "weft/transport/spec.h"
#include "weft/transport/wait.h"

namespace weft::transport {
namespace {

// Rank 0 sends `count` messages at once, each with when it was sent; rank 1 notes when it sees them. How late
// the promptest is, in ns behind max(link free, sent) + bytes / rate + alpha, computed here once more; negative: early.
int64_t lateness(std::string_view spec, int64_t body_bytes, int messages, double alpha_ns, double bytes_per_ns) {
  int64_t seen = INT64_MAX;
  run_threads(2, [&](Transport& inner) {
    const auto transport = make_layer(inner, spec);
    const auto window = transport->allocate_mirrored((body_bytes + 64) * messages, "messages");
    std::byte* const block = window->at[1];
    std::vector<int64_t> late;
    for (int round = 1; round <= 15; ++round) {
      transport->barrier("round");
      for (int m = 0; m < messages; ++m) {
        const int64_t at = m * (body_bytes + 64);
        auto* head = reinterpret_cast<std::atomic<int64_t>*>(block + at);
        if (transport->rank() == 0) {
          std::memset(block + at + 64, round, static_cast<size_t>(body_bytes));
          head[0].store(clock_ns(), std::memory_order_relaxed);
          head[1].store(round, std::memory_order_release);
          transport->put(*window, {1, 1, at, 64, at + 64, body_bytes, false});
          continue;
        }
        need(wait_until(*transport, 5'000'000'000, [&] { return head[1].load(std::memory_order_acquire) == round; }) ==
                 Waited::ready,
             "comes");
        const int64_t now = clock_ns(), sent = head[0].load();
        static thread_local int64_t free_at = 0;
        if (m == 0) free_at = 0;
        free_at = std::max(free_at, sent) + static_cast<int64_t>(static_cast<double>(body_bytes + 64) / bytes_per_ns);
        late.push_back(now - free_at - static_cast<int64_t>(alpha_ns));
        for (int64_t i = 0; i < body_bytes; i += 512)
          need(block[at + 64 + i] == static_cast<std::byte>(round), "the body is there with its head");
      }
    }
    if (transport->rank() != 1) return;
    seen = *std::min_element(late.begin(), late.end());
  });
  return seen;
}

// Sent is read a little before the link is reserved, so what is seen may only be later. A busy machine makes messages
// late, and how much is its own matter: never early, and the promptest of some hundred within what is promised.
TEST(Paced, MessagesComeWhenTheClockSays) {
  constexpr int64_t tolerance_ns = 20'000 * patience;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const int64_t one = lateness("threads+paced:alpha=50us,bw=1GB/s", 0, 1, 50e3, 1);
    const int64_t large = lateness("threads+paced:alpha=20us,bw=0.5GB/s", 100'000, 1, 20e3, 0.5);
    const int64_t row = lateness("threads+paced:alpha=20us,bw=0.5GB/s", 20'000, 8, 20e3, 0.5);
    for (const int64_t late : {one, large, row}) ASSERT_GE(late, -2) << "a message came too early";
    if (std::max({one, large, row}) < tolerance_ns) return;
    usleep(50'000);
  }
  FAIL() << "the promptest messages came more than 20 us late in each of five attempts";
}

// Pairs of two groups share a link: two messages at once take twice as long as one; within a group memory is mapped.
TEST(Paced, GroupsShareTheirLink) {
  run_threads(4, [&](Transport& inner) {
    const auto transport = make_layer(inner, "paced:alpha=1us,bw=0.1GB/s,group=2,shared");
    const int me = transport->rank();
    need(transport->mappable(me ^ 1) && !transport->mappable(3 - me), "who is mapped");
    const auto window = transport->allocate_mirrored(1 << 20, "messages");
    need(window->at[static_cast<size_t>(me ^ 1)] != nullptr, "a copy for everybody");
    transport->barrier("begin");
    const int64_t begin = clock_ns();
    const int to = 3 - me;  // 0 to 3, 1 to 2, and back
    auto* mine = reinterpret_cast<std::atomic<uint64_t>*>(window->at[static_cast<size_t>(me)]);
    auto* theirs = reinterpret_cast<std::atomic<uint64_t>*>(window->at[static_cast<size_t>(to)]);
    if (me < 2) {
      theirs->store(1, std::memory_order_release);
      transport->put(*window, {to, to, 0, 8, 64, 100'000, false});
    } else {
      need(wait_until(*transport, 5'000'000'000, [&] { return mine->load() == 1; }) == Waited::ready, "comes");
    }
    const int64_t end = clock_ns();
    const std::vector<std::string> begins = transport->exchange(std::to_string(begin), "begins"),
                                   ends = transport->exchange(std::to_string(end), "ends");
    const int64_t last =
        std::max(std::stoll(ends[2]), std::stoll(ends[3])) - std::min(std::stoll(begins[0]), std::stoll(begins[1]));
    need(last >= 2'000'000, "two messages of 1 ms each, one after the other");
  });
}

TEST(Paced, TextIsReadAndRefused) {
  EXPECT_EQ(print(parse_paced("alpha=5us,bw=1GB/s")), "paced:alpha=5000ns,bw=1GB/s");
  EXPECT_EQ(print(parse_paced("alpha=2ms,bw=8Gbit/s,group=4,within.alpha=300ns,within.bw=20GB/s,shared")),
            "paced:alpha=2000000ns,bw=1GB/s,group=4,within.alpha=300ns,within.bw=20GB/s,shared");
  EXPECT_EQ(print(parse_paced("")), "paced:alpha=0ns");
  for (const char* wrong :
       {"alpha=5", "alpha=-1us", "bw=1GB", "bw=x", "beta=1us", "shared", "within.alpha=1us", "group=-1", "alpha"})
    EXPECT_THROW(parse_paced(wrong), Error) << wrong;
  for (const char* wrong : {"pced", "tcpp", "threads+nothing", "paced:bw=1", "mixed", "tcp:x"})
    EXPECT_THROW(check_spec(wrong), Error);
  for (const char* right : {"", "threads", "processes", "threads+paced:alpha=1us", "paced", "tcp", "mixed:group=2"})
    EXPECT_NO_THROW(check_spec(right)) << right;
}

}  // namespace
}  // namespace weft::transport
