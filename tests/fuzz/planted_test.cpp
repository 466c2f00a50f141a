// Fuzzing finds what is planted, and texts stay as they must be: the corpora replayed, and edited at random.
#include "tests/fuzz/planted.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/fuzz/campaign.h"
#include "tests/fuzz/texts.h"

namespace weft::fuzz {
namespace {

bool slow() {
  const char* set = std::getenv("WEFT_SLOW");
  return set && std::string(set) == "1";
}
uint64_t seed() {
  const char* chosen = std::getenv("WEFT_SEED");
  return chosen ? std::strtoull(chosen, nullptr, 10) : 20241;
}

// Each has a minute at most and needs a fraction of it: a bound, not a measure.
TEST(Planted, EveryFaultIsFound) {
  for (const PlantedFault& fault : planted_faults()) EXPECT_TRUE(fault.find(seed(), 60)) << fault.name;
}

// What is planted in texts is not in the seeds: it takes fuzzing to reach it.
TEST(Planted, SeedsAloneDoNotReachIt) {
  for (const TextForm& form : text_forms())
    for (const std::string& text : seeds_of(form.name))
      EXPECT_NO_THROW(form.attempt(text, true)) << form.name << "\n" << text;
}

TEST(Texts, CorporaAreAsTheyMustBe) {
  for (const TextForm& form : text_forms()) {
    const std::vector<std::string> seeds = seeds_of(form.name);
    EXPECT_FALSE(seeds.empty()) << form.name;
    for (const std::string& text : seeds) EXPECT_NO_THROW(form.attempt(text, false)) << form.name << "\n" << text;
  }
}

TEST(Texts, EditedOnesAreRefusedOrRight) {
  for (const TextForm& form : text_forms()) {
    int64_t attempts = 0;
    EXPECT_EQ(edit_texts(form.name, false, seed(), slow() ? 60 : 2, &attempts), "") << form.name;
    std::printf("WEFT_SEED=%llu: %lld texts of form %s\n", static_cast<unsigned long long>(seed()),
                static_cast<long long>(attempts), form.name);
    EXPECT_GT(attempts, 10);
  }
}

}  // namespace
}  // namespace weft::fuzz
