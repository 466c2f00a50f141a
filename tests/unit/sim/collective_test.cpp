// What `weft sim` says of a collective: rounding, bounds that nothing passes, NCCL's choice, and simulated plans.
#include "weft/sim/collective.h"

#include <gtest/gtest.h>

#include "tests/support/source_dir.h"
#include "weft/base/error.h"

namespace weft::sim {
namespace {

topo::Cluster machine(const char* name, int nodes = 1) {
  topo::Cluster c =
      topo::read_cluster(std::filesystem::path(checkout_dir()) / "machines" / fmt::format("{}.toml", name));
  c.nodes = nodes;
  return c;
}

constexpr NcclCollective all[] = {
    NcclCollective::all_reduce, NcclCollective::all_gather, NcclCollective::reduce_scatter, NcclCollective::broadcast,
    NcclCollective::reduce,     NcclCollective::all_to_all, NcclCollective::send_recv};

TEST(Collective, SizesAreRoundedAsNcclTestsDoes) {
  EXPECT_EQ(rounded_bytes(NcclCollective::all_reduce, 8, 1001, Dtype::f32), 1000);
  EXPECT_EQ(rounded_bytes(NcclCollective::all_gather, 8, 1001, Dtype::f32), 992);
  EXPECT_EQ(rounded_bytes(NcclCollective::all_to_all, 3, 7, Dtype::f32), 0);
}

TEST(Collective, RanksFillNodes) {
  const topo::Cluster c = machine("dgx_h100", 4);
  EXPECT_EQ(nodes_of(c, 8), 1);
  EXPECT_EQ(nodes_of(c, 12), 2);
  EXPECT_EQ(nodes_of(c, 32), 4);
  EXPECT_THROW(nodes_of(c, 33), Error);
  EXPECT_THROW(nodes_of(c, 9), Error);  // 5 and 4
  EXPECT_THROW(nodes_of(c, 0), Error);
}

// Neither NCCL's prediction nor a simulated plan is ever faster than the bytes that have to cross.
TEST(Collective, NothingPassesTheBound) {
  for (const auto& [name, nodes] : {std::pair{"dgx_h100", 1}, {"dgx_h100", 3}, {"polaris", 8}, {"l40s_pcie", 1}}) {
    const topo::Cluster c = machine(name, nodes);
    for (const NcclCollective collective : all)
      for (const int64_t bytes : {int64_t{0}, int64_t{4096}, int64_t{1} << 20, int64_t{1} << 28}) {
        Question q{collective, c.nodes * c.gpus_per_node};
        q.bytes = rounded_bytes(collective, q.ranks, bytes, q.dtype);
        const Limit limit = lower_bound(c, q);
        EXPECT_GE(nccl_answer(c, q).us, limit.us) << name << ' ' << bytes;
        const auto plan = weft_answer(c, q);
        ASSERT_TRUE(plan) << name << ' ' << static_cast<int>(collective);
        EXPECT_GE(plan->us, 0.999 * limit.us)
            << name << ' ' << static_cast<int>(collective) << ' ' << bytes << ' ' << plan->choice.algorithm->name();
        EXPECT_FALSE(plan->bound.empty());
      }
  }
}

TEST(Collective, BoundsSayWhatSetsThem) {
  const topo::Cluster one = machine("dgx_a100"), four = machine("dgx_a100", 4);
  EXPECT_EQ(lower_bound(one, {NcclCollective::all_reduce, 8, 8}).by, "launch");
  EXPECT_EQ(lower_bound(one, {NcclCollective::all_reduce, 8, int64_t{1} << 30}).by, "nvlink");
  EXPECT_EQ(lower_bound(four, {NcclCollective::all_to_all, 32, int64_t{1} << 30}).by, "network");
  // all_reduce of S over m nodes with g ways each: 2 (m-1)/m S / g a way.
  const double us = lower_bound(four, {NcclCollective::all_reduce, 32, int64_t{1} << 30}).us;
  EXPECT_NEAR(us, four.inter.latency_ns / 1000 + 1.5 * (int64_t{1} << 30) / (1000 * 8 * four.inter.gb_per_s), 1e-6);
}

// Where memory is what there is least of: an all_reduce reads and writes S, a broadcast's GPUs do one of both.
TEST(Collective, MemoryIsChargedForWhatItHolds) {
  topo::Cluster slow = machine("dgx_a100");
  slow.memory_gb_per_s = 1;
  const int64_t bytes = int64_t{1} << 30;
  const double once = static_cast<double>(bytes) / 1000;
  const auto us = [&](NcclCollective collective) { return lower_bound(slow, {collective, 8, bytes}).us; };
  EXPECT_DOUBLE_EQ(us(NcclCollective::all_reduce), 2 * once);
  EXPECT_DOUBLE_EQ(us(NcclCollective::all_gather), 1.125 * once);
  EXPECT_DOUBLE_EQ(us(NcclCollective::broadcast), once);
  slow.nodes = slow.gpus_per_node = 1 << 24;  // more GPUs than an int counts
  EXPECT_NO_THROW(nodes_of(slow, 1 << 24));
}

TEST(Collective, ChannelsAndThreadsOfALaunch) {
  const NcclMachine m = nccl_machine(machine("dgx_a100"));
  NcclJob job;
  NcclChoice ring;
  job.bytes = 1 << 30;
  EXPECT_EQ(nccl_launch(m, job, ring).channels, 24);  // the search finds 12, which are doubled
  EXPECT_EQ(nccl_launch(m, job, ring).threads, 512);
  EXPECT_EQ(nccl_launch(m, job, ring, {0, 4}).channels, 4);
  EXPECT_EQ(nccl_launch(m, job, ring, {30, 0}).channels, 30);
  job.bytes = 8;
  EXPECT_EQ(nccl_launch(m, job, ring).channels, 1);
  EXPECT_EQ(nccl_launch(m, job, ring).threads, 64);
  EXPECT_EQ(nccl_launch(m, job, ring, {6, 0}).channels, 6);
  std::vector<NcclChoice> table = nccl_table(m, job), limited = table;
  nccl_limit(limited, m, job, {0, 3});
  EXPECT_DOUBLE_EQ(limited[0].bandwidth, table[0].bandwidth / 4);
}

// Across nodes the proxies bound a step within a node; the double tree of switches has its own name.
TEST(Collective, AcrossNodes) {
  NcclMachine m = nccl_machine(machine("dgx_h100", 2));
  NcclJob job;
  job.ranks = 16, job.nodes = 2, job.bytes = 64;
  const auto ring = [&] {
    for (const NcclChoice& c : nccl_table(m, job))
      if (c.algorithm == NcclAlgorithm::ring && c.protocol == NcclProtocol::ll) return c.intra_us;
    return 0.;
  };
  EXPECT_NEAR(ring(), 28 * 1.0, 1e-9);  // not 28 x 0.6
  m.amd_cpu = true;
  EXPECT_NEAR(ring(), 28 * 2.0, 1e-9);
  const auto tree = nccl_table(m, job, nccl_filter("NVLSTree", "", job.collective));
  ASSERT_EQ(tree.size(), 1u);
  EXPECT_EQ(name(tree[0].algorithm), "NVLSTree");
  EXPECT_TRUE(nccl_table(m, job, nccl_filter("NVLS", "", job.collective)).empty());
  EXPECT_THROW(nccl_filter("", "PAT", job.collective), Error);  // no protocol
}

TEST(Collective, WishesAreKept) {
  const topo::Cluster c = machine("dgx_a100");
  const Question q{NcclCollective::all_reduce, 8, 1 << 20};
  NcclWishes wishes;
  wishes.algo = "tree", wishes.proto = "simple";
  const NcclAnswer a = nccl_answer(c, q, wishes);
  EXPECT_EQ(a.choice->algorithm, NcclAlgorithm::tree);
  EXPECT_EQ(a.choice->protocol, NcclProtocol::simple);
  wishes.algo = "nvls";  // an A100 has none
  EXPECT_THROW(nccl_answer(c, q, wishes), Error);
  EXPECT_FALSE(nccl_answer(c, {NcclCollective::all_to_all, 8, 1 << 20}).choice);
}

// A family's protocol decides its messages' costs; channels share a GPU.
TEST(Collective, NetworkOfAPlan) {
  const topo::Cluster c = machine("dgx_h100");
  algo::PlanRequest request;
  request.channels = 4;
  request.protocol = plan::Protocol::ll;
  const plan::Instance ll(algo::make_plan(*algo::find_algorithm("ring"), request), 8);
  const Network n = network_of(c, ll);
  EXPECT_EQ(n.costs[n.route(0, 0, 0, 1).cost].wire, 2);
  EXPECT_DOUBLE_EQ(n.step.read_ns_per_byte, 4 / c.memory_gb_per_s);
  request.protocol = plan::Protocol::simple;
  const plan::Instance simple(algo::make_plan(*algo::find_algorithm("ring"), request), 8);
  EXPECT_EQ(network_of(c, simple).costs[network_of(c, simple).route(0, 0, 0, 1).cost].latency_ns, 600 + 2800);
}

}  // namespace
}  // namespace weft::sim
