// period(): what it claims is checked against the walks themselves.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>

#include "tests/unit/plan/cases.h"
#include "weft/plan/walk.h"

namespace weft::plan {
namespace {

// What rank r does, with peers seen from r: counts, labels, distances. Ranges below and above r count together.
std::string shape(const Instance& in, int rank, int lane, int channel) {
  std::string out;
  const int n = in.ranks();
  FlatStep s;
  for (Walk walk(in, rank, lane, channel); walk.next_block();) {
    out += walk.block().loop ? "loop" : "once";
    while (walk.next(s)) {
      out += fmt::format(" {}:{}:", s.source_step, s.kernel);
      for (const int64_t i : s.index) out += fmt::format("({})", i);
      std::map<std::string, std::vector<int>> peers;  // per operand kind and name, as distances
      for (const FlatOperand& o : s.operands)
        for (int i = 0; i < o.peer_count; ++i)
          peers[fmt::format("{}/{}/{}/{}", static_cast<int>(o.kind), o.name, o.part_count, o.part_by)].push_back(
              (o.peer_first + i - rank + 2 * n) % n);
      for (auto& [what, list] : peers) {
        std::sort(list.begin(), list.end());
        out += fmt::format(" {}[", what);
        for (const int d : list) out += fmt::format("{} ", d);
        out += "]";
      }
      for (const FlatAwait& a : s.after) {
        out += fmt::format(" after {}.{}-{} from {}:", a.lane, a.label, a.lag, a.channel_first);
        std::vector<int> list;
        for (int i = 0; i < a.peer_count; ++i) list.push_back((a.peer_first + i - rank + 2 * n) % n);
        std::sort(list.begin(), list.end());
        for (const int d : list) out += fmt::format(" {}", d);
        for (const int64_t i : a.index) out += fmt::format("({})", i);
      }
    }
  }
  return out;
}

bool repeats(const Instance& in, int64_t g) {
  for (int rank = 0; rank < in.ranks(); ++rank)
    for (int lane = 0; lane < static_cast<int>(in.plan().lanes.size()); ++lane)
      for (int channel = 0; channel < in.channels(); ++channel)
        if (shape(in, rank, lane, channel) != shape(in, static_cast<int>((rank + g) % in.ranks()), lane, channel))
          return false;
  return true;
}

TEST(Period, OfTheCases) {
  const std::map<std::string, std::function<int64_t(int64_t)>> expected = {
      {"ring_all_reduce", [](int64_t) { return 1; }},
      {"fused_ring_adam", [](int64_t) { return 1; }},
      {"fused_ring_lamb", [](int64_t) { return 1; }},
      {"pairwise_two_shot_all_reduce", [](int64_t) { return 1; }},
      {"mesh_one_shot_all_reduce", [](int64_t) { return 1; }},
      {"one_shot_private", [](int64_t) { return 1; }},
      {"two_shot_symmetric", [](int64_t) { return 1; }},
      {"pat_all_gather", [](int64_t) { return 1; }},
      {"bruck_all_to_all", [](int64_t) { return 1; }},
      {"matmul_ring_all_reduce", [](int64_t) { return 1; }},
      {"moe_dispatch_gemm_combine", [](int64_t) { return 1; }},
      {"barrier_dissemination", [](int64_t) { return 1; }},
      {"hierarchical_all_reduce", [](int64_t) { return 4; }},
      {"chain_all_reduce", [](int64_t n) { return n; }},
      {"double_tree_all_reduce", [](int64_t n) { return n; }},
  };
  for (const auto& [name, of] : expected)
    for (const int n : {8, 12, 16}) {
      const Instance in(cases::load(name), n);
      EXPECT_EQ(period(in), of(n)) << name << " n=" << n;
    }
}

TEST(Period, IsTrueOfTheWalks) {
  for (const std::string& name : cases::names())
    for (const int n : {1, 2, 4, 6, 8, 12}) {
      SCOPED_TRACE(fmt::format("{} n={}", name, n));
      std::unique_ptr<Instance> in;
      try {
        in = std::make_unique<Instance>(cases::load(name), n);
      } catch (const Error&) {
        continue;  // `require` says no
      }
      const int64_t g = period(*in);
      EXPECT_EQ(n % g, 0);
      EXPECT_TRUE(repeats(*in, g));
    }
}

int64_t period_of(const std::string& text, int n) {
  return period(Instance(
      parse("plan 1 p\nspace s parts n even\nbuffer x s f32 in mapped\nlink main simple slots 1\n" + text), n));
}

TEST(Period, WhatBreaksIt) {
  EXPECT_EQ(period_of("lane main:\n  x[r] -> >r+1\n", 12), 1);
  EXPECT_EQ(period_of("lane main:\n  x[r] -> >0\n", 12), 12);  // one root
  EXPECT_EQ(period_of("lane main:\n  when r % 3 == 1:\n    x[r] -> >r+1\n", 12), 3);
  EXPECT_EQ(period_of("lane main:\n  when r / 4 == 1:\n    x[r] -> >r+1\n", 12), 12);
  EXPECT_EQ(period_of("lane main:\n  for j in 0..r % 6:\n    x[r] -> >r+1\n", 12), 6);
  EXPECT_EQ(period_of("lane main:\n  for j in 0..r:\n    x[r] -> >r+1\n", 12), 12);
  EXPECT_EQ(period_of("lane main:\n  x[r] -> >0..r, >r+1..n\n", 12), 1);  // all others
  EXPECT_EQ(period_of("lane main:\n  x[r] -> >0..r\n", 12), 12);          // not all others
  EXPECT_EQ(period_of("lane main:\n  x[r] -> >(r/4)*4 + (r+1) % 4\n", 12), 4);
  EXPECT_EQ(period_of("let t = sel(c == 0, r+1, r-1)\nchannels 2\nlane main:\n  x[r] -> >t\n", 12), 1);
  EXPECT_EQ(period_of("let t = sel(r % 2 == 0, r+1, none)\nlane main:\n  x[r] -> >t\n", 12), 2);
  EXPECT_EQ(period_of("table t[n] = 1 2 3 0\nlane main:\n  x[r] -> >t[r]\n", 4), 4);
  EXPECT_EQ(period_of("lane main:\n  a:\n  b: after a@0..n\n", 12), 1);
  EXPECT_EQ(period_of("lane main:\n  a:\n  b: after a@0..5\n", 12), 12);
  EXPECT_EQ(period_of("lane main:\n  x[0 : r] -> x[0 : r]\n", 12), 12);
  EXPECT_EQ(period_of("lane main:\n  when n / 0 == 1 and r > 3:\n    x[r] -> >r+1\n", 12),
            12);  // cannot be read: no claim
}

TEST(Period, OfManyRanksIsQuick) {
  EXPECT_EQ(period(Instance(cases::load("ring_all_reduce"), 16384)), 1);
  EXPECT_EQ(period(Instance(cases::load("hierarchical_all_reduce"), 16384)), 4);
  EXPECT_EQ(period(Instance(cases::load("chain_all_reduce"), 16384)), 16384);
}

}  // namespace
}  // namespace weft::plan
