// V8b. Loops that exchange messages or await each other chunk by chunk go through their iterations together: a stage. A
// lane has at most one block in a stage, and stages, ordered by lanes and whole awaits, have no cycle. Then what holds
// for a few iterations holds for any number: without this rule a plan that sends in one loop and receives in the next
// passes with as many chunks as there are slots, and hangs with more.
#include <functional>
#include <map>
#include <numeric>

#include "weft/plan/verify_run.h"

namespace weft::plan {

namespace {

using Place = std::pair<int, int>;  // lane, block

class Stages {
 public:
  Stages(const SymbolicRun& run, Findings& findings) : subject_(run.subject()), findings_(findings) {
    for (size_t lane = 0; lane < subject_.assembly.lanes.size(); ++lane)
      for (size_t block = 0; block < subject_.assembly.lanes[lane].blocks.size(); ++block) {
        ids_[{static_cast<int>(lane), static_cast<int>(block)}] = static_cast<int>(places_.size());
        places_.emplace_back(static_cast<int>(lane), static_cast<int>(block));
      }
    parent_.resize(places_.size());
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const auto& [a, b] : run.joined()) join(ids_[a], ids_[b]);
    read_awaits();
  }

  void check() {
    std::map<std::pair<int, int>, int> of_lane;  // (stage, lane) -> block
    std::map<int, std::vector<int>> after;
    for (size_t i = 0; i < places_.size(); ++i) {
      const auto [lane, block] = places_[i];
      const int stage = find(static_cast<int>(i));
      const auto [place, fresh] = of_lane.try_emplace({stage, lane}, block);
      if (!fresh) {
        fault(lane, block,
              fmt::format("this block and block {} of its lane exchange messages or awaits chunk by chunk (directly or "
                          "through others): with many "
                          "chunks the first would have to wait for the second. Remedy: one loop for both",
                          place->second + 1));
        return;
      }
      if (block > 0) after[find(ids_[{lane, block - 1}])].push_back(stage);
    }
    for (const auto& [a, b] : whole_) after[find(a)].push_back(find(b));
    std::map<int, int> state;
    for (const auto& [stage, unused] : after)
      if (!visit(stage, after, state)) return;
  }

 private:
  void read_awaits() {
    for (size_t i = 0; i < places_.size(); ++i) {
      const auto [lane, block] = places_[i];
      const AssembledBlock& here =
          subject_.assembly.lanes[static_cast<size_t>(lane)].blocks[static_cast<size_t>(block)];
      for (const AssembledStep& step : here.steps)
        for (const Awaited& awaited : step.after) {
          const int other = ids_[{awaited.lane, awaited.block}];
          if (other == static_cast<int>(i)) continue;
          const bool loop = subject_.assembly.lanes[static_cast<size_t>(awaited.lane)]
                                .blocks[static_cast<size_t>(awaited.block)]
                                .head.loop;
          if (here.head.loop && loop)
            join(static_cast<int>(i), other);
          else
            whole_.emplace_back(other, static_cast<int>(i));
        }
    }
  }

  bool visit(int stage, std::map<int, std::vector<int>>& after, std::map<int, int>& state) {
    state[stage] = 1;
    for (int next : after[stage]) {
      if (next == stage || state[next] == 1) {
        const auto [lane, block] = places_[static_cast<size_t>(next)];
        fault(lane, block,
              "the loops of this block and of others wait for each other's ends in a circle. Remedy: await the same "
              "chunk, or order the lanes");
        return false;
      }
      if (!state.contains(next) || state[next] == 0)
        if (!visit(next, after, state)) return false;
    }
    state[stage] = 2;
    return true;
  }

  void fault(int lane, int block, const std::string& message) {
    findings_.add(subject_.at(lane, block, 0, "V8", message), "stage");
  }
  int find(int i) {
    while (parent_[static_cast<size_t>(i)] != i)
      i = parent_[static_cast<size_t>(i)] = parent_[static_cast<size_t>(parent_[static_cast<size_t>(i)])];
    return i;
  }
  void join(int a, int b) { parent_[static_cast<size_t>(find(a))] = find(b); }

  const Subject& subject_;
  Findings& findings_;
  std::vector<Place> places_;
  std::map<Place, int> ids_;
  std::vector<int> parent_;
  std::vector<std::pair<int, int>> whole_;  // first leaves before second goes on
};

}  // namespace

void check_stages(const SymbolicRun& run, Findings& findings) { Stages(run, findings).check(); }

}  // namespace weft::plan
