// The sentences between passes: they hold on the examples, and each check can fail.
#include "weft/lower/check.h"

#include "tests/unit/lower/support.h"
#include "weft/base/error.h"

namespace weft::lower {
namespace {

struct Passes {
  explicit Passes(const std::string& example)
      : program(schedule::replay(ir::parse(read_example(example)), fused_schedule(example))),
        work(program, launches, options) {
    take_units(work);
    choose(work);
    lay_out_spaces(work);
    find_phases(work);
    find_places(work);
  }
  ir::Program program;
  std::vector<schedule::LaunchConfig> launches;
  LowerOptions options;
  Work work;
};

template <typename F>
std::string internal(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::internal);
    return e.what();
  }
  return "holds";
}

TEST(LowerChecks, HoldOnTheExamples) {
  for (const char* example : {"sgd", "adam", "adam_mixed", "adamw", "lamb", "attention_end"}) {
    Passes passes(example);
    EXPECT_NO_THROW(check_spaces(passes.work)) << example;
    EXPECT_NO_THROW(check_phases(passes.work)) << example;
    EXPECT_NO_THROW(check_places(passes.work)) << example;
  }
}

TEST(LowerChecks, AValueWithoutASpace) {
  Passes passes("adam");
  passes.work.value("m1.s").space = -1;
  EXPECT_NE(internal([&] { check_spaces(passes.work); }).find("m1.s has no space"), std::string::npos);
}

TEST(LowerChecks, ASliceInASpaceThatIsNotCut) {
  Passes passes("adam");
  passes.work.spaces[0].cut = -1;
  EXPECT_NE(internal([&] { check_spaces(passes.work); }).find("its space is not cut"), std::string::npos);
}

TEST(LowerChecks, AFoldReadBeforeItIsFinished) {
  Passes passes("lamb");
  EXPECT_EQ(passes.work.value("w1.s").phase, 1);
  passes.work.value("w1.s").phase = 0;
  EXPECT_NE(internal([&] { check_phases(passes.work); }).find("w1.s reads t before it is finished"), std::string::npos);
}

TEST(LowerChecks, AStateWrittenTwiceOrNever) {
  Passes passes("adam");
  std::vector<Home>& homes = passes.work.value("m1.s").homes;
  homes.push_back(homes[0]);
  EXPECT_NE(internal([&] { check_places(passes.work); }).find("state m is written 2 times"), std::string::npos);
  homes.clear();
  EXPECT_NE(internal([&] { check_places(passes.work); }).find("state m is written 0 times"), std::string::npos);
}

TEST(LowerChecks, RegistersAndPlaces) {
  Passes passes("adam");
  EXPECT_TRUE(passes.work.value("u.s").homes.empty()) << "only its own step reads u.s";
  EXPECT_TRUE(passes.work.value("a.s").homes.empty());
  EXPECT_EQ(passes.work.value("w1.s").homes.size(), 1u) << "the state w";
  EXPECT_EQ(passes.work.value("w1").homes.size(), 1u) << "the output";
}

}  // namespace
}  // namespace weft::lower
