// One program lowered in several ways, verified, and compared with its meaning on 1 to 8 ranks.
#pragma once

#include "tests/unit/lower/support.h"
#include "weft/base/error.h"

namespace weft::lower {

struct Way {
  const char* algorithm;
  bool mapped;
};
inline constexpr Way ways[] = {{"direct", true}, {"pairwise", false}, {"ring", false}};

inline Lowered lower_by(const ir::Program& program, const Way& way, int channels) {
  LowerOptions options;
  options.mapped = way.mapped;
  options.fallback.algorithm = way.algorithm;
  options.fallback.order = "any";
  options.fallback.round = "hops";
  options.fallback.channels = channels;
  return lower(program, {}, options);
}

inline ir::Program scheduled(const std::string& text, const std::string& directives) {
  const ir::Program naive = ir::parse(text);
  return schedule::replay(naive,
                          schedule::parse_schedule(fmt::format("schedule 1 s of {}\n{}", naive.name, directives)));
}

// Lowered three ways, with one to three channels, verified and run on 1 to 8 ranks.
inline void check(const std::string& text, const std::string& directives, const Sizing& sizing, bool exact,
                  int most_ranks = 8) {
  const ir::Program naive = ir::parse(text), program = scheduled(text, directives);
  uint64_t seed = 1;
  for (const Way& way : ways)
    for (const int channels : {1, 2, 3}) {
      const Lowered lowered = lower_by(program, way, channels);
      SCOPED_TRACE(fmt::format("{} channels {}\n{}", way.algorithm, channels, plan::print(lowered.plan)));
      plan::VerifyOptions options;
      options.ranks = {1, 2, 3};
      if (!lowered.plan.requirements.empty()) options.ranks = plan::admitted_ranks(lowered.plan);
      if (options.ranks.size() > 3) options.ranks.resize(3);
      const plan::Verdict verdict = plan::verify(lowered.plan, options);
      ASSERT_TRUE(verdict.ok()) << plan::print(verdict.findings[0]);
      const std::vector<int> admitted = plan::admitted_ranks(lowered.plan);
      for (size_t at = 0; at < admitted.size() && admitted[at] <= most_ranks; at += static_cast<size_t>(channels)) {
        const int ranks = admitted[at];
        Agreement how;
        how.exact = exact;
        how.chunk.assign(lowered.plan.spaces.size(), 16 + static_cast<int64_t>(seed % 17));
        agree(naive, program, lowered, ranks, sizing, seed++, how);
        if (testing::Test::HasFailure()) return;
      }
    }
}

}  // namespace weft::lower
