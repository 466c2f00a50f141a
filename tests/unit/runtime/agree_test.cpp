// Interpreter and runtime agree, bit for bit, on every plan of tests/cases/plan: threads and processes, 1 to 8 ranks,
// sizes around the borders of chunks, several launches, with and without random delays between steps.
#include "tests/unit/runtime/harness.h"

namespace weft::runtime::test {
namespace {

struct Case {
  const char* plan;
  std::function<bool(int)> admits = [](int) { return true; };
  std::map<std::string, std::string> params;
  bool in_place = true;
};

const plan::SegmentTable& segments_of(int64_t elements) {
  static std::map<int64_t, plan::SegmentTable> tables;
  plan::SegmentTable& table = tables[elements];
  if (!table.lengths.empty()) return table;
  int64_t rest = elements;
  for (int64_t length : {5, 1, 0, 9, 20, 64}) {
    table.lengths.push_back(std::min(length, rest));
    rest -= table.lengths.back();
  }
  table.lengths.push_back(rest);
  return table;
}

expr::ScalarValue scalar(const std::string& name) {
  if (name == "rows" || name == "cols") return {true, 2, 2};
  if (name == "step") return {true, 3, 3};
  return {false, 0, name == "lr" ? 0.125 : 1.0};
}

int64_t pair_count(int from, int to) { return (from * 5 + to * 3) % 7 == 0 ? 0 : (from * 5 + to * 3) % 7 * 4 - 3; }

// Counts of what arrives are read when the loop begins: they come over a link.
Sizes moe_sizes(const plan::Plan& plan, int ranks, Sizes sizes) {
  sizes.per_rank = [&plan, ranks, spaces = sizes.spaces](int rank) {
    std::vector<plan::SpaceExtent> list = spaces;
    plan::Given send;
    for (int q = 0; q < ranks; ++q) send.counts.push_back(2 * pair_count(rank, q));
    list[static_cast<size_t>(plan::find_space(plan, "a"))].extent = send;
    list[static_cast<size_t>(plan::find_space(plan, "b"))].extent = plan::OnDevice{};
    return list;
  };
  sizes.values["cs"] = [](int rank, int64_t q) {
    return static_cast<double>(2 * pair_count(rank, static_cast<int>(q)));
  };
  return sizes;
}

Sizes sizes_for(const plan::Plan& plan, const Case& c, int ranks, int64_t elements) {
  const plan::Instance instance(plan, ranks, c.params);
  Sizes sizes;
  sizes.params = c.params;
  const bool tiles = plan::find_kernel(plan, "mm") >= 0;
  if (tiles) elements = 2 * ranks * (elements % 5);  // shares are whole rows of a product
  for (const plan::Id& name : plan::launch_scalars(plan)) sizes.scalars.push_back(scalar(name));
  bool given = false;
  for (size_t s = 0; s < plan.spaces.size(); ++s) {
    const plan::Space& space = plan.spaces[s];
    plan::SpaceExtent extent;
    if (space.kind == plan::Space::Kind::even)
      extent.extent = tiles ? plan::Cut{1, elements, 2} : plan::Cut{1, elements, 1};
    if (space.kind == plan::Space::Kind::equal) extent = flat(elements / 4 * instance.parts(static_cast<int>(s)));
    if (space.kind == plan::Space::Kind::fixed && instance.fixed_count(static_cast<int>(s)) < 0 &&
        space.derived == plan::Space::Derived::no)
      extent = flat(tiles ? 4 : 1);
    for (const plan::Space& other : plan.spaces)
      if (other.derived == plan::Space::Derived::segment && other.of == space.name)
        extent.segments = &segments_of(elements);
    given |= space.kind == plan::Space::Kind::given;
    sizes.spaces.push_back(extent);
    sizes.chunk_elements.push_back(tiles ? 4 : 24);
  }
  if (given && plan.name == "moe_dispatch_gemm_combine") return moe_sizes(plan, ranks, sizes);
  if (given)
    sizes.per_rank = [ranks](int rank) {
      plan::Given send, receive;
      for (int q = 0; q < ranks; ++q)
        send.counts.push_back(pair_count(rank, q)), receive.counts.push_back(pair_count(q, rank));
      return std::vector<plan::SpaceExtent>{{send, std::nullopt, nullptr}, {receive, std::nullopt, nullptr}};
    };
  return sizes;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {"all_gather_matmul"},
      {"barrier_dissemination"},
      {"bruck_all_to_all"},
      {"chain_all_reduce"},
      {"double_tree_all_reduce"},
      {"fused_ring_adam"},
      {"fused_ring_lamb"},
      {"hierarchical_all_reduce", [](int n) { return n % 2 == 0 && n > 2; }, {{"g", "2"}}},
      {"matmul_reduce_scatter"},
      {"matmul_ring_all_reduce"},
      {"mesh_one_shot_all_reduce"},
      {"moe_dispatch_gemm_combine"},
      {"one_shot_private"},
      {"one_shot_symmetric"},
      {"pairwise_all_to_all_v"},
      {"pairwise_two_shot_all_reduce"},
      {"pat_all_gather"},
      {"reduce_scatter_clip_sgd_all_gather"},
      {"reduce_scatter_send_all_gather", [](int n) { return n % 2 == 0; }, {{"k", "2"}}},
      {"ring_all_reduce"},
      {"two_shot_private"},
      {"two_shot_symmetric"}};
  return list;
}

class Agree : public testing::TestWithParam<std::tuple<int, Run>> {};

TEST_P(Agree, OnEveryRankCountAndSize) {
  const auto [index, run] = GetParam();
  const Case& c = cases()[static_cast<size_t>(index)];
  const plan::Plan plan = case_plan(c.plan);
  const std::vector<int64_t> all = {0, 1, 2, 3, 7, 15, 16, 17, 33, 47, 64, 97, 130, 191, 259};
  for (int ranks = 1; ranks <= 8; ++ranks) {
    if (!c.admits(ranks)) continue;
    for (size_t pick = 0; pick < 3; ++pick) {  // every size is met by some rank count
      const int64_t elements =
          all[(static_cast<size_t>(ranks) * 3 + pick * 5 + static_cast<size_t>(index)) % all.size()];
      if (pick == 2 && ranks > 4) continue;
      SCOPED_TRACE(fmt::format("{} on {} ranks, {} elements", c.plan, ranks, elements));
      Sizes sizes = sizes_for(plan, c, ranks, elements);
      sizes.in_place = pick % 2 == 1;
      RunOptions options;
      options.launches = pick == 1 ? 3 : 2;
      options.delays = pick == 0 || ranks % 3 == 0;
      options.asynchronous = pick == 2;
      ASSERT_NO_THROW(agree(run, plan, ranks, sizes, options));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, Agree,
                         testing::Combine(testing::Range(0, static_cast<int>(cases().size())),
                                          testing::Values(&transport::run_threads, &transport::run_processes)),
                         [](const auto& info) {
                           return std::string(cases()[static_cast<size_t>(std::get<0>(info.param))].plan) +
                                  (std::get<1>(info.param) == &transport::run_threads ? "_threads" : "_processes");
                         });

TEST(AgreeCases, EveryPlanIsThereOrUnsupported) {
  for (const Case& c : cases()) EXPECT_NO_THROW(case_plan(c.plan)) << c.plan;
}

}  // namespace
}  // namespace weft::runtime::test
