// A copy of a part onto itself is left out, and whoever waits for it still sees it done.
#include "tests/unit/runtime/harness.h"
#include "weft/algo/algorithm.h"
#include "weft/runtime/bound.h"

namespace weft::runtime::test {
namespace {

int idle_steps(Loaded& loaded, const plan::LaunchArgs& args) {
  int idle = 0;
  const std::shared_ptr<BoundState> bound = bind(loaded, args);
  for (const Cursor& cursor : bound->cursors)
    for (const BoundBlock& block : cursor.blocks)
      for (const BoundStep& step : block.steps) idle += step.idle;
  return idle;
}

TEST(InPlace, CopiesOntoThemselvesAreLeftOut) {
  transport::run_threads(3, [](transport::Transport& t) {
    const auto kernels = kernel::evaluator_library();
    Communicator comm(t, *kernels);
    for (const char* name : {"pairwise", "binomial"}) {
      algo::PlanRequest request;
      request.collective = algo::Collective::gather;
      request.grain = 1;
      const plan::Plan plan = algo::make_plan(*algo::find_algorithm(name), request);
      const auto loaded = comm.load(plan, {});
      constexpr int64_t each = 5000;
      const Symmetric there = comm.allocate(3 * each * 4, "all"), apart = comm.allocate(3 * each * 4, "own");
      auto *y = static_cast<float*>(there.data), *x = static_cast<float*>(apart.data);
      int idle[2] = {};
      for (const bool in_place : {false, true}) {
        float* const mine = in_place && t.rank() == 0 ? y + t.rank() * each : x + t.rank() * each;
        plan::LaunchArgs args;
        args.spaces = {{plan::Cut{1, 3 * each, 1}}};
        args.buffers.assign(plan.buffers.size(), std::monostate{});
        args.buffers[static_cast<size_t>(plan::find_buffer(plan, "x"))] = plan::Dense{mine};
        args.buffers[static_cast<size_t>(plan::find_buffer(plan, "y"))] = plan::Dense{y};
        for (int launch = 0; launch < 3; ++launch) {
          std::fill(y, y + 3 * each, -1.0f);
          for (int64_t i = 0; i < each; ++i) mine[i] = static_cast<float>(t.rank() * 10'000 + i + launch);
          t.barrier("filled");
          comm.launch(*loaded, args);
          for (int64_t i = 0; t.rank() == 0 && i < 3 * each; ++i)
            need(y[i] == static_cast<float>(i / each * 10'000 + i % each + launch), fmt::format("{} at {}", name, i));
          t.barrier("looked");
        }
        idle[in_place] = idle_steps(*loaded, args);
      }
      need(idle[1] == idle[0] + (t.rank() == 0 ? 1 : 0),
           fmt::format("{}: {} and {} steps idle", name, idle[0], idle[1]));
    }
  });
}

}  // namespace
}  // namespace weft::runtime::test
