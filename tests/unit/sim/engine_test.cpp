// The engine against times computed by hand, against itself (folded or not, walked or as programs), and on bad plans.
#include <gtest/gtest.h>

#include "tests/unit/sim/plans.h"
#include "weft/algo/algorithm.h"
#include "weft/sim/sim.h"

namespace weft::sim {
namespace {

using plan::Instance;

Prediction run(const std::string& text, int ranks, int64_t elements, const Network& network,
               const Options& options = {}, int64_t chunk = 0) {
  const Instance instance(plan::parse(text), ranks);
  return simulate(instance, extents(instance, elements), std::vector<int64_t>(instance.plan().spaces.size(), chunk),
                  network, options);
}

Network network(const LinkCost& cost) {
  Network n;
  n.costs = {cost};
  return n;
}

// Rank 0 sends `parts` messages to rank 1, one after the other.
std::string pipe(int slots, int parts = 4, const std::string& sink = "y[p]") {
  return fmt::format(R"(plan 1 pipe
order any
round hops
require n == 2
channels 1
space s parts {0} even
buffer x s f32 in
buffer y s f32 out
link main simple slots {1}
lane main:
  loop s:
    when r == 0:
      for p in 0..{0}:
        put: x[p] -> >1
    when r == 1:
      for p in 0..{0}:
        get: <0 -> {2}
)",
                     parts, slots, sink);
}

// L 1000, send 100, receive 50, gap 10, port 1 ns/B, lane 0.5 ns/B; 101 floats of 4 parts: 101 bytes each... 4 x 100 B.
TEST(Engine, OneMessageByHand) {
  const LinkCost cost{1000, 100, 50, 10, 1, 0.5};
  const Prediction p = run(pipe(4, 1), 2, 25, network(cost));
  // 100 bytes: the lane is busy 100 + 99/2; the first byte arrives at 1100, the last 99 later, and 50 to take it.
  EXPECT_DOUBLE_EQ(p.rank_end_ns[0], 149.5);
  EXPECT_DOUBLE_EQ(p.rank_end_ns[1], 1100 + 99 + 50);
  EXPECT_EQ(p.messages, 1u);
  EXPECT_EQ(p.events, 3u);
  EXPECT_DOUBLE_EQ(p.bytes, 100);
}

// Four messages: the port is busy 10 + 99 for each, longer than the lane, so it sets the pace at both ends.
TEST(Engine, ThePortSetsThePace) {
  const Prediction p = run(pipe(4), 2, 100, network({1000, 20, 0, 10, 1, 0}));
  EXPECT_DOUBLE_EQ(p.rank_end_ns[0], 3 * 109 + 20);
  EXPECT_DOUBLE_EQ(p.rank_end_ns[1], 3 * 109 + 20 + 1000 + 99);
  EXPECT_DOUBLE_EQ(p.busiest_port_ns, 4 * 109);
}

// One slot: message m+1 leaves when the slot of m came back: arrival, taken, credit.
TEST(Engine, SlotsHoldBack) {
  LinkCost cost{1000, 0, 0, 0, 1, 0};
  cost.credit_ns = 300;
  const Prediction p = run(pipe(1), 2, 100, network(cost));
  EXPECT_DOUBLE_EQ(p.end_ns, 4 * (1000 + 99) + 3 * 300);
  const Prediction many = run(pipe(4), 2, 100, network(cost));
  EXPECT_DOUBLE_EQ(many.end_ns, 3 * 99 + 1000 + 99);
}

// Protocols that put flags beside the data move more bytes.
TEST(Engine, TheWireMayCarryMore) {
  LinkCost cost{1000, 0, 0, 0, 1, 0};
  cost.wire = 2;
  EXPECT_DOUBLE_EQ(run(pipe(4, 1), 2, 25, network(cost)).end_ns, 1000 + 199);
}

TEST(Engine, StepsCostWhatTheyMove) {
  Network n = network({1000, 0, 0, 0, 1, 0});
  n.step.step_ns = 7;
  n.step.read_ns_per_byte = 0.25;
  n.step.write_ns_per_byte = 0.5;
  // rank 0 reads 100 B, rank 1 writes them
  EXPECT_DOUBLE_EQ(run(pipe(4, 1), 2, 25, n).end_ns, 7 + 25 + 1000 + 99 + 7 + 50);
}

std::string ring(int channels, int slices, int slots = 4) {
  algo::PlanRequest request;
  request.channels = channels;
  request.slices = slices;
  request.slots = slots;
  return plan::print(algo::make_plan(*algo::find_algorithm("ring"), request));
}

// 2 (n-1) hops of o + L + bytes, with nothing that holds back.
TEST(Engine, RingIsItsFormula) {
  const LinkCost cost{3700, 200, 200, 5, 0.04, 0};
  for (const int n : {2, 3, 8, 33}) {
    const int64_t bytes = 4096;
    const Prediction p = run(ring(1, 1), n, n * bytes / 4, network(cost));
    const double hop = 200 + 3700 + static_cast<int64_t>((bytes - 1) * 40.) / 1000. + 200;
    EXPECT_NEAR(p.end_ns, 2 * (n - 1) * hop, 1e-6) << n;
    EXPECT_EQ(p.messages, p.simulated_ranks * 2u * static_cast<unsigned>(n - 1));
  }
}

class Alike : public ::testing::TestWithParam<const char*> {};

// Folded or not, walked or as programs: the same times to the picosecond, also through nodes of 4 ranks.
TEST_P(Alike, FoldedWalkedAndNot) {
  for (const int n : {2, 4, 8, 16})
    for (const int channels : {1, 3})
      for (const int64_t elements : {n * 96, n * 3 * 7000}) {
        algo::PlanRequest request;
        request.channels = channels;
        request.slices = 2;
        const Instance instance(algo::make_plan(*algo::find_algorithm(GetParam()), request), n);
        Network net;
        net.costs = {{1000, 100, 50, 10, 0.1, 0.3}, {4000, 300, 50, 10, 0.5, 0.3}};
        net.ports = 2;
        net.period = std::min(n, 4);
        net.route = [](int, int channel, int from, int to) {
          const auto port = static_cast<uint16_t>(channel % 2);
          return Route{static_cast<uint16_t>(from / 4 == to / 4 ? 0 : 1), port, port};
        };
        net.step = {20, 0.05, 0.06, 0.2, 0.3, 0.01};
        const auto spaces = extents(instance, elements);
        const std::vector<int64_t> chunks(spaces.size(), 1024);
        Options folded, whole, walked;
        folded.launches = whole.launches = walked.launches = 2;
        whole.fold = walked.fold = Fold::off;
        walked.walk = true;
        const Prediction f = simulate(instance, spaces, chunks, net, folded);
        const Prediction w = simulate(instance, spaces, chunks, net, whole);
        const Prediction k = simulate(instance, spaces, chunks, net, walked);
        EXPECT_EQ(w.launch_end_ns, k.launch_end_ns) << n;
        EXPECT_EQ(w.rank_end_ns, k.rank_end_ns);
        EXPECT_EQ(w.events, k.events);
        EXPECT_EQ(w.steps, k.steps);
        EXPECT_EQ(f.launch_end_ns, w.launch_end_ns) << n << " ranks as " << f.simulated_ranks;
        EXPECT_GT(f.end_ns, f.launch_end_ns[0]);
        EXPECT_EQ(f.messages * static_cast<uint64_t>(n), w.messages * static_cast<uint64_t>(f.simulated_ranks));
      }
}
INSTANTIATE_TEST_SUITE_P(Algorithms, Alike, ::testing::Values("ring", "pairwise", "chain", "direct", "oneshot"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Engine, FoldingFindsTheSymmetry) {
  Network net = network({});
  EXPECT_EQ(run(ring(2, 1), 64, 64 * 96, net).simulated_ranks, 1);
  net.period = 8;
  EXPECT_EQ(run(ring(2, 1), 64, 64 * 96, net).simulated_ranks, 8);
  net.period = 1;
  EXPECT_EQ(run(ring(2, 1), 64, 64 * 96 + 16, net).simulated_ranks, 64);  // parts differ
  Options always;
  always.fold = Fold::always;
  EXPECT_EQ(run(ring(2, 1), 64, 64 * 96 + 16, net, always).simulated_ranks, 1);
  net.start_ns = {5000};
  EXPECT_EQ(run(ring(2, 1), 64, 64 * 96, net).simulated_ranks, 64);
}

// Parts of different sizes, and empty ones.
TEST(Engine, UnevenPartsAreWalked) {
  for (const int64_t elements : {0, 1, 15, 17, 130, 1000})
    for (const int n : {1, 2, 3, 5, 8}) {
      Options off;
      off.fold = Fold::off;
      const Prediction p = run(ring(2, 1), n, elements, network({1000, 10, 10, 1, 1, 0}), off, 16);
      uint64_t parts = 0;  // (part, share) cells of 16 elements that are not empty
      const Instance instance(plan::parse(ring(2, 1)), n);
      const plan::Extents cells(instance, extents(instance, elements), {16});
      for (int64_t part = 0; part < n; ++part)
        for (int c = 0; c < 2; ++c) parts += static_cast<uint64_t>((cells.share(0, part, c).size() + 15) / 16);
      EXPECT_EQ(p.messages, parts * 2 * static_cast<uint64_t>(n - 1)) << elements << " over " << n;
    }
}

TEST(Engine, AStragglerDelaysEverybody) {
  Network net = network({1000, 100, 100, 0, 0.1, 0});
  const double even = run(ring(1, 1), 8, 8 * 960, net).end_ns;
  net.start_ns.assign(8, 0);
  net.start_ns[3] = 50000;
  const Prediction late = run(ring(1, 1), 8, 8 * 960, net);
  EXPECT_GE(late.end_ns, 50000 + even / 2);
  net.start_ns.clear();
  net.step.read_ns_per_byte = 0.1;
  const double usual = run(ring(1, 1), 8, 8 * 960, net).end_ns;
  net.slowdown.assign(8, 1);
  EXPECT_DOUBLE_EQ(run(ring(1, 1), 8, 8 * 960, net).end_ns, usual);
  net.slowdown[5] = 10;
  EXPECT_GT(run(ring(1, 1), 8, 8 * 960, net).end_ns, usual);
}

TEST(Engine, AwaitsByHand) {
  const std::string text = std::string(awaits);
  Network net = network({});
  net.await_ns = 500;
  net.step.read_ns_per_byte = 1;
  net.step.read_peer_ns_per_byte = 2;
  // One chunk of 64 B: make 64, seen 500 later, use 128.
  const Prediction one = run(text, 2, 32, net, {}, 16);
  EXPECT_DOUBLE_EQ(one.end_ns, 64 + 500 + 128);
  // Four chunks: make 0 and 1 at once; chunk 2 waits for use of chunk 0 on the same rank: 692 + 64, seen at 1256, used
  // at 1384; chunk 3 waits for use of chunk 1, which ends at 820: 884, seen 1384, used 1512.
  Options off;
  off.fold = Fold::off;
  EXPECT_DOUBLE_EQ(run(text, 2, 4 * 32, net, off, 16).end_ns, 1512);
  EXPECT_DOUBLE_EQ(run(text, 2, 4 * 32, net, {}, 16).end_ns, 1512);
}

std::string why(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) { return error.what(); }
  return "nothing was wrong";
}

// What the simulator's narrow counters do not hold is refused, not wrapped.
TEST(Engine, WhatItCannotCountIsUnsupported) {
  for (const Fold fold : {Fold::off, Fold::exact, Fold::always}) {
    Options options;
    options.fold = fold;
    const std::string said = why([&] { run(ring(1, 256, 512), 2, 1 << 16, network({}), options); });
    EXPECT_NE(said.find("255 at most"), std::string::npos) << said;
  }
}

// Two slices need two slots before anybody can pass one on.
TEST(Engine, DeadlockIsExplained) {
  const std::string text = R"(plan 1 stuck
order any
round hops
channels 1
space s parts n even
buffer x s f32 in
buffer y s f32 out
link main simple slots 1
lane main:
  loop s:
    one: x[r] -> >(r+1)%n
    two: x[r] -> >(r+1)%n
    got: <(r+n-1)%n -> y[r]
    more: <(r+n-1)%n -> y[r]
)";
  for (const Fold fold : {Fold::off, Fold::exact}) {
    Options options;
    options.fold = fold;
    const std::string message = why([&] { run(text, 3, 48, network({}), options); });
    EXPECT_NE(message.find("V8"), std::string::npos) << message;
    EXPECT_NE(message.find("step two chunk 0 waits for one of the 1 slots of link main to rank"), std::string::npos)
        << message;
    EXPECT_NE(message.find("circle"), std::string::npos) << message;
  }
}

TEST(Engine, WhoNeverSendsIsNamed) {
  const std::string text = R"(plan 1 silent
order any
round hops
require n == 2
channels 1
space s parts 1 even
buffer y s f32 out
link main simple slots 1
lane main:
  loop s:
    when r == 1:
      got: <0 -> y[0]
)";
  const std::string message = why([&] { run(text, 2, 48, network({})); });
  EXPECT_NE(
      message.find("rank 1 lane main channel 0 step got chunk 0 waits for message 0 of link main from a rank that "
                   "never sends"),
      std::string::npos)
      << message;
}

TEST(Engine, BadMachinesAreRefused) {
  Network none;
  none.costs.clear();
  EXPECT_THROW(run(ring(1, 1), 2, 32, none), Error);
  Network negative = network({-1, 0, 0, 0, 0, 0});
  EXPECT_THROW(run(ring(1, 1), 2, 32, negative), Error);
  Network port = network({});
  port.route = [](int, int, int, int) { return Route{0, 1, 0}; };
  EXPECT_THROW(run(ring(1, 1), 2, 32, port), Error);
  Options few;
  few.most_messages = 3;
  EXPECT_THROW(run(ring(1, 1), 8, 8 * 32, network({}), few), Error);
}

}  // namespace
}  // namespace weft::sim
