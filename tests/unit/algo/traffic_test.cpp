// Bytes and messages per rank, against the formulas of the literature and each algorithm's own account of itself.
#include "tests/unit/algo/members.h"
#include "tests/unit/algo/support.h"

namespace weft::algo {
namespace {

struct Traffic {
  double bytes = 0, messages = 0, received = 0, messages_received = 0, mapped = 0, hops = 0;
};

// Elements of the whole value; of every part where parts are equal.
plan::LaunchArgs arguments(const plan::Instance& instance, int64_t elements) {
  plan::LaunchArgs args;
  for (size_t s = 0; s < instance.plan().spaces.size(); ++s) {
    plan::SpaceExtent& extent = args.spaces.emplace_back();
    if (instance.plan().spaces[s].kind != plan::Space::Kind::fixed) extent.extent = plan::Cut{1, elements, 1};
  }
  args.buffers.resize(instance.plan().buffers.size());
  return args;
}

// The busiest rank's, of one chunk.
Traffic traffic(const Algorithm& algorithm, Collective collective, int n, int64_t elements) {
  PlanRequest ask;
  ask.collective = collective;
  ask.grain = 1;
  ask.to = n - 1;
  const plan::Instance instance(make_plan(algorithm, ask), n);
  Traffic most;
  for (const plan::RankStats& rank : plan::stats(instance, arguments(instance, elements), {elements})) {
    most.bytes = std::max(most.bytes, static_cast<double>(rank.bytes_sent));
    most.messages = std::max(most.messages, static_cast<double>(rank.messages_sent));
    most.received = std::max(most.received, static_cast<double>(rank.bytes_received));
    most.messages_received = std::max(most.messages_received, static_cast<double>(rank.messages_received));
    most.hops = std::max(most.hops, static_cast<double>(rank.critical_hops));
    most.mapped = std::max(most.mapped, rank.bytes_read_mapped + rank.bytes_written_mapped);
  }
  return most;
}

// collectives.md: n = 8, S = 32,000 B: 28,000 B in 7 messages, all_reduce twice that.
TEST(Traffic, OptimalAlgorithmsSendTheLeast) {
  for (const char* name : {"ring", "pairwise"}) {
    const Algorithm& algorithm = *find_algorithm(name);
    for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather}) {
      const Traffic t = traffic(algorithm, collective, 8, 8000);
      EXPECT_EQ(t.bytes, 28000) << name;
      EXPECT_EQ(t.messages, 7) << name;
    }
    const Traffic t = traffic(algorithm, Collective::all_reduce, 8, 8000);
    EXPECT_EQ(t.bytes, 56000) << name;
    EXPECT_EQ(t.messages, 14) << name;
  }
}

TEST(Traffic, DirectTouchesEachByteOfAPeerOnce) {
  const Algorithm& direct = *find_algorithm("direct");
  EXPECT_EQ(traffic(direct, Collective::reduce_scatter, 8, 8000).mapped, 28000);
  EXPECT_EQ(traffic(direct, Collective::all_gather, 8, 8000).mapped, 28000);
  const Traffic t = traffic(direct, Collective::all_reduce, 8, 8000);
  EXPECT_EQ(t.mapped, 56000);
  EXPECT_EQ(t.messages, 0);
}

// What each says of itself is what its plan does: bytes and messages of the busiest rank, both ways, and hops.
TEST(Traffic, EqualsWhatAlgorithmsSayOfThemselves) {
  each_member([](const Member& member) {
    if (member.counts != Counts::even) return;
    const Algorithm& algorithm = *member.algorithm;
    for (int n = 1; n <= 17; ++n) {
      if (!member.takes(n) || (n > 8 && n < 15)) continue;
      const int64_t elements = 120 * n;
      const Traffic t = traffic(algorithm, member.collective, n, elements);
      const Algorithm::Cost cost = algorithm.cost(member.collective, n, static_cast<double>(elements) * 4);
      const std::string who = fmt::format("{} n {}", member.title(), n);
      EXPECT_NEAR(algorithm.needs_mapped() ? t.mapped : t.bytes, cost.bytes_sent, 1e-6) << who;
      EXPECT_EQ(t.messages, cost.messages) << who;
      if (algorithm.needs_mapped()) continue;
      EXPECT_EQ(t.hops, cost.hops) << who;
      EXPECT_NEAR(t.received, cost.bytes_received > 0 ? cost.bytes_received : t.received, 1e-6) << who;
      EXPECT_LE(t.received, std::max(cost.bytes_sent, cost.bytes_received) + 1e-6) << who;
      EXPECT_LE(t.messages_received, std::max(cost.messages, cost.messages_received)) << who;
    }
  });
}

// The formulas of collectives.md, written out once more.
TEST(Traffic, LogarithmicAlgorithmsOnEightRanks) {
  const double S = 32000;
  for (const char* name : {"halving", "bruck", "pat"}) {
    const Traffic t = traffic(*find_algorithm(name), Collective::all_reduce, 8, 8000);
    EXPECT_EQ(t.bytes, 2 * 7 * S / 8) << name;
    EXPECT_EQ(t.messages, 6) << name;
    EXPECT_EQ(t.hops, 6) << name;
  }
  const Traffic all_to_all = traffic(*find_algorithm("bruck"), Collective::all_to_all, 8, 8000);
  EXPECT_EQ(all_to_all.bytes, S / 2 * 3);  // S/2 log2 n instead of 7/8 S
  EXPECT_EQ(all_to_all.messages, 3);
  EXPECT_EQ(traffic(*find_algorithm("pairwise"), Collective::all_to_all, 8, 8000).bytes, 7 * S / 8);
  const Traffic tree = traffic(*find_algorithm("tree"), Collective::all_reduce, 16, 8000);
  EXPECT_EQ(tree.bytes, 2 * S);
  EXPECT_EQ(tree.hops, 8);  // 2 log2 n, not 2 (n-1)
  // Across hosts of g ranks: (m-1)/(m g) S instead of (m-1)/m S a half.
  EXPECT_EQ(traffic(*find_algorithm("hierarchical:4"), Collective::all_reduce, 8, 8000).bytes, 2 * (3 * S / 4 + S / 8));
}

// Counts beyond 2^31: plans are computed in 64 bits; nothing is allocated.
TEST(Traffic, CountsBeyondTwoToTheThirtyOne) {
  each_member([](const Member& member) {
    if (member.counts != Counts::even || member.collective == Collective::barrier) return;
    const int n = member.takes(8) ? 8 : 6;
    const int64_t elements = (int64_t{3} << 32) * n;
    const Traffic t = traffic(*member.algorithm, member.collective, n, elements);
    const double cost = member.algorithm->cost(member.collective, n, static_cast<double>(elements) * 4).bytes_sent;
    EXPECT_NEAR((member.algorithm->needs_mapped() ? t.mapped : t.bytes) / cost, 1, 1e-9) << member.title();
    PlanRequest ask = request_of(member, 3);
    const plan::Instance instance(make_plan(*member.algorithm, ask), n);
    const plan::Extents extents(
        instance,
        arguments(instance, elements + (instance.plan().spaces[0].kind == plan::Space::Kind::equal ? 8 : 5)).spaces,
        {1 << 20});
    int64_t covered = 0;
    for (int64_t p = 0; p < instance.parts(0); ++p)
      for (int c = 0; c < instance.channels(); ++c) covered += extents.share(0, p, c).size();
    EXPECT_EQ(covered, extents.elements(0)) << member.title();
    EXPECT_GT(covered, int64_t{1} << 32) << member.title();
  });
}

// The same where the launch gives the counts: nothing between two ranks, 2^33 elements between the next two.
TEST(Traffic, GivenCountsBeyondTwoToTheThirtyOne) {
  PlanRequest ask;
  ask.collective = Collective::all_to_all;
  ask.counts = Counts::given;
  ask.grain = 1;
  const int n = 3;
  const plan::Instance instance(make_plan(*find_algorithm("pairwise"), ask), n);
  constexpr int64_t large = int64_t{1} << 33;
  plan::LaunchArgs args;
  args.spaces.resize(2);
  args.spaces[0].extent = args.spaces[1].extent = plan::Given{{5, 0, large}};
  args.buffers.resize(instance.plan().buffers.size());
  const plan::Extents extents(instance, args.spaces, {1 << 20, 1 << 20});
  EXPECT_EQ(extents.elements(0), large + 5);
  EXPECT_EQ(extents.chunks(0, 0), large >> 20);
  EXPECT_EQ(extents.chunk(0, 2, 0, (large >> 20) - 1).end, large);
  // Rank 0 sends part 2 away, rank 2 part 0.
  const std::vector<plan::RankStats> stats = plan::stats(instance, args, {large, large});
  EXPECT_EQ(stats[0].bytes_sent, 4 * large);
  EXPECT_EQ(stats[0].messages_sent, 1);
  EXPECT_EQ(stats[2].bytes_sent, 4 * 5);
}

}  // namespace
}  // namespace weft::algo
