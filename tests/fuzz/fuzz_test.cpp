// Fuzzing in the suite: seconds of each kind, by a seed that is printed (WEFT_SEED takes another); minutes with WEFT_SLOW.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/fuzz/campaign.h"

namespace weft::fuzz {
namespace {

bool slow() {
  const char* set = std::getenv("WEFT_SLOW");
  return set && std::string(set) == "1";
}
// So that the suite tries the same on any machine that is not slower.
int64_t most(int64_t trials) { return slow() ? int64_t{1} << 60 : trials; }
double seconds() { return slow() ? 120 : 3; }
uint64_t seed() {
  const char* chosen = std::getenv("WEFT_SEED");
  return chosen ? std::strtoull(chosen, nullptr, 10) : 20241;
}

void expect_no_fault(const Tally& tally) {
  for (const std::string& fault : tally.faults) ADD_FAILURE() << fault;
}

TEST(Fuzz, AcceptedRewritesKeepTheMeaning) {
  Tally tally;
  for_seconds(
      seconds(), seed(), tally, [&](uint64_t s) { try_rewrites(s, tally); }, most(300));
  std::printf("WEFT_SEED=%llu: %lld programs, %lld rewrites kept the meaning, %lld refused\n",
              static_cast<unsigned long long>(seed()), static_cast<long long>(tally.programs),
              static_cast<long long>(tally.rewrites), static_cast<long long>(tally.refused));
  expect_no_fault(tally);
  EXPECT_GE(tally.rewrites, tally.programs / 2) << "proposals are hardly ever accepted: the walk stands still";
}

TEST(Fuzz, LoweredSchedulesKeepTheMeaning) {
  Tally tally;
  for_seconds(
      seconds(), seed(), tally, [&](uint64_t s) { try_lowering(s, tally); }, most(60));
  std::printf(
      "WEFT_SEED=%llu: %lld programs, %lld plans right, %lld of them on ranks too, %lld not lowered, %lld refused by "
      "the verifier\n",
      static_cast<unsigned long long>(seed()), static_cast<long long>(tally.programs),
      static_cast<long long>(tally.lowered), static_cast<long long>(tally.on_ranks),
      static_cast<long long>(tally.unsupported), static_cast<long long>(tally.unverified));
  if (std::getenv("WEFT_FUZZ_SHOW"))
    for (const auto& [rule, example] : tally.unverified_by_rule) std::printf("%s\n%s\n", rule.c_str(), example.c_str());
  expect_no_fault(tally);
  EXPECT_GT(tally.lowered, 2 * tally.unverified);
}

TEST(Fuzz, WrongSchedulesAreNotAccepted) {
  Tally tally;
  for_seconds(
      seconds(), seed(), tally, [&](uint64_t s) { try_schedule_mutants(s, tally); }, most(40));
  std::printf("WEFT_SEED=%llu: %lld mutants of %lld schedules, %lld refused, %lld still right\n",
              static_cast<unsigned long long>(seed()), static_cast<long long>(tally.mutants),
              static_cast<long long>(tally.programs), static_cast<long long>(tally.rejected),
              static_cast<long long>(tally.still_right));
  expect_no_fault(tally);
  EXPECT_GT(tally.rejected, tally.mutants / 4);
}

// Each kind of damage on each plan is in the whole set; the sample is drawn from it.
TEST(Fuzz, WrongPlansAreNotAccepted) {
  Tally tally;
  std::vector<size_t> order(all_mutants().size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed()));
  for_seconds(
      slow() ? 240 : 4, 0, tally, [&](uint64_t k) { try_plan_mutant(all_mutants()[order[k % order.size()]], tally); },
      most(400));
  std::printf("WEFT_SEED=%llu: %lld of %zu mutants of %zu plans, %lld rejected, %lld still right\n",
              static_cast<unsigned long long>(seed()), static_cast<long long>(tally.mutants), order.size(),
              shipped_plans().size(), static_cast<long long>(tally.rejected),
              static_cast<long long>(tally.still_right));
  expect_no_fault(tally);
  EXPECT_GT(shipped_plans().size(), 60u);
  EXPECT_GT(tally.rejected, tally.mutants / 2);
}

}  // namespace
}  // namespace weft::fuzz
