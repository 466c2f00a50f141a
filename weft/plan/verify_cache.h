// Verdicts on disk: a plan that was accepted once is accepted again without a run. Only acceptances are kept; a file
// that is damaged, foreign or of another version counts as absent, and one that cannot be written is no error.
#pragma once

#include <optional>
#include <string>

#include "weft/plan/verify.h"

namespace weft::plan {

// All that the verdict depends on: the canonical text, ranks, parameters, what can be mapped, the verifier's version.
std::string verdict_key(const Plan& plan, const VerifyOptions& options);
std::optional<Verdict> read_verdict(const std::string& key);
void write_verdict(const std::string& key, const Verdict& verdict);

}  // namespace weft::plan
