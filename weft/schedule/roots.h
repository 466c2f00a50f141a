// Rule L3 at a launch, of a program and its schedule: `split x root k` names a rank too.
#pragma once

#include "weft/schedule/schedule.h"

namespace weft::schedule {

// Every root that the program or the schedule names is a rank of its group. Error(user), L3, names the statement, or the
// split.
void check_roots(const ir::Program& naive, const Schedule& schedule, const ir::Sizes& sizes);

}  // namespace weft::schedule
