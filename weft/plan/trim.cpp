// trim(): fewer awaits and less memory, decided by the verifier.
//
// Whoever writes or lowers a plan places awaits by a rule that is surely right and often too much; a barrier on every
// step is cheap to write and dear to run. Ways: reason about implication of awaits (a second verifier, to be kept equal
// to the first), or take one away and ask the verifier. We ask. Each question is put on few ranks, and the answer as a
// whole once more on all of them.
#include <functional>

#include "weft/plan/verify.h"

namespace weft::plan {

namespace {

constexpr size_t few = 3;  // numbers of ranks for a single question

void each_step(Body& body, const std::function<void(Step&)>& f) {
  for (Item& item : body) {
    if (auto* step = std::get_if<Step>(&item))
      f(*step);
    else if (auto* loop = std::get_if<Loop>(&item))
      each_step(loop->body, f);
    else if (auto* repeat = std::get_if<For>(&item))
      each_step(repeat->body, f);
    else
      each_step(std::get<When>(item).body, f);
  }
}

// A step without operands is a point to wait for: without its awaits it waits for nothing, and is still there.
Plan trimmed(Plan plan, const std::function<bool(const Plan&)>& holds) {
  std::vector<Step*> steps;
  for (Lane& lane : plan.lanes) each_step(lane.body, [&](Step& step) { steps.push_back(&step); });
  for (Step* step : steps)
    for (size_t i = step->after.size(); i > 0; --i) {
      const Await removed = step->after[i - 1];
      step->after.erase(step->after.begin() + static_cast<std::ptrdiff_t>(i - 1));
      if (!holds(plan)) step->after.insert(step->after.begin() + static_cast<std::ptrdiff_t>(i - 1), removed);
    }
  for (Buffer& buffer : plan.buffers) {
    const int depth = buffer.depth;
    if (depth <= 1) continue;
    buffer.depth = 1;
    if (!holds(plan)) buffer.depth = depth;
  }
  return plan;
}

}  // namespace

Plan trim(const Plan& plan, const VerifyOptions& options) {
  require_verified(plan, options);
  VerifyOptions question = options;
  question.max_findings = 1;
  question.cache = false;
  if (question.ranks.empty()) {
    std::vector<int> admitted = admitted_ranks(plan, options.params);
    if (!admitted.empty() && admitted[0] == 1 && admitted.size() > 1) admitted.erase(admitted.begin());
    if (admitted.size() > few) admitted.resize(few);
    question.ranks = admitted;
  }
  const Plan result = trimmed(plan, [&](const Plan& candidate) { return verify(candidate, question).ok(); });
  if (verify(result, options).ok()) return result;
  VerifyOptions whole = options;
  whole.max_findings = 1;
  whole.cache = false;
  return trimmed(plan, [&](const Plan& candidate) { return verify(candidate, whole).ok(); });
}

}  // namespace weft::plan
