// Any plan of the registry on numbers, against the meaning of its collective cell by cell: what y holds for part p on
// rank r is a left fold over ranks, or another rank's part. Two launches with different data, random schedules; what a
// rank does not have is bound to null; results are poisoned and have canaries behind them.
#pragma once

#include <gtest/gtest.h>

#include "weft/algo/algorithm.h"
#include "weft/plan/interpret.h"

namespace weft::algo {

struct Case {
  PlanRequest request;
  int ranks = 1;
  int64_t elements = 0;         // of the whole value; equal parts: of one part
  std::vector<int64_t> counts;  // given: per part (all_to_all: ranks x ranks, row by row)
  int64_t chunk = 8;
  uint64_t seed = 0;
  double scale = 1;
  bool in_place = false;  // y where x is, if the plan allows it
};

// Expects what the collective means; `who` names the case in failures.
void expect_cells(const plan::Plan& plan, const Case& test, const std::string& who);

}  // namespace weft::algo
