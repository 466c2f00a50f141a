// The thin thread: ring and direct all_reduce, checked against sums written down here.
#include "tests/unit/runtime/harness.h"
#include "weft/kernel/step_code.h"

namespace weft::runtime::test {
namespace {

Expected sums(const plan::Plan& plan, int ranks, const Sizes& sizes, int launches) {
  const plan::Instance instance(plan, ranks, sizes.params);
  const int x = plan::find_buffer(plan, "x"), y = plan::find_buffer(plan, "y");
  const plan::Extents extents(instance, sizes.spaces, sizes.chunk_elements);
  const int64_t elements = extents.elements(instance.buffer_space(y));
  Expected expected;
  for (int launch = 0; launch < launches; ++launch) {
    auto& ranks_results = expected.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) {
      auto& buffers = ranks_results.emplace_back(plan.buffers.size());
      auto& out = buffers[static_cast<size_t>(y)];
      out.resize(static_cast<size_t>(elements) * 4);
      for (int64_t i = 0; i < elements; ++i) {
        float sum = 0;
        for (int q = 0; q < ranks; ++q) sum += static_cast<float>(coded(q, x, i, launch));
        std::memcpy(&out[static_cast<size_t>(i) * 4], &sum, 4);
      }
    }
  }
  return expected;
}

class Thin : public testing::TestWithParam<std::tuple<const char*, int, Run>> {};

TEST_P(Thin, AllReduceIsTheSum) {
  const auto [name, ranks, run] = GetParam();
  const plan::Plan plan = case_plan(name);
  for (int64_t elements : {0, 1, 2, 7, 130, 1000, 4099})
    for (bool in_place : {false, true}) {
      Sizes sizes;
      sizes.spaces = {flat(elements)};
      sizes.chunk_elements = {64};
      sizes.in_place = in_place;
      run_and_compare(run, plan, ranks, sizes, sums(plan, ranks, sizes, 3), {});
    }
}

INSTANTIATE_TEST_SUITE_P(Plans, Thin,
                         testing::Combine(testing::Values("ring_all_reduce", "pairwise_two_shot_all_reduce",
                                                          "mesh_one_shot_all_reduce", "two_shot_symmetric",
                                                          "two_shot_private", "one_shot_private"),
                                          testing::Values(1, 2, 3, 5),
                                          testing::Values(&transport::run_threads, &transport::run_processes)));

TEST(Record, EveryStepOnceWithItsTimes) {
  transport::run_threads(3, [](transport::Transport& t) {
    const auto kernels = kernel::evaluator_library();
    Communicator communicator(t, *kernels);
    const auto loaded = communicator.load(case_plan("ring_all_reduce"), {.chunk_elements = {64}, .verify = false});
    std::vector<float> x(500, 1), y(500);
    plan::LaunchArgs args;
    args.spaces = {flat(500)};
    args.buffers = {plan::Dense{x.data()}, plan::Dense{y.data()}};
    communicator.launch(*loaded, args);
    need(communicator.take_spans().empty(), "nothing is recorded unless asked");
    communicator.record(true);
    const int64_t begin = now_ns();
    communicator.launch(*loaded, args);
    const int64_t end = now_ns();
    const std::vector<Span> spans = communicator.take_spans();
    // feed, red, fin, fwd, last: 2 channels, ceil(84 / 64) chunks of shares of parts of 167, 2 slices
    need(spans.size() == 5u * 2 * 2 * 2, fmt::format("{} spans", spans.size()));
    for (const Span& span : spans) {
      need(span.rank == t.rank() && span.lane == 0 && span.step >= 0 && span.step < 5 && span.chunk < 2, "who");
      need(begin <= span.begin_ns && span.begin_ns <= span.end_ns && span.end_ns <= end && span.wait_ns >= 0, "when");
    }
    need(communicator.take_spans().empty(), "handed out once");
  });
}

}  // namespace
}  // namespace weft::runtime::test
