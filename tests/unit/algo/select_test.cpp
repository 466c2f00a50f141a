// The choice: worked figures of the literature, and what is preferred where.
#include "weft/algo/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "weft/algo/registry.h"
#include "weft/base/error.h"

namespace weft::algo {
namespace {

Machine network() {
  Machine machine;  // 5 us, 50 GB/s
  machine.folded_bytes_per_s = 1e18;
  return machine;
}

Wanted wanted(Collective collective, int ranks, double bytes, plan::Order order = plan::Order::any) {
  Wanted result;
  result.collective = collective;
  result.ranks = ranks;
  result.bytes = bytes;
  result.order = order;
  return result;
}

// collectives.md: alpha 5 us, B 50 GB/s, n = 64.
TEST(Select, WorkedFigures) {
  const CostRow all_gather = cost_row(ring(), wanted(Collective::all_gather, 64, 1e9), network());
  EXPECT_NEAR(all_gather.steps * 5e-6, 315e-6, 1e-9);
  EXPECT_NEAR(all_gather.bytes / 50e9, 19.7e-3, 0.05e-3);
  EXPECT_NEAR(all_gather.time_s, 315e-6 + 19.7e-3, 0.05e-3);
  const CostRow knee = cost_row(ring(), wanted(Collective::all_gather, 64, 16e6), network());
  EXPECT_NEAR(knee.steps * 5e-6, knee.bytes / 50e9, 1e-9);  // the two terms are equal at S = n alpha B
  const CostRow dispatch = cost_row(pairwise(), wanted(Collective::all_to_all, 64, 134217728.0), network());
  EXPECT_NEAR(dispatch.bytes, 132e6, 0.2e6);
  EXPECT_NEAR(dispatch.bytes / 50e9, 2.6e-3, 0.05e-3);
}

TEST(Select, BruckBeatsPairwiseBelowSevenMegabytes) {
  EXPECT_EQ(select(wanted(Collective::all_to_all, 64, 6.9e6), network()).name(), "bruck");
  EXPECT_EQ(select(wanted(Collective::all_to_all, 64, 7.2e6), network()).name(), "pairwise");
}

// Small: few steps. Large: least bytes.
TEST(Select, LogarithmicSmallAndLeastBytesLarge) {
  for (const int n : {8, 12, 16, 64, 100})
    for (const Collective c : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                               Collective::broadcast, Collective::reduce}) {
      const CostRow small = cost_rows(wanted(c, n, 64), network()).front();
      EXPECT_LE(small.steps, 2 * std::ceil(std::log2(n)) + 1)
          << name(c) << " n " << n << " " << small.algorithm->name();
      const CostRow large = cost_rows(wanted(c, n, 4e10), network()).front();
      const double least = c == Collective::all_reduce                             ? 2 * (n - 1.0) / n
                           : c == Collective::broadcast || c == Collective::reduce ? 1
                                                                                   : (n - 1.0) / n;
      EXPECT_NEAR(large.bytes / 4e10, least, 1e-9) << name(c) << " n " << n << " " << large.algorithm->name();
      EXPECT_LE(small.steps, large.steps) << name(c);
    }
  EXPECT_EQ(select(wanted(Collective::all_reduce, 64, 8), network()).name(), "doubling");
  EXPECT_EQ(select(wanted(Collective::broadcast, 64, 8), network()).name(), "binomial");
}

// Every order is the least that is kept, and rank order is the default.
TEST(Select, KeepsTheOrderAskedFor) {
  for (const double bytes : {8.0, 1e5, 1e9})
    for (const Collective c : {Collective::all_reduce, Collective::reduce_scatter, Collective::reduce})
      for (const plan::Order order : {plan::Order::rank, plan::Order::fixed, plan::Order::any})
        for (const CostRow& row : cost_rows(wanted(c, 16, bytes, order), network()))
          EXPECT_LE(row.algorithm->order(), order) << row.algorithm->name();
  EXPECT_EQ(Wanted().order, plan::Order::rank);
}

TEST(Select, HierarchicalWhereHostsAreFarApart) {
  Machine machine = network();
  machine.bytes_per_s = 5e9;
  machine.host_ranks = 8;
  EXPECT_EQ(select(wanted(Collective::all_reduce, 64, 1e9), machine).name(), "hierarchical:8");
  EXPECT_EQ(select(wanted(Collective::all_reduce, 64, 8), machine).name(), "doubling");
  for (const CostRow& row : cost_rows(wanted(Collective::all_reduce, 60, 1e9), machine))
    EXPECT_NE(row.algorithm->name(), "hierarchical:8") << "60 ranks are no hosts of 8";
}

TEST(Select, MappedMemoryWhereThereIsSome) {
  Machine machine = network();
  machine.mapped = true;
  EXPECT_TRUE(select(wanted(Collective::all_reduce, 4, 1e6), machine).needs_mapped());
  machine.mapped = false;
  for (const CostRow& row : cost_rows(wanted(Collective::all_reduce, 4, 1e6), machine))
    EXPECT_FALSE(row.algorithm->needs_mapped());
}

TEST(Select, PureAndSortedAndWithoutTheYardstick) {
  for (const double bytes : {0.0, 1e3, 1e7}) {
    const std::vector<CostRow> a = cost_rows(wanted(Collective::all_reduce, 12, bytes), network());
    const std::vector<CostRow> b = cost_rows(wanted(Collective::all_reduce, 12, bytes), network());
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].algorithm, b[i].algorithm);
      EXPECT_NE(a[i].algorithm->name(), "gather");
      EXPECT_LE(a[i > 0 ? i - 1 : 0].time_s, a[i].time_s);
    }
  }
}

TEST(Select, SaysWhatIsMissing) {
  Wanted asked = wanted(Collective::broadcast, 4, 1e3);
  asked.counts = Counts::given;
  try {
    select(asked, network());
    FAIL() << "a broadcast has no counts for each part";
  } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::unsupported); }
}

}  // namespace
}  // namespace weft::algo
