// Every example under every schedule that the tuner would meet: lowered, verified, and equal to the reference
// evaluator.
//
// Ranks 1 to 8 and sizes 0 to 130 are sampled by a stated seed; WEFT_SLOW=1 takes them all.
#include <cstdlib>

#include "tests/unit/lower/support.h"
#include "weft/base/error.h"

namespace weft::lower {
namespace {

bool slow() {
  const char* text = std::getenv("WEFT_SLOW");
  return text && std::string(text) == "1";
}
uint64_t seed() {
  const char* text = std::getenv("WEFT_SEED");
  return text ? std::stoull(text) : 20241130;
}

Sizing sizing(const std::string& example, std::mt19937_64& random) {
  Sizing result;
  if (example == "attention_end") {
    for (const char* name : {"B", "S", "K", "H"}) result.dims[name] = 1 + static_cast<int64_t>(random() % 6);
    return result;
  }
  int64_t left = static_cast<int64_t>(random() % 131);
  while (left > 0 && result.shapes.size() < 5) {
    const int64_t size = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(left));
    result.shapes.push_back({size});
    left -= size;
  }
  if (result.shapes.empty()) result.shapes.push_back({0});
  return result;
}

struct Form {
  const char* algorithm;
  bool mapped;
};
constexpr Form forms[] = {{"direct", true},  {"pairwise", false}, {"ring", false}, {"gather", false},
                          {"oneshot", true}, {"mesh", false},     {"chain", false}};

// Lowered with this algorithm, or with the chooser's where it cannot.
Lowered lower_with(const schedule::Candidate& candidate, const Form& form, int channels) {
  LowerOptions options;
  options.mapped = form.mapped;
  options.fallback.algorithm = form.algorithm;
  options.fallback.order = "any";
  options.fallback.round = "hops";
  options.fallback.channels = channels;
  try {
    return lower(candidate.program, candidate.schedule.launches, options);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::user) throw;
    options.fallback.algorithm.reset();
    return lower(candidate.program, candidate.schedule.launches, options);
  }
}

double tolerance(const std::string& example) {
  return example == "attention_end" || example == "adam_mixed" ? 2e-2 : 5e-5;
}

void every_schedule(const std::string& example) {
  const ir::Program naive = ir::parse(read_example(example));
  const schedule::Space space = schedule::enumerate(naive);
  ASSERT_FALSE(space.candidates.empty());
  std::mt19937_64 random(seed());
  int unsupported = 0, k = 0;
  for (const schedule::Candidate& candidate : space.candidates) {
    SCOPED_TRACE(example + ": " + schedule::one_line(candidate.schedule));
    for (int turn = 0; turn < (slow() ? 48 : 2); ++turn, ++k) {
      const Form& form = forms[static_cast<size_t>(k) % std::size(forms)];
      const int channels = 1 + static_cast<int>(random() % 3),
                ranks = slow() ? 1 + turn % 8 : 1 + static_cast<int>(random() % 8);
      Lowered lowered;
      try {
        lowered = lower_with(candidate, form, channels);
      } catch (const Error& e) {
        ASSERT_EQ(e.kind(), ErrorKind::unsupported) << e.what();
        ++unsupported;
        continue;
      }
      SCOPED_TRACE(fmt::format("{} channels {} ranks {} seed {}\n{}", form.algorithm, channels, ranks, seed(),
                               plan::print(lowered.plan)));
      plan::VerifyOptions options;
      options.ranks = {slow() ? ranks : 1 + ranks % 3};
      const plan::Verdict verdict = plan::verify(lowered.plan, options);
      ASSERT_TRUE(verdict.ok()) << plan::print(verdict.findings[0]);
      Agreement how;
      how.tolerance = tolerance(example);
      how.chunk.assign(lowered.plan.spaces.size(), 1 + static_cast<int64_t>(random() % 40));
      agree(naive, candidate.program, lowered, ranks, sizing(example, random), random(), how);
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_EQ(unsupported, 0) << "an enumerated schedule has no lowering";
  testing::Test::RecordProperty("unsupported", unsupported);
  testing::Test::RecordProperty("schedules", static_cast<int>(space.candidates.size()));
}

TEST(LowerMeaning, Sgd) { every_schedule("sgd"); }
TEST(LowerMeaning, Adam) { every_schedule("adam"); }
TEST(LowerMeaning, AdamMixed) { every_schedule("adam_mixed"); }
TEST(LowerMeaning, AdamW) { every_schedule("adamw"); }
TEST(LowerMeaning, Lamb) { every_schedule("lamb"); }
TEST(LowerMeaning, AttentionEnd) { every_schedule("attention_end"); }

}  // namespace
}  // namespace weft::lower
