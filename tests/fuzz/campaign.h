// Fuzzing of what Weft promises, shared by the tests (seconds, or minutes under WEFT_SLOW), the benchmark (figures) and the
// tests that plant faults. One call is one trial, decided by its seed alone: a fault's text names the seed that shows it
// again. Nothing here judges by itself: the reference evaluator says what a program means, the interpreter what a plan does.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "weft/lower/lower.h"
#include "weft/plan/verify.h"
#include "weft/schedule/schedule.h"

namespace weft::fuzz {

// What trials have seen.
struct Tally {
  int64_t programs = 0, rewrites = 0, refused = 0;     // rewrites: accepted, and the meaning compared
  int64_t lowered = 0, unsupported = 0, on_ranks = 0;  // plans compared in the interpreter; on CPU ranks, with delays
  // Lowered to a plan that its verifier refuses: nobody gets a wrong answer, but nobody gets one at all. By rule: a program.
  int64_t unverified = 0;
  std::map<std::string, std::string> unverified_by_rule;
  int64_t mutants = 0, rejected = 0, still_right = 0;  // of schedules and of plans
  int64_t unexplained = 0;                             // accepted, and wrong or not known why right
  std::map<std::string, int64_t> kinds;                // of mutants that are still right
  std::vector<std::string> faults;                     // what must not be
};

// Where a test plants a fault. Empty: the product as it is.
struct Planted {
  // After a rewrite was applied (or a schedule replayed): another program.
  std::function<ir::Program(const ir::Program& after, const std::string& directive)> rewrite;
  std::function<void(plan::Plan&)> lowering;
  std::function<bool(const plan::Finding&)> verifier_misses;  // findings that it does not have
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint64_t bits() { return engine_(); }
  int pick(int n) { return n < 1 ? 0 : static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return pick(100) < percent; }
  template <typename T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<size_t>(pick(static_cast<int>(list.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

// A random program of integers over [A, B]: contributions, whole, cut and rooted values, states, folds, products, every
// collective; `staged`: half of the time on the stages of a pipeline. Inference decides what is kept of what is proposed.
std::string random_program(Random& random, bool staged);

// A random walk of rewrites over a random program: each accepted one keeps the meaning, exactly; the end erases to the program.
void try_rewrites(uint64_t seed, Tally& tally, const Planted& planted = {});
// Schedules of a random program, lowered in random ways and run on 1 to 8 ranks in random orders with random delays; some
// on threads with random delays.
void try_lowering(uint64_t seed, Tally& tally, const Planted& planted = {});
// Lines and words of a valid schedule, changed: refused, or the meaning is kept, and the plan's results are right.
void try_schedule_mutants(uint64_t seed, Tally& tally, const Planted& planted = {});

// ---- plans
struct ShippedPlan {
  std::string name, text;
};
const std::vector<ShippedPlan>& shipped_plans();  // tests/cases/plan, tests/cases/lower, and the registry's

struct PlanMutant {
  size_t plan = 0;             // of shipped_plans()
  std::string kind, line, to;  // to: what the line has become
  std::string text;
  std::string name() const;
};
std::vector<PlanMutant> mutants_of(size_t plan);
const std::vector<PlanMutant>& all_mutants();
// Why a mutant of this kind can be none: "" where there is no such reason.
std::string reason_of(const std::string& kind);

enum class Fate { rejected, still_right, wrong };
// The verifier rejects it; or its results are those of the original in the interpreter, in several orders with delays, on
// several numbers of ranks; or neither, which is a fault.
Fate try_plan_mutant(const PlanMutant& mutant, Tally& tally, const Planted& planted = {});

// Calls trial(seed), trial(seed + 1) ... for so many seconds and at most so many times, until a fault is found; at least
// once. Returns how many.
int64_t for_seconds(double seconds, uint64_t seed, const Tally& tally, const std::function<void(uint64_t)>& trial,
                    int64_t most = int64_t{1} << 60);

// Failures of gtest's macros, and exceptions, within `act`, as text: "" if there are none.
std::string failures_in(const std::function<void()>& act);

}  // namespace weft::fuzz
