// The verifier: rules V1 to V16 of docs/plan.md, by executing three launches on symbolic cells with vector clocks.
// All findings, each with rule, rank, lane, channel, step, cell. Verdicts are cached by plan hash and options.
#pragma once

#include <string>
#include <vector>

#include "weft/plan/plan.h"

namespace weft::plan {

struct Finding {
  std::string rule;
  int rank = -1;
  Id lane;
  int channel = -1;
  std::string step, cell, message;
};
std::string print(const Finding& finding);

struct VerifyOptions {
  std::vector<int> ranks;  // empty: those of 1..9 that `require` admits
  std::map<Id, std::string> params;
  int max_findings = 20;
  std::function<bool(int rank, int peer)> mappable;  // V3; empty: every peer
  bool cache = true;                                 // read and keep verdicts under cache_directory()
};
struct Verdict {
  std::vector<Finding> findings;
  std::vector<int> ranks;
  int64_t steps = 0;
  bool ok() const { return findings.empty(); }
};

Verdict verify(const Plan& plan, const VerifyOptions& options = {});
// Throws Error(plan) with the first findings.
void require_verified(const Plan& plan, const VerifyOptions& options = {});
// The numbers of ranks from 1 to 9 that the plan's `require` lines admit.
std::vector<int> admitted_ranks(const Plan& plan, const std::map<Id, std::string>& params = {});
// Removes awaits that others imply and sets depth 1 where that suffices, by the same machinery (lowering's last pass).
Plan trim(const Plan& plan, const VerifyOptions& options = {});

}  // namespace weft::plan
