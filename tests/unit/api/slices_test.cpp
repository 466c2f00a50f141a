// Slices that the user declares, on ranks that run: parts that differ by an element, and more channels than elements.
#include <gtest/gtest.h>

#include "weft/api/tuning.h"
#include "weft/base/error.h"

namespace weft::api {
namespace {

// Channels 1 to 16, 1 to 5 ranks, 0 to 20 elements.
void expect_right_for_all_sizes(const std::string& text, const std::string& launch) {
  const ir::Program program = ir::parse(text);
  for (int ranks = 1; ranks <= 5; ++ranks) {
    tune::SearchOptions options;
    options.ranks = options.sizes.ranks = ranks;
    options.sizes.dims["A"] = 20;
    std::vector<tune::Trial> trials;
    for (int channels = 1; channels <= 16; ++channels) {
      const std::string schedule =
          fmt::format("schedule 1 s of p\nlaunch * {} channels {} order any round hops\n", launch, channels);
      trials.push_back(tune::make_trial(program, schedule::parse_schedule(schedule), topo::detect(), options));
      trials.back().id = channels - 1;
    }
    for (int64_t size = 0; size <= 20; ++size) {
      options.sizes.dims["A"] = size;
      check_trials(trials, program, options.sizes, "threads", {}, tolerance_of(program));
      for (tune::Trial& trial : trials) {
        ASSERT_FALSE(trial.wrong()) << trial.label << " ranks " << ranks << " size " << size << ": " << trial.check;
        trial.check.clear();
      }
    }
  }
}

TEST(DeclaredSlices, AnInput) {
  expect_right_for_all_sizes("program 1 p\ndim A\nin g f32[A] sliced(0)\nv = g * 2.0\nout v\n", "direct");
}

TEST(DeclaredSlices, AState) {
  expect_right_for_all_sizes(
      "program 1 p\ndim A\nin g f64[A] sliced(0)\nstate w f64[A] sliced(0)\n"
      "v = silu(w * 0.1) + g\nupdate w = v\nout v\n",
      "");
}

TEST(DeclaredSlices, BesideWhatIsWhole) {
  expect_right_for_all_sizes(
      "program 1 p\ndim A\nin g0 f32[A] local\nstate w0 f32[A] replicated\nstate w1 bf16[A] replicated\nstate w2 "
      "bf16[A] sliced(0)\nv0 = w0 / (g0 * g0 + 1)\nv2 = g0 + v0\nout v0\nout v2\n",
      "ring");
}

}  // namespace
}  // namespace weft::api
