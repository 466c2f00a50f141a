// What a launch wants verified: the plan as such, and the number of ranks there are.
#pragma once

#include "weft/plan/verify.h"

namespace weft::plan {

// Verifies for the numbers of ranks that verify() takes (options.ranks is empty), and for `ranks` where that is at most
// 64, not among them, and costs about a second or less: predicted from the steps of those that were run, so that every
// machine decides alike. Where none were run, whatever it costs. Throws Error(plan) with the first findings.
void require_verified_here(const Plan& plan, int ranks, const VerifyOptions& options);

// Steps that a run for `ranks` is expected to take, by what `verdict` took: they grow with the square.
double predicted_steps(const Verdict& verdict, int ranks);

}  // namespace weft::plan
