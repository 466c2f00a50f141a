// Plans are uniform in n, so 1 to 9 ranks show nearly everything; what is left is an index that first wraps, or a branch
// first taken, beyond. Verifying n itself closes that, at a cost that grows with the square of n in steps and more in
// terms: 32 ranks take about half a second for a ring, 64 take five. Hence the bound.
#include "weft/plan/verify_here.h"

#include <algorithm>

namespace weft::plan {
namespace {

constexpr int most_ranks = 64;
constexpr double most_steps = 200'000;  // 5 to 10 us each

}  // namespace

double predicted_steps(const Verdict& verdict, int ranks) {
  double squares = 0;
  for (const int n : verdict.ranks) squares += static_cast<double>(n) * n;
  return squares > 0 ? static_cast<double>(verdict.steps) * ranks * ranks / squares : 0;
}

void require_verified_here(const Plan& plan, int ranks, const VerifyOptions& options) {
  const Verdict verdict = verify(plan, options);
  if (!verdict.ok()) return require_verified(plan, options);  // throws
  const bool known = std::count(verdict.ranks.begin(), verdict.ranks.end(), ranks) > 0;
  if (known || ranks > most_ranks || predicted_steps(verdict, ranks) > most_steps) return;
  VerifyOptions here = options;
  here.ranks = {ranks};
  require_verified(plan, here);
}

}  // namespace weft::plan
