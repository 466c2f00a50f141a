// From times to a line: what a rank's GPU did, and where it started operations and waited for them. Internal to the room.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/trace/kineto.h"

namespace weft::trace {

struct Stretch {
  int64_t begin_ns = 0, end_ns = 0;
};
struct TimedOperation {
  Operation operation;
  int64_t begin_ns = 0, end_ns = 0, launch_ns = 0, event = 0;
};

// `busy`: of computation and copies, in any order. `operations` are sorted by their starts. Played again with measured_ns it
// takes what the trace took, to the nanosecond. `notes`: what was assumed, and the event where.
RankLine make_line(std::vector<Stretch> busy, std::vector<TimedOperation>& operations,
                   std::vector<std::pair<std::string, int64_t>>& notes);

// A rank's operations as the files had them, beside job.lines.
struct RankTimes {
  std::string file;
  std::vector<TimedOperation> operations;
};
// Operations of a group are the same, one by one, on all its ranks that are known. Error(agreement) names the first two
// events that differ.
void check_groups(const Job& job, const std::vector<RankTimes>& times);
// begin_ns of each line, on the first rank's clock: operations that all leave together end at one instant, so the median of
// the differences is how far a clock is off.
void align_clocks(Job& job, const std::vector<RankTimes>& times, Report& report);

}  // namespace weft::trace
