// The number of ranks of a launch is verified beside those that always are.
#include "weft/plan/verify_here.h"

#include <gtest/gtest.h>

#include "tests/unit/plan/cases.h"

namespace weft::plan {
namespace {

// Right on up to `most` ranks: beyond, parts stay uncopied.
Plan right_up_to(int most, const std::string& head = "") {
  return parse(
      fmt::format("plan 1 short\norder rank\nround once\n{}channels 1\nspace s parts n even\nbuffer x s f32 "
                  "in\nbuffer y s f32 out\npost y[p] = x[p]\nlane main:\n  loop s:\n    x[0 : sel(n > {}, {}, "
                  "n)] -> y[0 : sel(n > {}, {}, n)]\n",
                  head, most, most, most, most));
}

std::string rule_on(const Plan& plan, int ranks) {
  VerifyOptions options;
  options.cache = false;
  try {
    require_verified_here(plan, ranks, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::plan);
    return error.rule();
  }
  return "accepted";
}

TEST(VerifyHere, RefusesAPlanThatIsWrongOnTheseRanks) {
  const Plan plan = right_up_to(10);
  EXPECT_TRUE(verify(plan, {.cache = false}).ok());
  for (const int ranks : {2, 9, 10}) EXPECT_EQ(rule_on(plan, ranks), "accepted") << ranks;
  for (const int ranks : {11, 16, 32}) EXPECT_EQ(rule_on(plan, ranks), "V11") << ranks;
}

TEST(VerifyHere, RefusesAPlanThatIsWrongOnFewRanks) { EXPECT_EQ(rule_on(right_up_to(3), 2), "V11"); }

TEST(VerifyHere, AcceptsThePlansOfTheCases) {
  for (const char* name : {"ring_all_reduce", "hierarchical_all_reduce"}) {
    EXPECT_EQ(rule_on(cases::load(name), 12), "accepted") << name;
    EXPECT_EQ(rule_on(cases::load(name), 16), "accepted") << name;
  }
}

TEST(VerifyHere, LeavesOutWhatWouldTakeLong) {
  const Plan plan = cases::load("ring_all_reduce");
  const Verdict verdict = verify(plan, {.cache = false}), here = verify(plan, {.ranks = {16}, .cache = false});
  EXPECT_NEAR(predicted_steps(verdict, 16) / static_cast<double>(here.steps), 1, 0.2);
  EXPECT_GT(predicted_steps(verdict, 64), 200'000);
  EXPECT_EQ(rule_on(plan, 1000), "accepted");
}

// A plan that no small number of ranks admits: nothing else has been verified.
TEST(VerifyHere, TakesAnyCostWhereNoFewRanksAreAdmitted) {
  EXPECT_EQ(rule_on(right_up_to(1000, "require n > 9\n"), 40), "accepted");
  EXPECT_EQ(rule_on(right_up_to(33, "require n > 9\n"), 34), "V11");
}

}  // namespace
}  // namespace weft::plan
