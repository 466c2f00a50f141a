// Lowered programs on numbers: the interpreter runs the plan, the reference evaluator the user's program; they agree.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "weft/ir/evaluate.h"
#include "weft/lower/lower.h"
#include "weft/plan/interpret.h"
#include "weft/plan/verify.h"

namespace weft::lower {

std::string read_example(const std::string& name);
std::string replace_all(std::string text, const std::string& from, const std::string& to);
// The schedule of program.md: split, reorder everything behind, store, one group.
schedule::Schedule fused_schedule(const std::string& example, const std::string& launch = "");

struct Sizing {
  std::map<std::string, int64_t> dims;
  std::vector<std::vector<int64_t>> shapes;
};  // shapes: of `tensors P`

struct Agreement {
  int launches = 2;
  double tolerance = 2e-5;  // relative to 1 + |value|
  bool exact = false;       // integer programs
  bool round_named = true;
  double delay = 0;            // of the interpreter's lanes
  std::vector<int64_t> chunk;  // per space; empty: the lowered one's
};

// Runs `lowered` (of a schedule of `naive`) and `naive` on the same random data; fails the test where they differ.
// Returns the largest relative difference.
double agree(const ir::Program& naive, const ir::Program& scheduled, const Lowered& lowered, int ranks,
             const Sizing& sizing, uint64_t seed, const Agreement& how);

// What results the plan leaves on every rank, whole where a rank has all of it (NaN where it has not), by name.
using Results = std::map<ir::Name, std::vector<std::vector<double>>>;
Results run_plan(const ir::Program& naive, const ir::Program& scheduled, const Lowered& lowered, int ranks,
                 const Sizing& sizing, uint64_t seed, const Agreement& how);

}  // namespace weft::lower
