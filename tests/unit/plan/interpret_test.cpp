// The interpreter against what plans say they compute, in random orders, at awkward sizes.
#include "weft/plan/interpret.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/plan/cases.h"
#include "tests/unit/plan/run_plan.h"

namespace weft::plan {
namespace {

using cases::PlanRun;
using cases::PlanSizes;

double encode(int rank, int64_t i) { return static_cast<double>(rank * 200 + i % 97 + 1); }
const std::vector<int64_t> awkward = {0, 1, 2, 3, 5, 7, 8, 9, 16, 31, 33, 64, 130};

InterpretOptions how(uint64_t seed, int launches = 2) {
  InterpretOptions options;
  options.seed = seed;
  options.delay = seed % 3 == 0 ? 0.3 : 0;
  options.launches = launches;
  options.slot_payload_bytes = seed % 2 ? 32 : 64;  // several chunks even for small sizes
  return options;
}

double sum_of_ranks(int n, int64_t i) {
  double sum = 0;
  for (int r = 0; r < n; ++r) sum += encode(r, i);
  return sum;
}

class AllReduce : public testing::TestWithParam<const char*> {};

TEST_P(AllReduce, AddsUpEveryElementOnce) {
  const Plan plan = cases::load(GetParam());
  const std::map<Id, std::string> params = std::string(GetParam()) == "hierarchical_all_reduce"
                                               ? std::map<Id, std::string>{{"g", "2"}}
                                               : std::map<Id, std::string>{};
  for (int n = 1; n <= 8; ++n) {
    if (!params.empty() && (n % 2 || n <= 2)) continue;
    for (int64_t size : awkward) {
      SCOPED_TRACE(fmt::format("n = {}, {} elements", n, size));
      PlanSizes sizes;
      sizes.even = size;
      PlanRun run(plan, n, sizes, params);
      run.fill("x", encode);
      run.run(how(static_cast<uint64_t>(n) * 1000 + static_cast<uint64_t>(size)));
      run.each("y", [&](int rank, int64_t i, int64_t position) {
        ASSERT_EQ(run.value(rank, "y", i), sum_of_ranks(n, position)) << "rank " << rank << " element " << position;
      });
      run.expect_canaries();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Interpret, AllReduce,
                         testing::Values("ring_all_reduce", "chain_all_reduce", "double_tree_all_reduce",
                                         "hierarchical_all_reduce", "mesh_one_shot_all_reduce", "one_shot_private",
                                         "one_shot_symmetric", "pairwise_two_shot_all_reduce", "two_shot_private",
                                         "two_shot_symmetric"));

TEST(Interpret, InPlaceIsTheSame) {  // y lies where x lies
  const Plan plan = cases::load("ring_all_reduce");
  for (int n : {1, 2, 5}) {
    PlanSizes sizes;
    sizes.even = 33;
    PlanRun run(plan, n, sizes);
    run.fill("x", encode);
    for (LaunchArgs& args : run.args) args.buffers[1] = args.buffers[0];
    run.run(how(1, 1));
    run.each("x", [&](int rank, int64_t i, int64_t position) {
      ASSERT_EQ(run.value(rank, "x", i), sum_of_ranks(n, position));
    });
  }
}

TEST(Interpret, AllGather) {
  const Plan plan = cases::load("pat_all_gather");
  for (int n = 1; n <= 8; ++n)
    for (int64_t size : awkward) {
      PlanSizes sizes;
      sizes.even = size;
      PlanRun run(plan, n, sizes);
      run.fill("x", encode);
      run.run(how(static_cast<uint64_t>(size)));
      const Extents extents(run.instance, run.args[0].spaces, {});
      run.each("y", [&](int rank, int64_t i, int64_t position) {
        int owner = 0;
        for (int64_t before = extents.part_size(0, 0); position >= before; before += extents.part_size(0, owner))
          ++owner;
        ASSERT_EQ(run.value(rank, "y", i), encode(owner, position));
      });
    }
}

TEST(Interpret, AllToAll) {
  const Plan plan = cases::load("bruck_all_to_all");
  for (int n = 1; n <= 8; ++n)
    for (int64_t each : {0, 1, 3, 17}) {
      PlanSizes sizes;
      sizes.equal_part = each;
      PlanRun run(plan, n, sizes);
      run.fill("x", [](int rank, int64_t i) { return rank * 1000 + i; });
      run.run(how(static_cast<uint64_t>(n)));
      run.each("y", [&](int rank, int64_t i, int64_t position) {
        ASSERT_EQ(run.value(rank, "y", i), position / each * 1000 + rank * each + position % each);
      });
    }
}

int64_t count_of(int from, int to) { return (from * 5 + to * 3) % 7 == 0 ? 0 : (from * 5 + to * 3) % 7 * 4 - 3; }

TEST(Interpret, AllToAllWithCounts) {
  const Plan plan = cases::load("pairwise_all_to_all_v");
  for (int n = 1; n <= 6; ++n) {
    PlanSizes sizes;
    sizes.given = [&](int space, int rank, int64_t part) {
      return space == 0 ? count_of(rank, static_cast<int>(part)) : count_of(static_cast<int>(part), rank);
    };
    PlanRun run(plan, n, sizes);
    run.fill("x", [](int rank, int64_t i) { return rank * 1000 + i; });
    run.run(how(static_cast<uint64_t>(n)));
    run.each("y", [&](int rank, int64_t i, int64_t position) {
      int from = 0;
      int64_t rest = position, before = 0;
      while (rest >= count_of(from, rank)) rest -= count_of(from++, rank);
      for (int to = 0; to < rank; ++to) before += count_of(from, to);
      ASSERT_EQ(run.value(rank, "y", i), from * 1000 + before + rest);
    });
    run.expect_canaries();
  }
}

TEST(Interpret, CountsReadWhenTheLoopBegins) {  // space b's counts come over a link
  const Plan plan = cases::load("moe_dispatch_gemm_combine");
  for (int n : {1, 2, 3, 4}) {
    constexpr int64_t inner = 2;
    PlanSizes sizes;
    sizes.fixed = inner * inner;
    sizes.given = [&](int, int rank, int64_t part) { return inner * count_of(rank, static_cast<int>(part)); };
    sizes.scalars = {{true, inner, 0}, {true, inner, 0}};
    PlanRun run(plan, n, sizes);
    const int b = find_space(plan, "b");
    for (LaunchArgs& args : run.args) args.spaces[static_cast<size_t>(b)].extent = OnDevice{};
    run.fill("cs", [&](int rank, int64_t part) {
      return static_cast<double>(inner * count_of(rank, static_cast<int>(part)));
    });
    run.fill("x", encode);
    run.fill("w", [](int rank, int64_t i) { return rank + i + 1; });
    InterpretOptions options = how(static_cast<uint64_t>(n));
    options.chunk_elements = {0, 0, 4, 4};
    run.run(options);
    int64_t checked = 0;
    for (int rank = 0; rank < n; ++rank) {
      int64_t row = 0;
      for (int part = 0; part < n; ++part)
        for (int64_t k = 0; k < count_of(rank, part); ++k, ++row)
          for (int64_t col = 0; col < inner; ++col, ++checked) {
            double want = 0;
            for (int64_t i = 0; i < inner; ++i)
              want += encode(rank, row * inner + i) * static_cast<double>(part + i * inner + col + 1);
            ASSERT_EQ(run.value(rank, "y", row * inner + col), want) << "rank " << rank << " row " << row;
          }
    }
    EXPECT_GT(checked + (n == 1), 0);
  }
}

TEST(Interpret, AdamOverLaunches) {
  const Plan plan = cases::load("fused_ring_adam");
  const std::vector<Id> names = launch_scalars(plan);
  for (int n : {1, 2, 3, 5})
    for (int64_t size : {0, 1, 7, 40}) {
      PlanSizes sizes;
      sizes.even = size;
      for (const Id& name : names)
        sizes.scalars.push_back(name == "lr" ? expr::ScalarValue{false, 0, 0.125} : expr::ScalarValue{true, 3, 3});
      PlanRun run(plan, n, sizes);
      std::vector<std::vector<unsigned char>> seen;
      for (uint64_t seed : {1u, 2u, 3u}) {  // the order of events changes nothing
        run.fill("g", encode);
        run.fill("m", [](int, int64_t i) { return static_cast<double>(i) / 8; });
        run.fill("v", [](int, int64_t i) { return static_cast<double>(i + 1) / 4; });
        run.fill("w", [](int, int64_t i) { return static_cast<double>(i) / 2; });
        run.run(how(seed, 3));
        seen.push_back(run.results());
      }
      EXPECT_EQ(seen[0], seen[1]);
      EXPECT_EQ(seen[0], seen[2]);
      run.each("p", [&](int rank, int64_t i, int64_t position) {  // everybody holds the owner's weights
        EXPECT_EQ(run.value(rank, "p", i), run.value(0, "p", position));
        EXPECT_TRUE(std::isfinite(run.value(rank, "p", i)));
      });
      run.expect_canaries();
    }
}

TEST(Interpret, LambNormsPerTensor) {
  const Plan plan = cases::load("fused_ring_lamb");
  const std::vector<Id> names = launch_scalars(plan);
  for (int n : {1, 2, 3}) {
    PlanSizes sizes;
    sizes.segments = {5, 1, 0, 9, 20};
    sizes.even = 35;
    for (const Id& name : names)
      sizes.scalars.push_back(name == "lr" ? expr::ScalarValue{false, 0, 0.5} : expr::ScalarValue{true, 1, 1});
    PlanRun run(plan, n, sizes);
    run.fill("g", [](int rank, int64_t i) { return static_cast<double>((rank + i) % 5) - 2; });
    run.fill("m", [](int, int64_t) { return 0; });
    run.fill("v", [](int, int64_t) { return 0; });
    run.fill("w", [](int, int64_t i) { return static_cast<double>(i % 3) - 1; });
    run.run(how(5, 1));
    // The same in plain double arithmetic.
    std::vector<double> w(35), u(35);
    double lengths_w[5] = {}, lengths_u[5] = {};
    const auto segment = [&](size_t i) { return i < 5 ? 0 : i < 6 ? 1 : i < 15 ? 3 : 4; };
    for (size_t i = 0; i < 35; ++i) {
      double g = 0;
      for (int r = 0; r < n; ++r) g += static_cast<double>((static_cast<size_t>(r) + i) % 5) - 2;
      g /= n;
      w[i] = static_cast<double>(i % 3) - 1;
      const double m = 0.1 * g, v = 0.001 * g * g;
      u[i] = m / (1 - 0.9) / (std::sqrt(v / (1 - 0.999)) + 1e-6) + 0.01 * w[i];
      lengths_w[segment(i)] += w[i] * w[i];
      lengths_u[segment(i)] += u[i] * u[i];
    }
    run.each("p", [&](int rank, int64_t i, int64_t position) {
      const auto at = static_cast<size_t>(position);
      const double nw = lengths_w[segment(at)], nu = lengths_u[segment(at)],
                   ratio = nw > 0 && nu > 0 ? std::sqrt(nw) / std::sqrt(nu) : 1;
      EXPECT_NEAR(run.value(rank, "p", i), w[at] - 0.5 * ratio * u[at], 4e-3)
          << "rank " << rank << " element " << position;
    });
    run.expect_canaries();
  }
}

TEST(Interpret, ClipsByGlobalNorm) {
  const Plan plan = cases::load("reduce_scatter_clip_sgd_all_gather");
  const std::vector<Id> names = launch_scalars(plan);
  for (int n : {1, 2, 4}) {
    PlanSizes sizes;
    sizes.even = 19;
    for (const Id& name : names) sizes.scalars.push_back({false, 0, name == "lr" ? 0.5 : 1.0});
    PlanRun run(plan, n, sizes);
    run.fill("g", [](int rank, int64_t i) { return static_cast<double>(rank + i % 4); });
    run.fill("w", [](int, int64_t i) { return static_cast<double>(i); });
    run.run(how(9, 1));
    double square = 0;
    std::vector<double> d(19);
    for (size_t i = 0; i < 19; ++i) {
      for (int r = 0; r < n; ++r) d[i] += static_cast<double>(static_cast<size_t>(r) + i % 4);
      square += d[i] * d[i];
    }
    run.each("p", [&](int rank, int64_t i, int64_t position) {
      const auto at = static_cast<size_t>(position);
      EXPECT_NEAR(run.value(rank, "p", i), static_cast<double>(at) - 0.5 * std::min(1 / std::sqrt(square), 1.0) * d[at],
                  1e-5);
    });
  }
}

TEST(Interpret, MatmulMeetsCollectives) {
  for (const char* name : {"matmul_ring_all_reduce", "matmul_reduce_scatter"}) {
    const Plan plan = cases::load(name);
    const std::vector<Id> names = launch_scalars(plan);
    for (int n : {1, 2, 3, 4}) {
      SCOPED_TRACE(fmt::format("{} on {}", name, n));
      constexpr int64_t inner = 2;
      const int64_t rows = 2 * n;
      PlanSizes sizes;
      sizes.even = rows * inner;
      sizes.fixed = inner * inner;
      for (size_t i = 0; i < names.size(); ++i) sizes.scalars.push_back({true, inner, inner});
      PlanRun run(plan, n, sizes);
      for (LaunchArgs& args : run.args)  // rows are cut: chunks and shares are whole rows
        for (size_t s = 0; s < args.spaces.size(); ++s)
          if (plan.spaces[s].kind == Space::Kind::even) args.spaces[s].extent = Cut{1, rows, inner};
      run.fill("a", encode);
      run.fill("b", [](int rank, int64_t i) { return rank + i; });
      InterpretOptions options = how(3, 2);
      options.chunk_elements.assign(plan.spaces.size(), 1 << 20);
      if (run.instance.channels() > 1) {  // shares of odd rows would cut them: only where they do not
        bool whole = true;
        const Extents extents(run.instance, run.args[0].spaces, {});
        for (int64_t part = 0; part < run.instance.parts(0); ++part)
          for (int c = 0; c < run.instance.channels(); ++c)
            whole = whole && extents.share(0, part, c).begin % inner == 0;
        ASSERT_TRUE(whole);
      }
      run.run(options);
      run.each("y", [&](int rank, int64_t i, int64_t position) {
        double want = 0;
        for (int r = 0; r < n; ++r)
          for (int64_t k = 0; k < inner; ++k)
            want += encode(r, position / inner * inner + k) * static_cast<double>(r + k * inner + position % inner);
        ASSERT_EQ(run.value(rank, "y", i), want) << position;
      });
    }
  }
}

TEST(Interpret, BetweenLaunchesInputsMayChange) {
  const Plan plan = cases::load("two_shot_symmetric");
  PlanSizes sizes;
  sizes.even = 21;
  PlanRun run(plan, 3, sizes);
  run.fill("x", encode);
  int calls = 0;
  run.run(how(4, 4), [&](int launch) {
    EXPECT_EQ(launch, calls++);
    run.each("y", [&](int rank, int64_t i, int64_t position) {
      ASSERT_EQ(run.value(rank, "y", i), sum_of_ranks(3, position) + 3.0 * launch);
    });
    run.fill("x", [&](int rank, int64_t i) { return encode(rank, i) + launch + 1; });
  });
  EXPECT_EQ(calls, 3);
  run.each("y", [&](int rank, int64_t i, int64_t position) {
    ASSERT_EQ(run.value(rank, "y", i), sum_of_ranks(3, position) + 9);
  });
}

// ---- errors
std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

void expect_refused(const std::string& text, const std::string& rule, const std::vector<std::string>& pieces) {
  PlanSizes sizes;
  sizes.even = 64;
  PlanRun run(parse(text), 3, sizes);
  run.fill("x", encode);
  for (uint64_t seed = 0; seed < 4; ++seed) {  // whatever the order
    try {
      run.run(how(seed));
      ADD_FAILURE() << "ran, expected " << rule;
    } catch (const Error& error) {
      EXPECT_EQ(error.rule(), rule) << error.what();
      for (const std::string& piece : pieces)
        EXPECT_NE(std::string(error.what()).find(piece), std::string::npos) << error.what();
    }
  }
}

TEST(Interpret, ReportsADeadlock) {
  expect_refused(with(cases::text("ring_all_reduce"), "slots 4", "slots 2"), "V8",
                 {"rank ", "lane main", "channel ", "waits for a free slot of its link main to rank"});
}
TEST(Interpret, ReportsAnUnwrittenRead) {
  expect_refused(with(cases::text("two_shot_private"), "    stage: x[0 : n] -> t[0 : n]", "    stage: x[0] -> t[0]"),
                 "V10", {"nobody wrote in this launch", "t@"});
}
TEST(Interpret, ReportsAMessageOfAnotherSize) {
  std::string text =
      with(cases::text("ring_all_reduce"), "fin: sum(<prev, x[r]) -> y[r], >next", "fin: sum(<prev, x[r]) -> y[r]");
  PlanSizes sizes;
  sizes.even = 64;
  PlanRun run(parse(text), 3, sizes);
  run.fill("x", encode);
  EXPECT_THROW(run.run(how(1)), Error);
}
TEST(Interpret, ReportsMissingBindings) {
  PlanSizes sizes;
  sizes.even = 8;
  PlanRun run(cases::load("ring_all_reduce"), 2, sizes);
  run.args[1].buffers[0] = std::monostate();
  EXPECT_THROW(run.run(how(1)), Error);
  run.args.pop_back();
  EXPECT_THROW(run.run(how(1)), Error);
}

TEST(Interpret, StridedAndSegmentedBuffersHoldTheSame) {
  const Plan plan = cases::load("ring_all_reduce");
  const SegmentTable table{{4, 0, 7, 13}};
  for (int n : {1, 3}) {
    PlanSizes sizes;
    sizes.even = 24;
    PlanRun run(plan, n, sizes);
    std::vector<std::vector<float>> strided(static_cast<size_t>(n), std::vector<float>(200, -1)),
        flat(static_cast<size_t>(n), std::vector<float>(24, -1));
    for (int r = 0; r < n; ++r) {
      LaunchArgs& args = run.args[static_cast<size_t>(r)];
      float *x = strided[static_cast<size_t>(r)].data(), *y = flat[static_cast<size_t>(r)].data();
      for (int64_t i = 0; i < 24; ++i) x[i / 4 * 30 + i % 4 * 2] = static_cast<float>(encode(r, i));
      args.buffers[0] = Strided{x, {6, 4}, {30, 2}};
      args.buffers[1] = Segments{{y, y + 4, y + 4, y + 11}};
      args.spaces[0].segments = &table;
    }
    run.run(how(2, 1));
    for (int r = 0; r < n; ++r)
      for (int64_t i = 0; i < 24; ++i)
        ASSERT_EQ(flat[static_cast<size_t>(r)][static_cast<size_t>(i)], sum_of_ranks(n, i));
  }
}

}  // namespace
}  // namespace weft::plan
