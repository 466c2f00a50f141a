// A trace changes nothing, names only what preceded, and its critical path is the run's time to the picosecond.
#include "weft/sim/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>

#include "tests/unit/sim/plans.h"
#include "weft/algo/algorithm.h"
#include "weft/sim/sim.h"

namespace weft::sim {
namespace {

using plan::Instance;

// Two ports, nodes of 4 ranks, every cost something.
Network network(int n) {
  Network net;
  net.costs = {{1000, 100, 50, 10, 0.1, 0.3}, {4000, 300, 50, 10, 0.5, 0.3}};
  net.ports = 2;
  net.period = n <= 4 ? 1 : n;
  net.await_ns = 700;
  net.route = [](int, int channel, int from, int to) {
    const auto port = static_cast<uint16_t>(channel % 2);
    return Route{static_cast<uint16_t>(from / 4 == to / 4 ? 0 : 1), port, port};
  };
  net.step = {20, 0.05, 0.06, 0.2, 0.3, 0.01};
  return net;
}

struct Recorded {
  Prediction prediction;
  Trace trace;
};
Recorded record(const Instance& instance, int64_t elements, int64_t chunk, const Network& net, Options options) {
  Recorded r;
  options.trace = &r.trace;
  r.prediction = simulate(instance, extents(instance, elements),
                          std::vector<int64_t>(instance.plan().spaces.size(), chunk), net, options);
  return r;
}

void expect_same(const Prediction& a, const Prediction& b) {
  EXPECT_EQ(a.launch_end_ns, b.launch_end_ns);
  EXPECT_EQ(a.rank_end_ns, b.rank_end_ns);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.busiest_port_ns, b.busiest_port_ns);
  EXPECT_EQ(a.busiest_lane_ns, b.busiest_lane_ns);
}

// What a start was decided by: it preceded, and its time is the start's.
void expect_causes(const Trace& trace, const Network& net) {
  for (uint32_t id = 0; id < trace.steps.size(); ++id) {
    const TracedStep& s = trace.steps[id];
    ASSERT_LE(s.ready_ps, s.begin_ps);
    ASSERT_LE(s.begin_ps, s.end_ps);
    if (s.cause == Cause::begin) {
      EXPECT_EQ(s.from, no_record);
      continue;
    }
    if (s.cause == Cause::message) {
      ASSERT_LT(s.from, trace.messages.size());
      const TracedMessage& m = trace.messages[s.from];
      EXPECT_EQ(m.receiver, id);
      EXPECT_EQ(m.there_ps, s.begin_ps);
      EXPECT_LT(m.sender, id);
      continue;
    }
    ASSERT_LT(s.from, id);
    const TracedStep& f = trace.steps[s.from];
    if (s.cause == Cause::lane) {
      EXPECT_EQ(f.end_ps, s.begin_ps);
      EXPECT_EQ(f.rank, s.rank);
    }
    if (s.cause == Cause::await) {
      EXPECT_EQ(f.end_ps + (f.rank == s.rank ? 0 : std::llround(net.await_ns * 1000)), s.begin_ps);
    }
    if (s.cause == Cause::slot) { EXPECT_LT(f.end_ps, s.begin_ps); }
  }
}

void expect_messages(const Trace& trace) {
  for (uint32_t id = 0; id < trace.messages.size(); ++id) {
    const TracedMessage& m = trace.messages[id];
    ASSERT_LT(m.sender, trace.steps.size());
    ASSERT_LT(m.receiver, trace.steps.size());
    EXPECT_LE(m.asked_ps, m.begin_ps);
    EXPECT_LE(m.begin_ps, m.first_ps);
    EXPECT_LE(m.first_ps, m.receive_begin_ps);
    EXPECT_LE(m.receive_begin_ps, m.there_ps);
    EXPECT_LE(m.there_ps, trace.steps[m.receiver].begin_ps);
    if (m.send_after != no_record) {
      const TracedMessage& b = trace.messages[m.send_after];
      EXPECT_LT(m.send_after, id);
      EXPECT_EQ(b.begin_ps + b.send_busy_ps, m.begin_ps);
      EXPECT_EQ(b.from, m.from);
    } else {
      EXPECT_EQ(m.asked_ps, m.begin_ps);
    }
    if (m.receive_after == no_record) {
      EXPECT_EQ(m.first_ps, m.receive_begin_ps);
      continue;
    }
    const TracedMessage& b = trace.messages[m.receive_after];
    EXPECT_EQ(b.receive_begin_ps + b.receive_busy_ps, m.receive_begin_ps);
    EXPECT_EQ(b.to, m.to);
  }
}

// The parts touch and fill the run.
void expect_path(const Recorded& r) {
  const std::vector<PathPart> path = critical_path(r.trace);
  EXPECT_EQ(static_cast<double>(r.trace.end_ps) / 1000, r.prediction.end_ns);
  int64_t at = 0;
  for (const PathPart& part : path) {
    ASSERT_EQ(part.begin_ps, at) << name(part.kind);
    ASSERT_LT(part.begin_ps, part.end_ps);
    at = part.end_ps;
  }
  EXPECT_EQ(at, r.trace.end_ps);
}

class Traced : public ::testing::TestWithParam<const char*> {};

TEST_P(Traced, ChangesNothingAndAddsUp) {
  const algo::Algorithm* algorithm = algo::find_algorithm(GetParam());
  for (int n = 2; n <= 8; ++n)
    for (const int launches : {1, 3})
      for (const int channels : {1, 3})
        for (const int64_t elements : {int64_t{n} * 96, int64_t{n} * 7001 + 1}) {
          algo::PlanRequest request;
          request.channels = channels;
          request.slices = 2;
          std::optional<Instance> instance;
          try {
            instance.emplace(algo::make_plan(*algorithm, request), n);
          } catch (const Error&) { continue; }  // powers of two only
          Options options;
          options.launches = launches;
          options.fold = Fold::off;
          const Network net = network(n);
          const auto spaces = extents(*instance, elements);
          const std::vector<int64_t> chunks(spaces.size(), 512);
          const Prediction plain = simulate(*instance, spaces, chunks, net, options);
          const Recorded r = record(*instance, elements, 512, net, options);
          expect_same(plain, r.prediction);
          expect_causes(r.trace, net);
          expect_messages(r.trace);
          expect_path(r);
          EXPECT_EQ(r.trace.messages.size(), plain.messages);
          options.walk = true;
          expect_path(record(*instance, elements, 512, net, options));
          options.fold = Fold::exact;
          const Recorded folded = record(*instance, elements, 512, net, options);
          EXPECT_EQ(folded.prediction.launch_end_ns, plain.launch_end_ns);
          expect_path(folded);
          if (::testing::Test::HasFailure()) FAIL() << n << " ranks, " << launches << " launches";
        }
}
INSTANTIATE_TEST_SUITE_P(Algorithms, Traced,
                         ::testing::Values("ring", "pairwise", "chain", "direct", "oneshot", "doubling", "tree"),
                         [](const auto& i) { return std::string(i.param); });

// Awaits between lanes, on a peer and with a lag, where zero-length steps and steps that end at one instant abound.
TEST(Trace, AwaitsNameTheStepThatTheyWaitedFor) {
  for (int n = 2; n <= 8; ++n)
    for (const int launches : {1, 3})
      for (const double byte_ns : {0., 1.}) {
        const Instance instance(plan::parse(awaits), n);
        Network net = network(n);
        net.step = {byte_ns, byte_ns, 0, 2 * byte_ns, 0, 0};
        Options options;
        options.launches = launches;
        expect_path(record(instance, n * 67, 16, net, options));
        options.fold = Fold::off;  // folded, a peer's step is its representative's, which may be of the same rank
        const Recorded r = record(instance, n * 67, 16, net, options);
        expect_causes(r.trace, net);
        expect_path(r);
        size_t awaited = 0;
        for (const TracedStep& s : r.trace.steps) awaited += s.cause == Cause::await;
        EXPECT_GT(awaited, 0u);
      }
}

TEST(Trace, StragglersBeginLateAndDecide) {
  algo::PlanRequest request;
  const Instance instance(algo::make_plan(*algo::find_algorithm("ring"), request), 4);
  Network net = network(4);
  net.start_ns = {0, 0, 90000, 0};
  const Recorded r = record(instance, 4 * 96, 512, net, {});
  expect_path(r);
  const std::vector<PathPart> path = critical_path(r.trace);
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(path[0].kind, PathPart::Kind::late);
  EXPECT_EQ(path[0].end_ps, 90000000);
  EXPECT_EQ(r.trace.steps[path[1].step].rank, 2u);
}

// A port that all messages queue at is on the path, and one slot sends it through the credits.
TEST(Trace, TheKindsTellWhatBounds) {
  const auto kinds = [](const Recorded& r) {
    std::map<PathPart::Kind, int64_t> sum;
    for (const PathPart& part : critical_path(r.trace)) sum[part.kind] += part.end_ps - part.begin_ps;
    return sum;
  };
  const auto run = [](int slots, const LinkCost& cost) {
    const Instance instance(plan::parse(fmt::format(R"(plan 1 pipe
order any
round hops
require n == 2
channels 1
space s parts 40 even
buffer x s f32 in
buffer y s f32 out
link main simple slots {}
lane main:
  loop s:
    when r == 0:
      for p in 0..40:
        put: x[p] -> >1
    when r == 1:
      for p in 0..40:
        get: <0 -> y[p]
)",
                                                    slots)),
                            2);
    Network net;
    net.costs = {cost};
    return record(instance, 40 * 25, 512, net, {});
  };
  const Recorded port = run(64, {100, 10, 10, 0, 10, 0}), slot = run(1, {100, 10, 10, 0, 0, 0});
  expect_path(port);
  expect_path(slot);
  EXPECT_GT(kinds(port)[PathPart::Kind::send_port] + kinds(port)[PathPart::Kind::receive_port],
            port.trace.end_ps * 8 / 10);
  EXPECT_GT(kinds(slot)[PathPart::Kind::slot], slot.trace.end_ps * 4 / 10);
}

TEST(Trace, SharedLinksAddUpToo) {
  algo::PlanRequest request;
  request.channels = 2;
  const Instance instance(algo::make_plan(*algo::find_algorithm("pairwise"), request), 8);
  Network net = network(8);
  net.fabric = make_fat_tree({4, 2}, {1, 2}, {10, 5});
  const auto spaces = extents(instance, 8 * 4001);
  const Prediction plain = simulate(instance, spaces, std::vector<int64_t>(spaces.size(), 512), net);
  const Recorded r = record(instance, 8 * 4001, 512, net, {});
  expect_same(plain, r.prediction);
  expect_path(r);
}

TEST(Trace, NothingIsLeftOut) {
  const Instance instance(algo::make_plan(*algo::find_algorithm("ring"), {}), 4);
  Trace trace;
  trace.most = 20;
  Options options;
  options.trace = &trace;
  const auto spaces = extents(instance, 4 * 96);
  try {
    simulate(instance, spaces, std::vector<int64_t>(spaces.size(), 8), network(4), options);
    ADD_FAILURE() << "a trace beyond its bound";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    EXPECT_NE(std::string(error.what()).find("20"), std::string::npos);
  }
}

TEST(Trace, NothingTakesNoTime) {
  const Instance instance(algo::make_plan(*algo::find_algorithm("ring"), {}), 4);
  Recorded r = record(instance, 0, 8, network(4), {});
  expect_path(r);
  EXPECT_TRUE(critical_path(r.trace).empty());
}

}  // namespace
}  // namespace weft::sim
