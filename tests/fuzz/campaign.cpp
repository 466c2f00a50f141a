#include "tests/fuzz/campaign.h"

#include <gtest/gtest-spi.h>

namespace weft::fuzz {

std::string failures_in(const std::function<void()>& act) {
  testing::TestPartResultArray results;
  std::string text;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    try {
      act();
    } catch (const std::exception& error) { text = error.what(); }
  }
  for (int i = 0; i < results.size(); ++i)
    if (results.GetTestPartResult(i).failed())
      text += std::string(text.empty() ? "" : "\n") + results.GetTestPartResult(i).message();
  return text;
}

int64_t for_seconds(double seconds, uint64_t seed, const Tally& tally, const std::function<void(uint64_t)>& trial,
                    int64_t most) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int64_t trials = 0;
  do trial(seed + static_cast<uint64_t>(trials++));
  while (trials < most && std::chrono::steady_clock::now() < end && tally.faults.empty());
  return trials;
}

// Kinds begin with what the line is for, where that is the plan's goal (plan_mutants.cpp).
std::string reason_of(const std::string& kind) {
  static const std::map<std::string, std::string> reasons = {
      {"same steps",
       "it unfolds to the original's steps on 1 to 8 ranks: numbers wrap, names of steps that nobody awaits"},
      {"await", "other awaits, messages or the lane's order imply it"},
      {"slots",
       "slots bound how far a sender runs ahead, not what it sends; one is enough here, or more are not needed"},
      {"protocol", "the protocol says how a message travels, not what it is"},
      {"channels", "another number of channels: the same elements, shared out otherwise"},
      {"swap", "the two touch nothing in common, or are declarations, whose order means nothing"},
      {"order", "targets take the same value in any order; of two summands a + b is b + a"},
      {"part", "part numbers wrap: where there is one part, or all are named, a shift changes nothing"},
      {"peer", "peers wrap, a range that names all of them is shifted, or the peer is none and stays none"},
      {"lag", "messages or other awaits of the same chunk hold the reader back already"},
      {"twice", "done again with the same operands it gives the same, and nobody else looks in between"},
      {"declared depth",
       "the reader of a chunk is awaited before the next one is written; a deeper buffer only holds more"},
      {"declared number", "a larger buffer, or other units of its parts: the same elements, cut otherwise"},
      {"declared sign", "even parts or equal ones: the same where sizes allow both"},
      {"declared swap", "the order of declarations is the caller's concern, not the steps'"},
      {"declared twice", "the order of declarations is the caller's concern, not the steps'"},
      {"declared word", "a permission that the steps do not use, or memory that is held in full instead of in part"},
      {"declared name", "the buffer lies in a space that is cut alike"},
      {"kernel name", "another kernel, which the post names: the plan computes it"},
      {"kernel number", "another kernel, which the post names: the plan computes it"},
      {"kernel sign", "another kernel, which the post names: the plan computes it"},
      {"kernel line", "another kernel, which the post names: the plan computes it"},
      {"kernel twice", "another kernel, which the post names: the plan computes it"},
      {"kernel swap", "two assignments that do not read each other"},
      {"param line", "a requirement that is not needed on the ranks looked at, or a default"},
      {"param number", "another root or another size: the plan is right for each"},
      {"param sign", "another dtype: the plan is right for each"},
      {"param swap", "the order of declarations means nothing"},
      {"promise line", "a promise at its default, or a weaker one"},
      {"promise swap", "the order of promises means nothing"},
      {"promise sign", "a weaker promise"},
      {"number", "the bytes are the original's: a step that moves nothing on these ranks, or brings what is there"},
      {"sign", "the bytes are the original's: a step that moves nothing on these ranks, or brings what is there"},
      {"name", "the bytes are the original's: another buffer of the same content, or a name that says the same here"},
      {"operand", "the bytes are the original's: an operand that is absent here, or brings what is there"},
      {"step", "the bytes are the original's: a step that moves nothing on these ranks"},
      {"line",
       "the bytes are the original's: a declaration at its default, or a step that moves nothing on these ranks"},
      {"declared line", "a buffer or space that no step needs"},
      {"declared order", "the order of declarations is the caller's concern, not the steps'"},
      {"kernel order", "another kernel, which the post names: the plan computes it"},
      {"kernel operand", "another kernel, which the post names: the plan computes it"},
      {"param twice", "a requirement said twice"},
      {"param name", "another requirement, which holds on the ranks looked at"},
      {"promise name", "a weaker promise"},
      {"promise twice", "a promise said twice"},
      {"post line", "one post less: less is asked"},
      {"post number", "the post asks for less, or for the same: parts and ranks wrap"},
      {"post name", "the post asks for less, or for the same: parts and ranks wrap"},
      {"post sign", "the post asks for less, or for the same: parts and ranks wrap"},
      {"post swap", "the order of posts means nothing"},
      {"post twice", "the same is asked twice"},
  };
  const auto found = reasons.find(kind);
  return found == reasons.end() ? "" : found->second;
}

}  // namespace weft::fuzz
