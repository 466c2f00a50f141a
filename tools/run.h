// What the two halves of `weft run` share: programs (run.cpp), and plans that come without one (run_plan.cpp).
#pragma once

#include "tools/verbs.h"

namespace weft::tools {

struct RunAsked {
  ProgramOptions program;
  std::string schedule = "tuned";
  std::vector<std::string> params;  // of a plan: T=i32
  int rounds = 5;
  bool private_buffers = false;
  bool schedule_given = false, ranks_given = false;
  int64_t check_elements = 1 << 20;
};
// A plan or an MSCCL schedule: verified, run, checked, timed. Error(plan) with rule, rank and step for one that is not right.
void run_plan(const RunAsked& asked);

}  // namespace weft::tools
