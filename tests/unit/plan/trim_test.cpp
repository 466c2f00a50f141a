// trim(): what it takes away is implied, what it leaves is needed.
#include <gtest/gtest.h>

#include "tests/unit/plan/cases.h"
#include "weft/plan/verify.h"

namespace weft::plan {
namespace {

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

VerifyOptions on(std::vector<int> ranks = {}) {
  VerifyOptions options;
  options.cache = false;
  options.ranks = std::move(ranks);
  return options;
}

TEST(Trim, KeepsWhatIsNeeded) {
  const Plan plan = cases::load("one_shot_symmetric");
  EXPECT_EQ(print(trim(plan, on({2, 3}))), print(plan));
}

TEST(Trim, RemovesImpliedAwaits) {
  const Plan plan = cases::load("one_shot_symmetric");
  const std::string text =
      with(print(plan), "after ready@0..n", "after ready@0..n, ready");  // this rank is one of 0..n
  EXPECT_EQ(print(trim(parse(text), on({2, 3}))), print(plan));
}

TEST(Trim, SetsDepthOneWhereItSuffices) {
  const std::string text = R"(plan 1 deep
order rank
round once
channels 1
space s parts n even
buffer x s f32 in
buffer t s f32 scratch depth 2
buffer y s f32 out
post y[p] = x[p]
lane main:
  loop s:
    first: x[0 : n] -> t[0 : n]
    t[0 : n] -> y[0 : n] after first
)";
  const Plan result = trim(parse(text), on());
  EXPECT_EQ(result.buffers[1].depth, 1);
  EXPECT_TRUE(std::get<Step>(std::get<Loop>(result.lanes[0].body[0]).body[1]).after.empty());  // its own lane's order
}

// A lane that stages chunk l has been through chunk l-1, which awaited everybody's staging of it: so everybody is
// through with chunk l-2, and the lag says nothing new. Chunk l-1 may still be read: the second copy stays.
TEST(Trim, KeepsTheDepthAndDropsTheLagThatItMakesTrue) {
  const Plan result = trim(cases::load("one_shot_private"), on());
  const std::string text = print(result);
  EXPECT_NE(text.find("depth 2"), std::string::npos) << text;
  EXPECT_EQ(text.find("lag"), std::string::npos) << text;
  EXPECT_TRUE(verify(result, on()).ok());
}

TEST(Trim, KeepsALagThatIsNeeded) {
  const std::string text = print(trim(cases::load("matmul_reduce_scatter"), on()));
  EXPECT_NE(text.find("main.fin lag 2"), std::string::npos) << text;
}

TEST(Trim, ResultsVerifyOnAllRanks) {
  for (const char* name : {"matmul_reduce_scatter", "all_gather_matmul"})
    EXPECT_TRUE(verify(trim(cases::load(name), on()), on()).ok()) << name;
}

TEST(Trim, RefusesAWrongPlan) {
  EXPECT_THROW(trim(parse(with(cases::text("ring_all_reduce"), "slots 4", "slots 2")), on()), Error);
}

}  // namespace
}  // namespace weft::plan
