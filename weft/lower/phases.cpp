// Pass 3: units are cut into phases.
//
// A phase is one loop (one per space, where a unit has several) and what follows from its folds. A value is in the next
// phase if it reads, element by element, something that exists only when a loop is over: a finished fold, or a value of
// another loop. Small values that need no loop of their unit come first, in phase -1.
#include <algorithm>

#include "weft/lower/work.h"

namespace weft::lower {

void find_phases(Work& work) {
  for (Value& v : work.values) {
    if (!v.op) continue;
    const int mine = loop_space(work, *v.op);
    v.phase = mine >= 0 ? 0 : -1;
    for (const ir::Name& arg : v.op->args) {
      const Value& from = work.value(arg);
      if (!from.op || from.unit != v.unit) continue;
      const bool contributes = is_scatter(*v.op) || is_op(*v.op, "all_reduce");  // peers read it: it must be in memory
      const bool moved = is_move(*from.op) && mine >= 0;
      const bool waits =
          moved || (mine >= 0 && (from.grade != Grade::big || loop_space(work, *from.op) != mine || contributes));
      v.phase = std::max(v.phase, from.phase + (waits ? 1 : 0));
    }
  }
}

}  // namespace weft::lower
