// L3 of a schedule: `split x root k` names a rank of x's group, which only a launch knows.
#include "weft/schedule/roots.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft::schedule {
namespace {

const char* const on_world = "program 1 p\ndim A\nin g f32[A] local\nx = all_reduce(sum, g)\nout x\n";
const char* const on_pairs =
    "program 1 p\ndim A\ngroup s = world.split(2)\nin g f32[A] local on s\nx = all_reduce(sum, g)\nout x\n";

std::string verdict(const char* program, const std::string& split, int ranks) {
  ir::Sizes sizes;
  sizes.ranks = ranks;
  try {
    check_roots(ir::parse(program), parse_schedule("schedule 1 s of p\n" + split + "\n"), sizes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "accepted";
}

TEST(Roots, L3_ASplitsRootIsARankOfTheGroup) {
  EXPECT_EQ(verdict(on_world, "split x root 1", 2), "accepted");
  EXPECT_EQ(verdict(on_world, "split x root 99", 100), "accepted");
  EXPECT_EQ(verdict(on_world, "split x 0", 1), "accepted");
  EXPECT_EQ(verdict(on_world, "split x root 2", 2),
            "L3: split x root 2: root 2 of a group of 2 ranks\n    roots count from 0: take one below 2, or launch on "
            "more ranks");
  EXPECT_EQ(verdict(on_pairs, "split x root 1", 4), "accepted");
  EXPECT_NE(verdict(on_pairs, "split x root 2", 4).find("root 2 of a group of 2 ranks"), std::string::npos);
}

TEST(Roots, L3_TheProgramsOwnRootsToo) {
  const char* const rooted = "program 1 p\ndim A\nin g f32[A] local\nx = reduce(sum, g, 3)\nout x\n";
  EXPECT_EQ(verdict(rooted, "", 4), "accepted");
  EXPECT_NE(verdict(rooted, "", 3).find("4:20: L3: x: root 3 of a group of 3 ranks"), std::string::npos);
}

}  // namespace
}  // namespace weft::schedule
