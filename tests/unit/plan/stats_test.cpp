// Statistics against the formulas of the literature, and against a plain count over all chunks.
#include "weft/plan/stats.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/plan/cases.h"
#include "weft/plan/lower_bound.h"
#include "weft/plan/verify.h"

namespace weft::plan {
namespace {

LaunchArgs args_of(const Instance& in, int64_t elements) {
  LaunchArgs args;
  for (size_t i = 0; i < in.plan().spaces.size(); ++i) {
    const Space& s = in.plan().spaces[i];
    SpaceExtent e;
    if (s.kind == Space::Kind::given)
      e.extent = Given{std::vector<int64_t>(static_cast<size_t>(in.parts(static_cast<int>(i))),
                                            elements / in.parts(static_cast<int>(i)))};
    else if (s.derived == Space::Derived::no)
      e.extent = Cut{1, elements, 1};
    args.spaces.push_back(e);
  }
  args.buffers.resize(in.plan().buffers.size());
  for (size_t i = 0; i < launch_scalars(in.plan()).size(); ++i) args.scalars.push_back({true, 3, 3.0});
  return args;
}

// n = 8, S = 32,000 bytes: every rank sends exactly (n-1)/n S in n-1 messages; all_reduce twice that.
TEST(Stats, TrafficOfTheLiterature) {
  struct Row {
    const char* name;
    int64_t bytes, messages;
  };
  for (const Row& row : {Row{"ring_all_reduce", 56000, 14}, Row{"pairwise_two_shot_all_reduce", 56000, 14},
                         Row{"pairwise_all_to_all_v", 28000, 7}, Row{"matmul_reduce_scatter", 28000, 7},
                         Row{"all_gather_matmul", 28000, 7}, Row{"fused_ring_adam", 56000, 14}}) {
    Plan plan = cases::load(row.name);
    plan.channels = expr::integer(1);
    for (Lane& lane : plan.lanes)
      for (Item& item : lane.body)
        if (auto* loop = std::get_if<Loop>(&item)) loop->slices = 1;
    const Instance in(plan, 8);
    const std::vector<RankStats> all = stats(in, args_of(in, 8000), std::vector<int64_t>(plan.spaces.size(), 1 << 20));
    ASSERT_EQ(all.size(), 8u);
    for (const RankStats& s : all) {
      EXPECT_EQ(s.bytes_sent, row.bytes) << row.name;
      EXPECT_EQ(s.bytes_received, row.bytes) << row.name;
      EXPECT_EQ(s.messages_sent, row.messages) << row.name;
      EXPECT_EQ(s.messages_received, row.messages) << row.name;
    }
  }
}

TEST(Stats, UnevenPartsAddUp) {
  for (int n = 1; n <= 8; ++n)
    for (const int64_t size : {0, 1, 7, 64, 130}) {
      const Instance in(cases::load("ring_all_reduce"), n);
      int64_t sent = 0, received = 0;
      for (const RankStats& s : stats(in, args_of(in, size), {16})) sent += s.bytes_sent, received += s.bytes_received;
      EXPECT_EQ(sent, 2 * (n - 1) * size * 4);
      EXPECT_EQ(received, sent);
    }
}

TEST(Stats, ChannelsSlicesAndChunksMultiplyMessages) {
  const Instance in(cases::load("ring_all_reduce"), 4);  // two channels, two slices
  const RankStats one = stats(in, args_of(in, 4096), {512})[0], four = stats(in, args_of(in, 4096), {128})[0];
  EXPECT_EQ(one.messages_sent, 6 * 2 * 2);
  EXPECT_EQ(four.messages_sent, 6 * 2 * 2 * 4);
  EXPECT_EQ(one.bytes_sent, four.bytes_sent);
  EXPECT_EQ(one.steps, 7 * 2 * 2);
}

// Full chunks are counted once and multiplied: compare sizes that end in the middle of a chunk with their pieces.
TEST(Stats, LongLoopsCountEveryChunk) {
  const Instance in(cases::load("fused_ring_adam"), 3);
  for (const int64_t size : {3 * 640, 3 * 640 + 1, 3 * 640 + 55, 999}) {
    const RankStats fine = stats(in, args_of(in, size), {16})[1], coarse = stats(in, args_of(in, size), {1 << 20})[1];
    EXPECT_EQ(fine.bytes_sent, coarse.bytes_sent) << size;
    EXPECT_EQ(fine.bytes_read_here, coarse.bytes_read_here) << size;
    EXPECT_EQ(fine.bytes_written_here, coarse.bytes_written_here) << size;
    EXPECT_NEAR(fine.flops, coarse.flops, 1e-6 * coarse.flops) << size;
    EXPECT_GT(fine.steps, coarse.steps);
  }
}

// Adam: a rank reads its own gradient once everywhere, and m, v, w of its part; writes m, v, w of its part and all of p.
TEST(Stats, AdamReadsAndWrites) {
  const Instance in(cases::load("fused_ring_adam"), 4);
  const RankStats s = stats(in, args_of(in, 4000), {1 << 20})[2];
  EXPECT_EQ(s.bytes_read_here, 4000 * 4 + 3 * 1000 * 4);
  EXPECT_EQ(s.bytes_written_here, 3 * 1000 * 4 + 4000 * 4);
  EXPECT_EQ(s.bytes_read_mapped, 0);
  EXPECT_EQ(s.passes, 1);
  EXPECT_GT(s.flops, 10 * 1000);  // the kernel, and three sums
}

TEST(Stats, WireTypesSetTheBytes) {
  Plan plan = cases::load("ring_all_reduce");
  const Instance wide(plan, 4);
  plan.families[0].wire = "f16";
  const Instance narrow(plan, 4);
  EXPECT_EQ(stats(narrow, args_of(narrow, 4000), {512})[0].bytes_sent * 2,
            stats(wide, args_of(wide, 4000), {512})[0].bytes_sent);
}

TEST(Stats, LinksWithoutWireCarryWhatIsSent) {
  const Instance lamb(cases::load("fused_ring_lamb"), 4);
  EXPECT_EQ(message_dtype(lamb, 0), Dtype::f16);
  EXPECT_EQ(message_dtype(lamb, 1), Dtype::f64);
  const Instance pipe(cases::load("reduce_scatter_send_all_gather"), 4);
  EXPECT_EQ(message_dtype(pipe, find_family(pipe.plan(), "p2p")), Dtype::f32);
  EXPECT_EQ(message_dtype(pipe, find_family(pipe.plan(), "ag")), Dtype::f32);  // passes on what came by p2p
  const Instance moe(cases::load("moe_dispatch_gemm_combine"), 4);
  EXPECT_EQ(message_dtype(moe, find_family(moe.plan(), "cnt")), Dtype::i64);
}

TEST(Stats, MappedReadsAndWrites) {
  const Instance one(cases::load("one_shot_symmetric"), 4);
  const RankStats s = stats(one, args_of(one, 1000), {1 << 20})[1];
  EXPECT_EQ(s.bytes_read_here, 4000);
  EXPECT_EQ(s.bytes_read_mapped, 3 * 4000);
  EXPECT_EQ(s.bytes_written_here, 4000);
  EXPECT_EQ(s.messages_sent, 0);
  EXPECT_EQ(s.awaits, 2 * 2 * 4);  // ready@0..n and fin@0..n in two channels
  EXPECT_EQ(s.flops, 3 * 1000);
  const Instance two(cases::load("two_shot_symmetric"), 4);
  const RankStats t = stats(two, args_of(two, 1000), {1 << 20})[1];
  EXPECT_EQ(t.bytes_read_here + t.bytes_read_mapped, 4000);
  EXPECT_EQ(t.bytes_written_mapped, 3000);
}

TEST(Stats, MatmulFlops) {
  const Instance in(cases::load("matmul_reduce_scatter"), 2);
  const RankStats s = stats(in, args_of(in, 60), {1 << 20})[0];  // cols = 3: 60 inputs, 2 * 3 each; and 30 sums
  EXPECT_EQ(s.matmul_flops, 2 * 60 * 3);
  EXPECT_EQ(s.flops, 30);
}

TEST(Stats, PassesOverMemory) {
  const std::function<int64_t(const char*, int)> passes = [](const char* name, int n) {
    const Instance in(cases::load(name), n);
    LaunchArgs args = args_of(in, 64);
    static const SegmentTable table{{32, 32}};
    if (in.plan().spaces.size() > 1 && in.plan().spaces[1].derived == Space::Derived::segment)
      args.spaces[0].segments = &table;
    return stats(in, args, std::vector<int64_t>(in.plan().spaces.size(), 8))[0].passes;
  };
  EXPECT_EQ(passes("fused_ring_adam", 2), 1);
  EXPECT_EQ(passes("fused_ring_lamb", 2), 2);
  EXPECT_EQ(passes("reduce_scatter_clip_sgd_all_gather", 2), 2);
  EXPECT_EQ(passes("barrier_dissemination", 2), 0);
}

int64_t hops(const char* name, int n, int64_t size, int64_t chunk) {
  Plan plan = cases::load(name);
  plan.channels = expr::integer(1);
  const Instance in(plan, n);
  int64_t most = 0;
  for (const RankStats& s : stats(in, args_of(in, size), std::vector<int64_t>(plan.spaces.size(), chunk)))
    most = std::max(most, s.critical_hops);
  return most;
}

TEST(Stats, CriticalHops) {
  for (int n = 1; n <= 8; ++n) {
    EXPECT_EQ(hops("ring_all_reduce", n, 800, 1 << 20), 2 * (n - 1)) << n;
    EXPECT_EQ(hops("chain_all_reduce", n, 800, 1 << 20), 2 * (n - 1)) << n;
    EXPECT_EQ(hops("pairwise_two_shot_all_reduce", n, 800, 1 << 20), n > 1 ? 2 : 0) << n;
    EXPECT_EQ(hops("mesh_one_shot_all_reduce", n, 800, 1 << 20), n > 1 ? 1 : 0) << n;
  }
  EXPECT_EQ(hops("bruck_all_to_all", 8, 800, 1 << 20), 3);
  EXPECT_EQ(hops("barrier_dissemination", 8, 1, 1), 3);
  EXPECT_EQ(hops("one_shot_symmetric", 4, 800, 1 << 20), 2);  // ready and done
}

TEST(Stats, HopsOfLongLoopsFollowFromShortOnes) {
  for (const char* name : {"ring_all_reduce", "pairwise_two_shot_all_reduce", "chain_all_reduce"}) {
    const int64_t four = hops(name, 4, 4 * 64, 16), five = hops(name, 4, 4 * 64 + 64, 16),
                  nine = hops(name, 4, 4 * 64 + 5 * 64, 16);
    EXPECT_GE(five, four) << name;
    EXPECT_EQ(nine - four, 5 * (five - four)) << name;
  }
}

TEST(Stats, EveryCaseCounts) {
  static const SegmentTable table{{60, 0, 68}};
  for (const std::string& name : cases::names()) {
    SCOPED_TRACE(name);
    const Instance in(cases::load(name), 8);
    LaunchArgs args = args_of(in, 128);
    if (name == "fused_ring_lamb") args.spaces[0].segments = &table;
    int64_t sent = 0, received = 0, steps = 0;
    for (const RankStats& s : stats(in, args, std::vector<int64_t>(in.plan().spaces.size(), 16)))
      sent += s.bytes_sent, received += s.bytes_received, steps += s.steps;
    EXPECT_EQ(sent, received);
    EXPECT_GT(steps, 0);
  }
}

// Many ranks are counted by their classes; equal parts make that exact, and fast.
TEST(Stats, ManyRanksAreCountedByTheirClasses) {
  for (const char* name : {"ring_all_reduce", "pairwise_two_shot_all_reduce", "mesh_one_shot_all_reduce"})
    for (const int n : {128, 1024}) {
      const Instance in(cases::load(name), n);
      ASSERT_LT(period(in), n) << name;
      const std::vector<RankStats> all = stats(in, args_of(in, int64_t{n} * 4096), {1024, 1024, 1024});
      ASSERT_EQ(static_cast<int>(all.size()), n);
      int64_t sent = 0, received = 0;
      for (const RankStats& s : all) {
        EXPECT_EQ(s.bytes_sent, all[0].bytes_sent);
        sent += s.messages_sent, received += s.messages_received;
      }
      EXPECT_EQ(sent, received);
      if (std::string(name) == "ring_all_reduce") {
        EXPECT_EQ(all[5].bytes_sent, int64_t{2} * (n - 1) * 4096 * size_bytes(in.dtype(0)));
      }
    }
}

// The bound against what the literature says no plan can do without; S bytes, all ranks together.
TEST(LowerBound, OfTheLiterature) {
  constexpr int64_t elements = 8000;
  struct Row {
    const char* name;
    double (*bytes)(double n, double s);
    double (*busiest)(double n, double s);
  };
  const auto twice = [](double n, double s) { return 2 * (n - 1) * s; };
  const auto once = [](double n, double s) { return (n - 1) * s; };
  const auto each = [](double n, double s) { return 2 * (n - 1) / n * s; };
  const auto share = [](double n, double s) { return (n - 1) / n * s; };
  for (const Row& row : {Row{"ring_all_reduce", twice, each}, Row{"pairwise_two_shot_all_reduce", twice, each},
                         Row{"double_tree_all_reduce", twice, each}, Row{"one_shot_symmetric", twice, each},
                         Row{"pat_all_gather", once, share}, Row{"matmul_reduce_scatter", once, share},
                         Row{"fused_ring_adam", twice, each}, Row{"pairwise_all_to_all_v", once, share}})
    for (const int n : {2, 4, 8}) {
      const Instance in(cases::load(row.name), n);
      const LaunchArgs args = args_of(in, elements);
      const auto bound = lower_bound(in, args);
      ASSERT_TRUE(bound) << row.name;
      const int buffer = find_buffer(in.plan(), in.plan().posts[0].targets.back().name);
      const double s = static_cast<double>(Extents(in, args.spaces, {}).elements(in.buffer_space(buffer)) *
                                           size_bytes(in.dtype(buffer)));
      EXPECT_DOUBLE_EQ(bound->bytes, row.bytes(n, s)) << row.name << " on " << n;
      EXPECT_GE(bound->busiest_bytes, row.busiest(n, s)) << row.name << " on " << n;
      EXPECT_EQ(bound->critical_hops, 1);
    }
}

// No plan is better than its bound; one rank alone has nothing to exchange.
TEST(LowerBound, HoldsForEveryCase) {
  for (const std::string& name : cases::names())
    for (const int n : admitted_ranks(cases::load(name))) {
      const Instance in(cases::load(name), n);
      LaunchArgs args = args_of(in, int64_t{n} * 480);
      const SegmentTable tensors{{5, int64_t{n} * 480 - 5}};
      for (SpaceExtent& space : args.spaces) space.segments = &tensors;
      const auto bound = lower_bound(in, args);
      ASSERT_TRUE(bound) << name;
      double together = 0, busiest = 0;
      for (const RankStats& s : stats(in, args, {})) {
        together += static_cast<double>(s.bytes_sent) + s.bytes_read_mapped + s.bytes_written_mapped;
        busiest = std::max(busiest, static_cast<double>(s.bytes_sent));
      }
      EXPECT_GE(together, bound->bytes) << name << " on " << n;
      if (n == 1) { EXPECT_EQ(bound->bytes, 0) << name; }
    }
}

TEST(LowerBound, IsNotGuessed) {
  const Instance many(cases::load("ring_all_reduce"), 128);
  EXPECT_FALSE(lower_bound(many, args_of(many, 1024)));
}

}  // namespace
}  // namespace weft::plan
