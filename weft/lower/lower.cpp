// The compiler, told in order.
//
// A program says what is computed and, after its schedule, where; a plan says which step of which lane moves and
// computes which part when. Between them lie ten passes, each a function in a file of its own. Every pass decides one
// thing and leaves a sentence true that the next ones lean on; with WEFT_VERIFY on, the sentence is checked here.
//
// Decisions are few because the program already made the large ones: the layout of each value is in its type, what is
// fused is in its blocks. What is left is where values live, which loops there are, and how halves of collectives join.
#include "weft/lower/check.h"

namespace weft::lower {

Lowered lower(const ir::Program& scheduled, const std::vector<schedule::LaunchConfig>& launches,
              const LowerOptions& options) {
  const bool verify = env_flag("WEFT_VERIFY");

  // 0. Preparation: what has no step of its own is said with statements that have one.
  const ir::Program program = prepared(scheduled);
  Work work(program, launches, options);

  // 1. Units: a statement, or an outermost block. From here on order is fixed; nothing is scheduled any more.
  take_units(work);
  choose(work);

  // 2. Spaces: every value has a space, and two values of one step have the same or one is read whole.
  lay_out_spaces(work);
  if (verify) check_spaces(work);

  // 3. Phases: every loop is chunk by chunk; only small values cross loops whole.
  find_phases(work);
  if (verify) check_phases(work);

  // 4. Places: every value that is read in another step has exactly one place to read.
  find_places(work);
  if (verify) check_places(work);

  // 5. Loops with collectives at their joints, 6. what is done once, 7. lanes: every step is of the plan's one form.
  emit(work);

  // 8. Posts: the plan says what it must compute.
  state_posts(work);

  // 9. Trim, and the recipe of a launch.
  trim(work);
  finish(work);
  if (verify) check_plan(work);
  work.out.identity = ir::print(scheduled);
  for (const schedule::LaunchConfig& line : launches) work.out.identity += identity(line);
  return std::move(work.out);
}

}  // namespace weft::lower
