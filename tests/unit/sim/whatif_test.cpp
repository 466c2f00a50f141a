// The product of axes, what each means, and what is refused.
#include "weft/sim/whatif.h"

#include <gtest/gtest.h>

#include "tests/support/source_dir.h"
#include "weft/base/error.h"

namespace weft::sim {
namespace {

topo::Cluster dgx(int nodes = 1) {
  topo::Cluster c = topo::read_cluster(std::filesystem::path(checkout_dir()) / "machines" / "dgx_h100.toml");
  c.nodes = nodes;
  return c;
}

std::vector<WhatIfPoint> ask(const std::vector<std::string>& texts, int nodes = 1, int64_t bytes = 1 << 24) {
  std::vector<Axis> axes;
  for (const std::string& text : texts) axes.push_back(parse_axis(text));
  return what_if(dgx(nodes), {NcclCollective::all_reduce, 8 * nodes, bytes}, axes, {}, false);
}

TEST(WhatIf, AxesAreParsed) {
  EXPECT_EQ(parse_axis("channels=1..32").values, (std::vector<std::string>{"1", "2", "4", "8", "16", "32"}));
  EXPECT_EQ(parse_axis("nodes=3..20").values, (std::vector<std::string>{"3", "6", "12", "20"}));
  EXPECT_EQ(parse_axis("channels=2,7").values.size(), 2u);
  EXPECT_EQ(parse_axis("algo=ring,weft:halving,weft").values.size(), 3u);
  for (const char* text : {"",
                           "channels",
                           "channels=",
                           "channels=0",
                           "channels=65",
                           "channels=8..4",
                           "channels=x2",
                           "colour=red",
                           "algo=rings",
                           "algo=weft:nothing",
                           "proto=LL256",
                           "proto=PAT",
                           "nic_bw=0",
                           "nic_bw=x",
                           "nic_bw=x1z",
                           "nic_bw=-1",
                           "nic_bw=nan",
                           "nic_latency=inf",
                           "size=many",
                           "nodes=1..",
                           "nodes=..4",
                           "nodes=1,,2"})
    EXPECT_THROW(parse_axis(text), Error) << text;
}

TEST(WhatIf, TheProductInOrder) {
  const auto points = ask({"algo=ring,tree", "proto=LL,LL128,Simple"});
  ASSERT_EQ(points.size(), 6u);
  EXPECT_EQ(points[4].at, (std::vector<size_t>{1, 1}));
  EXPECT_EQ(points[4].runs.rfind("NCCL Tree LL128", 0), 0u);
  for (const WhatIfPoint& p : points) {
    EXPECT_TRUE(p.impossible.empty());
    EXPECT_GE(p.us, p.limit.us);
    EXPECT_FALSE(p.bound.empty());
  }
}

TEST(WhatIf, FiguresScale) {
  const auto points = ask({"algo=ring", "proto=Simple", "nic_bw=x1,x2,100"}, 4, 1 << 30);
  EXPECT_LT(points[1].us, 0.7 * points[0].us);
  EXPECT_DOUBLE_EQ(points[1].us, points[2].us);  // the machine has 50
  const auto latency = ask({"nic_latency=x1,5.4", "algo=weft:ring", "proto=LL"}, 2, 4096);
  EXPECT_NEAR(latency[1].us - latency[0].us, 4 * 2.7, 0.1);  // twice around the ring, two hops between nodes
}

TEST(WhatIf, ChannelsBoundTheBandwidth) {
  const auto points = ask({"channels=1..16", "algo=ring", "proto=Simple"}, 1, 1 << 30);
  for (size_t i = 1; i < points.size(); ++i) EXPECT_LE(points[i].us, points[i - 1].us);
  EXPECT_GT(points[0].us, 5 * points.back().us);
  const auto plans = ask({"channels=1,2,4", "algo=weft:ring", "proto=Simple"}, 1, 1 << 26);
  EXPECT_GT(plans[0].us, 1.5 * plans[1].us);
  EXPECT_EQ(plans[0].bound, "channel");
}

TEST(WhatIf, WhatCannotBeSaysWhy) {
  const auto points = ask({"algo=nvls,nvlstree,weft:direct,weft:halving", "nodes=2"});
  EXPECT_FALSE(points[0].impossible.empty());
  EXPECT_TRUE(points[1].impossible.empty());
  EXPECT_EQ(points[2].impossible, "it maps peers' memory, which nodes do not share");
  EXPECT_TRUE(points[3].impossible.empty());
  EXPECT_EQ(points[3].question.ranks, 16);
  EXPECT_THROW(ask({"algo=ring", "algo=tree"}), Error);
  EXPECT_THROW(
      ask({"channels=1..64", "nodes=1..262144", "size=1..1048576", "gpu_bw=x1,x2,x3", "proto=LL,Simple,LL128"}), Error);
}

}  // namespace
}  // namespace weft::sim
