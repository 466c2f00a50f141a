// Launch lines: how a collective or a group is run. No value depends on them but through the order of sums.
#pragma once

#include <string>
#include <vector>

#include "weft/base/text.h"
#include "weft/schedule/schedule.h"

namespace weft::schedule {

LaunchConfig parse_launch(const SourceLine& line);  // F1, F4
std::string print_launch(const LaunchConfig& launch);
void check_launches(const std::vector<LaunchConfig>& launches);  // F2: one line a target
// F3: every target is a statement or a block of the scheduled program, or `*`.
void check_targets(const std::vector<LaunchConfig>& launches, const ir::Program& scheduled);

}  // namespace weft::schedule
