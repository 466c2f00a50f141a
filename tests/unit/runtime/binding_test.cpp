// Where elements may lie: tensors of their own, strides, columns of a cut matrix; and how steps meet derived spaces.
#include <numeric>

#include "tests/unit/runtime/harness.h"
#include "weft/runtime/layout.h"

namespace weft::runtime::test {
namespace {

const Run both[] = {&transport::run_threads, &transport::run_processes};

TEST(SegmentIndex, FindsEveryPosition) {
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{1}, {0, 0, 5, 0, 1, 1}, {1024, 1024}, {1023, 1, 1025, 0, 4096, 7}, {3, 100000, 2, 1}}) {
    const SegmentIndex index(lengths);
    int64_t position = 0;
    for (size_t s = 0; s < lengths.size(); ++s)
      for (int64_t i = 0; i < lengths[s]; ++i, ++position) {
        const SegmentIndex::Place place = index.find(position);
        ASSERT_EQ(place.segment, static_cast<int64_t>(s)) << position;
        ASSERT_EQ(place.offset, i);
        ASSERT_EQ(place.rest, lengths[s] - i);
      }
    EXPECT_EQ(index.elements(), position);
  }
  EXPECT_EQ(error_of([] { SegmentIndex(std::vector<int64_t>{3, -1}); }).kind(), ErrorKind::user);
}

TEST(SegmentIndex, CostsTwelveBytesPerThousandElements) {  // figure bucket_bytes_per_1024
  const SegmentIndex index(std::vector<int64_t>{1024 * 1024, 17, 1024 * 1024 - 17});
  EXPECT_LE(static_cast<double>(index.bucket_bytes()) * 1024 / static_cast<double>(index.elements()), 12.0);
}

class Bindings : public testing::TestWithParam<int> {};

TEST_P(Bindings, ScatteredAndStridedMeetTheInterpreter) {
  const plan::SegmentTable table{{5, 1, 0, 9, 20, 64, 1, 130}};
  const int64_t elements = std::accumulate(table.lengths.begin(), table.lengths.end(), int64_t{0});
  const int ranks = GetParam();
  for (const char* name : {"ring_all_reduce", "pairwise_two_shot_all_reduce", "two_shot_symmetric",
                           "one_shot_symmetric", "pat_all_gather", "fused_ring_adam"})
    for (const char* style : {"segments", "strided"})
      for (const auto run : both) {
        SCOPED_TRACE(fmt::format("{} {} on {}", name, style, ranks));
        const plan::Plan plan = case_plan(name);
        Sizes sizes;
        sizes.spaces = {{plan::Cut{1, elements, 1}, std::nullopt, &table}};
        sizes.chunk_elements = {40};
        for (const plan::Id& scalar : plan::launch_scalars(plan))
          sizes.scalars.push_back(scalar == "step" ? expr::ScalarValue{true, 3, 3}
                                                   : expr::ScalarValue{false, 0, 0.125});
        for (const plan::Buffer& buffer : plan.buffers)
          if (buffer.role != plan::Buffer::Role::scratch && (!buffer.own || std::string(style) == "strided"))
            sizes.styles[buffer.name] = style;
        ASSERT_NO_THROW(agree(run, plan, ranks, sizes, {.launches = 2}));
      }
}

TEST_P(Bindings, ColumnsOfAMatrixAreParts) {  // sliced(1): rows of every part lie apart
  const int ranks = GetParam();
  for (const char* name :
       {"ring_all_reduce", "pairwise_two_shot_all_reduce", "two_shot_symmetric", "chain_all_reduce", "fused_ring_adam"})
    for (const plan::Cut cut : {plan::Cut{7, 13, 1}, plan::Cut{3, 5, 4}, plan::Cut{1, 9, 6}})
      for (const auto run : both) {
        SCOPED_TRACE(fmt::format("{} {}x{}x{} on {}", name, cut.outer, cut.axis, cut.inner, ranks));
        const plan::Plan plan = case_plan(name);
        Sizes sizes;
        sizes.spaces = {{cut, std::nullopt, nullptr}};
        sizes.chunk_elements = {16};
        for (const plan::Id& scalar : plan::launch_scalars(plan))
          sizes.scalars.push_back(scalar == "step" ? expr::ScalarValue{true, 3, 3}
                                                   : expr::ScalarValue{false, 0, 0.125});
        ASSERT_NO_THROW(agree(run, plan, ranks, sizes, {.launches = 2}));
      }
}

// One value per row, per column, per block: read as a broadcast, and folded into.
constexpr const char* derived = R"(plan 1 derived
order any
round hops
channels 1
space s parts n even
space rows parts 1 fixed R of s by row
space cols parts 1 fixed C of s by column
space blocks parts 1 fixed B of s by block 4
buffer x s f32 in
buffer bias cols f32 in
buffer scale rows f32 in
buffer y s f32 out own r
buffer sums rows f64 out
buffer parts blocks f64 out
kernel affine: x, bias, scale -> y
  y = x * scale + bias
kernel total: x -> t
  t = sum(x)
lane main:
  zero: 0 -> sums[0]
  none: 0 -> parts[0]
  loop s:
    aff: x[r], bias[0], scale[0] -> affine -> y[r]
    row: x[r] -> total -> +sums[0]
    blk: x[r] -> total -> +parts[0]
)";

TEST_P(Bindings, StepsMeetDerivedSpaces) {
  const int ranks = GetParam();
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{6, 8}, {1, 24}, {12, 4}})
    for (const auto run : both) {
      SCOPED_TRACE(fmt::format("{}x{} on {}", rows, columns, ranks));
      Sizes sizes;
      sizes.spaces.resize(4);
      sizes.spaces[0] = flat(rows * columns);
      sizes.spaces[1] = {plan::Cut{1, rows, 1}, plan::Meeting{{rows, columns}, {1, 0}}, nullptr};
      sizes.spaces[2] = {plan::Cut{1, columns, 1}, plan::Meeting{{rows, columns}, {0, 1}}, nullptr};
      sizes.spaces[3] = flat(rows * columns / 4);
      sizes.chunk_elements = {16, 0, 0, 0};
      ASSERT_NO_THROW(agree(run, plan::parse(derived), ranks, sizes, {.launches = 2}));
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Bindings, testing::Values(1, 2, 3, 5));

// ---- what is refused
Error refused(const plan::Plan& plan, const std::function<void(plan::LaunchArgs&)>& change) {
  Error error(ErrorKind::internal, "");
  transport::run_threads(1, [&](transport::Transport& t) {
    const auto kernels = kernel::evaluator_library();
    Communicator communicator(t, *kernels);
    const auto loaded = communicator.load(plan, {.verify = false});
    static std::vector<float> memory(1000);
    plan::LaunchArgs args;
    args.spaces.assign(plan.spaces.size(), flat(100));
    for (const plan::Buffer& buffer : plan.buffers) {
      args.buffers.emplace_back();
      if (buffer.role != plan::Buffer::Role::scratch) args.buffers.back() = plan::Dense{memory.data()};
    }
    change(args);
    error = error_of([&] { Bound bound(communicator, loaded, args); });
  });
  return error;
}

TEST(Refused, BindingsThatDoNotFit) {
  const plan::Plan plan = case_plan("ring_all_reduce");
  const plan::SegmentTable table{{50, 50}}, short_table{{50, 49}};
  float a[100];
  const auto message = [&](const std::function<void(plan::LaunchArgs&)>& change) {
    return std::string(refused(plan, change).what());
  };
  EXPECT_EQ(message([](plan::LaunchArgs&) {}), "nothing was thrown");
  EXPECT_NE(message([](plan::LaunchArgs& args) { args.buffers.pop_back(); }).find("2 buffers"), std::string::npos);
  EXPECT_NE(message([](plan::LaunchArgs& args) { args.spaces.clear(); }).find("1 spaces"), std::string::npos);
  EXPECT_NE(message([](plan::LaunchArgs& args) { args.scalars.push_back({}); }).find("takes 0 scalars"),
            std::string::npos);
  EXPECT_NE(message([](plan::LaunchArgs& args) { args.buffers[0] = plan::Dense{nullptr}; }).find("null pointer"),
            std::string::npos);
  EXPECT_NE(
      message([](plan::LaunchArgs& args) { args.buffers[0] = args.buffers[1] = std::monostate(); }).find("not bound"),
      std::string::npos);
  EXPECT_NE(message([&](plan::LaunchArgs& args) {
              args.buffers[0] = plan::Segments{{a, a + 50}};
            }).find("no segment table"),
            std::string::npos);
  EXPECT_NE(message([&](plan::LaunchArgs& args) {
              args.spaces[0].segments = &table, args.buffers[0] = plan::Segments{{a}};
            }).find("bound to 1 tensors"),
            std::string::npos);
  EXPECT_NE(message([&](plan::LaunchArgs& args) {
              args.spaces[0].segments = &short_table, args.buffers[0] = plan::Segments{{a, a + 50}};
            }).find("99 elements"),
            std::string::npos);
  EXPECT_NE(message([&](plan::LaunchArgs& args) {
              args.buffers[0] = plan::Strided{a, {99}, {1}};
            }).find("view of 99 elements"),
            std::string::npos);
  EXPECT_NE(message([&](plan::LaunchArgs& args) {
              args.buffers[0] = plan::Strided{a, {10, 10}, {1}};
            }).find("2 dimensions and 1 strides"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::runtime::test
