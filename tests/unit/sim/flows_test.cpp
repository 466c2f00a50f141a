// Max-min fair rates against the definition, fabrics' routes, and messages that share links.
#include "weft/sim/flows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "weft/base/error.h"
#include "weft/plan/plan.h"
#include "weft/sim/sim.h"

namespace weft::sim {
namespace {

TEST(Flows, TwoShareALink) {
  FlowNetwork net({10, 4});
  const std::vector<uint32_t> both = {0, 1}, first = {0};
  const uint32_t a = net.start(0, both, 100), b = net.start(0, first, 100);
  EXPECT_DOUBLE_EQ(net.rate(a), 4);
  EXPECT_DOUBLE_EQ(net.rate(b), 6);
  EXPECT_DOUBLE_EQ(net.next_ns(), 100. / 6);
  std::vector<uint32_t> over;
  net.take_completed(100. / 6, over);
  EXPECT_EQ(over, std::vector<uint32_t>{b});
  EXPECT_DOUBLE_EQ(net.rate(a), 4);
  const uint32_t c = net.start(20, both, 10);
  EXPECT_DOUBLE_EQ(net.rate(a), 2);
  EXPECT_DOUBLE_EQ(net.rate(c), 2);
  EXPECT_NEAR(net.next_ns(), 25, 1e-9);  // a has 20 left, c 10
  net.take_completed(25, over);
  EXPECT_EQ(over, std::vector<uint32_t>{c});
  EXPECT_NEAR(net.next_ns(), 25 + 10. / 4, 1e-9);
}

TEST(Flows, WithoutLinksItIsOverAtOnce) {
  FlowNetwork net({1});
  net.start(5, {}, 1e9);
  EXPECT_DOUBLE_EQ(net.next_ns(), 5);
  EXPECT_THROW(FlowNetwork({0}), Error);
  const std::vector<uint32_t> unknown = {3};
  EXPECT_THROW(net.start(6, unknown, 1), Error);
}

std::vector<std::unique_ptr<Fabric>> fabrics() {
  std::vector<std::unique_ptr<Fabric>> list;
  list.push_back(make_switch(16, 10));
  list.push_back(make_fat_tree({4, 4}, {1, 2}, {10, 10}));
  list.push_back(make_fat_tree({4, 2, 4}, {1, 2, 2}, {10, 7, 5}));
  list.push_back(make_dragonfly({5, 2, 3, 2, 10, 7, 4}));
  list.push_back(make_torus({4, 3, 2}, 8));
  list.push_back(make_rails(4, 4, 30, 5));
  return list;
}

// Comings and goings in random order; after each the rates are those of the definition.
TEST(Flows, RatesAreTheDefinitions) {
  std::mt19937 random(7);
  for (const auto& fabric : fabrics()) {
    FlowNetwork net(fabric->capacities());
    std::map<uint32_t, std::vector<uint32_t>> active;
    double now = 0;
    std::vector<uint32_t> over;
    for (int event = 0; event < 400; ++event) {
      const bool come = active.size() < 3 || (active.size() < 60 && random() % 2);
      if (come) {
        std::vector<uint32_t> route;
        const int from = static_cast<int>(random()) & 0xfff, to = static_cast<int>(random() >> 8) & 0xfff;
        fabric->route(from % fabric->hosts(), to % fabric->hosts(), route);
        if (route.empty()) continue;
        active[net.start(now, route, 1 + random() % 1000)] = route;
      } else {
        now = net.next_ns();
        net.take_completed(now, over);
        ASSERT_FALSE(over.empty());
        for (const uint32_t flow : over) active.erase(flow);
      }
      std::vector<std::vector<uint32_t>> routes;
      for (const auto& [flow, route] : active) routes.push_back(route);
      const std::vector<double> wanted = max_min_rates(fabric->capacities(), routes);
      size_t i = 0;
      for (const auto& [flow, route] : active) {
        ASSERT_NEAR(net.rate(flow), wanted[i], 1e-6 * wanted[i]) << "event " << event << " flow " << flow;
        ++i;
      }
    }
  }
}

TEST(Fabric, RoutesAreMinimalAndTheirOwn) {
  for (const auto& fabric : fabrics())
    for (int from = 0; from < fabric->hosts(); ++from)
      for (int to = 0; to < fabric->hosts(); ++to) {
        std::vector<uint32_t> route;
        fabric->route(from, to, route);
        EXPECT_EQ(route.empty(), from == to);
        std::map<uint32_t, int> seen;
        for (const uint32_t link : route) {
          ASSERT_LT(link, fabric->capacities().size());
          EXPECT_EQ(++seen[link], 1);
        }
        EXPECT_LE(route.size(), 8u);
      }
}

// What is known of each: hops, and which ways are shared.
TEST(Fabric, Shapes) {
  const auto hops = [](const Fabric& f, int a, int b) {
    std::vector<uint32_t> route;
    f.route(a, b, route);
    return route.size();
  };
  const auto tree = make_fat_tree({4, 2, 4}, {1, 2, 2}, {10, 7, 5});
  EXPECT_EQ(tree->hosts(), 32);
  EXPECT_EQ(hops(*tree, 0, 3), 2u);
  EXPECT_EQ(hops(*tree, 0, 7), 4u);
  EXPECT_EQ(hops(*tree, 0, 31), 6u);
  const auto torus = make_torus({4, 3, 2}, 8);
  EXPECT_EQ(hops(*torus, 0, 3), 1u);  // round the end
  EXPECT_EQ(hops(*torus, 0, 2 + 4 + 12), 4u);
  const auto dragonfly = make_dragonfly({5, 2, 3, 2, 10, 7, 4});
  EXPECT_EQ(dragonfly->hosts(), 30);
  EXPECT_LE(hops(*dragonfly, 0, 29), 5u);
  const auto rails = make_rails(4, 4, 30, 5);
  EXPECT_EQ(hops(*rails, 0, 3), 2u);
  EXPECT_EQ(hops(*rails, 0, 4), 2u);  // the same rail
  EXPECT_EQ(hops(*rails, 0, 5), 4u);  // over the neighbour on that rail
  EXPECT_THROW(make_dragonfly({10, 2, 1, 2, 1, 1, 1}), Error);
  EXPECT_THROW(make_fat_tree({2}, {1, 1}, {1}), Error);
  EXPECT_THROW(make_torus({}, 1), Error);
  EXPECT_THROW(make_switch(4, 0), Error);
}

Prediction run(const std::string& text, int ranks, int64_t elements, const Network& network) {
  const plan::Instance instance(plan::parse(text), ranks);
  std::vector<plan::SpaceExtent> spaces(instance.plan().spaces.size());
  spaces[0].extent = plan::Cut{1, elements, 1};
  return simulate(instance, spaces, {}, network);
}

const char* const incast = R"(plan 1 incast
order any
round hops
channels 1
space s parts n even
buffer x s f32 in
buffer y s f32 out
link main simple slots 4
lane main:
  loop s:
    when r > 0:
      put: x[r] -> >0
    when r == 0:
      for p in 1..n:
        get: <p -> y[p]
)";

// Three send 4,000 bytes to one over a switch: its link down is shared, so all end at 3 x 4,000 / 10.
TEST(Shared, IncastSharesTheLastLink) {
  Network net;
  net.costs = {{1000, 0, 0, 0, 0, 0}};
  net.fabric = make_switch(4, 10);
  EXPECT_NEAR(run(incast, 4, 4000, net).end_ns, 1200 + 1000, 0.01);
  EXPECT_NEAR(run(incast, 2, 2000, net).end_ns, 400 + 1000, 0.01);
  net.fabric = make_switch(3, 10);
  EXPECT_THROW(run(incast, 4, 4000, net), Error);
}

// Messages of one connection follow each other: five of 400 bytes take as long as one of 2,000.
TEST(Shared, ConnectionsKeepTheirOrder) {
  const std::string text = R"(plan 1 pipe
order any
round hops
require n == 2
channels 1
space s parts 5 even
buffer x s f32 in
buffer y s f32 out
link main simple slots 8
lane main:
  loop s:
    when r == 0:
      for p in 0..5:
        put: x[p] -> >1
    when r == 1:
      for p in 0..5:
        get: <0 -> y[p]
)";
  Network net;
  net.costs = {{1000, 0, 0, 0, 0, 0}};
  net.fabric = make_switch(2, 10);
  const Prediction p = run(text, 2, 500, net);
  EXPECT_EQ(p.messages, 5u);
  EXPECT_NEAR(p.end_ns, 200 + 1000, 0.02);
}

}  // namespace
}  // namespace weft::sim
