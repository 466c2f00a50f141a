// Bytes and messages per rank, against the formulas of the literature and each algorithm's own account of itself.
#include "tests/unit/algo/support.h"

namespace weft::algo {
namespace {

struct Traffic {
  double bytes = 0, messages = 0, mapped = 0, hops = 0;
};

// The busiest rank's.
Traffic traffic(const Algorithm& algorithm, Collective collective, int n, int64_t elements) {
  PlanRequest ask;
  ask.collective = collective;
  ask.grain = 1;
  const plan::Instance instance(make_plan(algorithm, ask), n);
  plan::LaunchArgs args;
  args.spaces.resize(1);
  args.spaces[0].extent = plan::Cut{1, elements, 1};
  args.buffers.resize(instance.plan().buffers.size());
  Traffic most;
  for (const plan::RankStats& rank : plan::stats(instance, args, {elements})) {
    most.bytes = std::max(most.bytes, static_cast<double>(rank.bytes_sent));
    most.messages = std::max(most.messages, static_cast<double>(rank.messages_sent));
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

TEST(Traffic, EqualsWhatAlgorithmsSayOfThemselves) {
  for (const Algorithm* algorithm : algorithms())
    for (const Collective collective : collectives) {
      if (!algorithm->supports(collective)) continue;
      for (int n = 1; n <= 8; ++n) {
        const int64_t elements = 120 * n;
        const Traffic t = traffic(*algorithm, collective, n, elements);
        const Algorithm::Cost cost = algorithm->cost(collective, n, static_cast<double>(elements) * 4);
        EXPECT_DOUBLE_EQ(algorithm->needs_mapped() ? t.mapped : t.bytes, cost.bytes_sent)
            << algorithm->name() << " " << name(collective) << " n " << n;
        EXPECT_EQ(t.messages, cost.messages) << algorithm->name() << " " << name(collective) << " n " << n;
        if (!algorithm->needs_mapped()) {
          EXPECT_EQ(t.hops, cost.hops) << algorithm->name() << " " << name(collective) << " n " << n;
        }
      }
    }
}

}  // namespace
}  // namespace weft::algo
