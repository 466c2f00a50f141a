// Slices that the user declares: exact borders, so parts differ by one element, and a rank's part may have fewer elements
// than the launch has channels. The share of one channel is then larger in a smaller part than in the largest.
#include "tests/unit/lower/ways.h"

namespace weft::lower {
namespace {

// Channels 1 to 16, 1 to 5 ranks, 0 to 20 elements, in turn by each algorithm; chunks of one element, of 3, of any number.
void expect_right_for_all_sizes(const std::string& text) {
  const ir::Program naive = ir::parse(text);
  uint64_t seed = 1;
  for (int channels = 1; channels <= 16; ++channels) {
    std::vector<Lowered> lowered;
    for (const Way& way : ways) lowered.push_back(lower_by(naive, way, channels));
    for (int ranks = 1; ranks <= 5; ++ranks)
      for (int64_t size = 0; size <= 20; ++size, ++seed) {
        const Lowered& one = lowered[seed % lowered.size()];
        SCOPED_TRACE(fmt::format("{} channels {} ranks {} size {}", ways[seed % lowered.size()].algorithm, channels,
                                 ranks, size));
        Agreement how;
        how.chunk.assign(one.plan.spaces.size(), std::array<int64_t, 3>{1, 3, 64}[seed / 3 % 3]);
        agree(naive, naive, one, ranks, {{{"A", size}}, {}}, seed, how);
        if (testing::Test::HasFailure()) return;
      }
  }
}

TEST(DeclaredSlices, AnInput) {
  expect_right_for_all_sizes("program 1 p\ndim A\nin g f32[A] sliced(0)\nv = g * 2.0\nout v\n");
}

TEST(DeclaredSlices, AState) {
  expect_right_for_all_sizes(
      "program 1 p\ndim A\nin g f32[A] sliced(0)\nstate w f32[A] sliced(0)\nv = w - g\nupdate w = v\nout v\n");
}

TEST(DeclaredSlices, AlongEachDimension) {
  expect_right_for_all_sizes("program 1 p\ndim A\nin g f32[A, 3] sliced(0)\nv = g * 2.0\nout v\n");
  expect_right_for_all_sizes("program 1 p\ndim A\nin g f32[3, A] sliced(1)\nv = g * 2.0\nout v\n");
}

// One space for all three: the slices of one make the others uneven.
TEST(DeclaredSlices, BesideWhatIsWhole) {
  expect_right_for_all_sizes(
      "program 1 p\ndim A\nin g f32[A] local\nstate w f32[A] replicated\nstate x bf16[A] sliced(0)\nv = w / (g * g + "
      "1)\nu = g + v\nout v\nout u\n");
}

TEST(DeclaredSlices, GatheredAndScattered) {
  expect_right_for_all_sizes(
      "program 1 p\ndim A\nin g f32[A] local\nin x f32[A] sliced(0)\na = reduce_scatter(sum, g, 0)\ny = a + x\nv = "
      "all_gather(y)\nout v\n");
}

}  // namespace
}  // namespace weft::lower
