// The figures of `./dev bench fuzz`: how much is tried in a stated time, and what came of it. The trials are those of the test
// suite (tests/fuzz). Arguments: seconds for each kind of trial, and a seed. Lines: NAME VALUE; behind `#`, for people.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/campaign.h"
#include "tests/fuzz/planted.h"

namespace {

using weft::fuzz::Tally;

void add(const Tally& tally, Tally& all) {
  all.programs += tally.programs;
  all.rewrites += tally.rewrites;
  all.mutants += tally.mutants;
  all.unexplained += tally.unexplained;
  for (const std::string& fault : tally.faults) {
    std::printf("# FAULT %s\n", fault.substr(0, fault.find('\n')).c_str());
    std::fprintf(stderr, "%s\n", fault.c_str());
  }
  for (const auto& [kind, count] : tally.kinds) all.kinds[kind] += count;
}

// As long as it is asked to, however many faults there are: a figure must not end at the first.
template <typename Trial>
void run(const char* name, double seconds, uint64_t seed, Tally& all, const Trial& trial) {
  Tally sum;
  weft::fuzz::for_seconds(seconds, seed, Tally(), [&](uint64_t s) {
    Tally one;
    trial(s, one);
    sum.lowered += one.lowered, sum.unsupported += one.unsupported, sum.unverified += one.unverified;
    sum.refused += one.refused, sum.rejected += one.rejected, sum.still_right += one.still_right;
    sum.programs += one.programs, sum.rewrites += one.rewrites, sum.mutants += one.mutants;
    sum.unexplained += one.unexplained;
    for (const std::string& fault : one.faults) sum.faults.push_back(fault);
    for (const auto& [kind, count] : one.kinds) sum.kinds[kind] += count;
  });
  std::printf(
      "# %s: %lld programs, %lld rewrites (%lld refused), %lld plans right (%lld not lowered, %lld refused by the "
      "verifier), %lld mutants (%lld rejected, %lld still right), %zu faults\n",
      name, static_cast<long long>(sum.programs), static_cast<long long>(sum.rewrites),
      static_cast<long long>(sum.refused), static_cast<long long>(sum.lowered), static_cast<long long>(sum.unsupported),
      static_cast<long long>(sum.unverified), static_cast<long long>(sum.mutants), static_cast<long long>(sum.rejected),
      static_cast<long long>(sum.still_right), sum.faults.size());
  add(sum, all);
}

double planted_share(uint64_t seed) {
  int found = 0, planted = 0;
  for (const weft::fuzz::PlantedFault& fault : weft::fuzz::planted_faults()) {
    const bool seen = fault.find(seed, 60);
    std::printf("# planted: %s: %s\n", fault.name.c_str(), seen ? "found" : "NOT FOUND");
    found += seen, ++planted;
  }
  return planted > 0 ? static_cast<double>(found) / planted : 0;
}

}  // namespace

int main(int count, char** words) {
  using namespace weft::fuzz;
  const double seconds = count > 1 ? std::atof(words[1]) : 20;
  const uint64_t seed = count > 2 ? std::strtoull(words[2], nullptr, 10) : 20241;
  std::printf("# seed %llu, %g seconds for each kind\n", static_cast<unsigned long long>(seed), seconds);
  Tally all, schedules, plans;
  run("rewrites", seconds, seed, all, [](uint64_t s, Tally& t) { try_rewrites(s, t); });
  run("lowering", seconds, seed, all, [](uint64_t s, Tally& t) { try_lowering(s, t); });
  const double programs_per_s = static_cast<double>(all.programs) / (2 * seconds);
  run("schedules", seconds, seed, schedules, [](uint64_t s, Tally& t) { try_schedule_mutants(s, t); });
  Random random(seed);
  run("plans", 2 * seconds, seed, plans, [&](uint64_t, Tally& t) { try_plan_mutant(random.of(all_mutants()), t); });
  for (const auto& [kind, survivors] : plans.kinds)
    std::printf("# survivors, explained: %-16s %lld\n", kind.c_str(), static_cast<long long>(survivors));
  std::printf("programs_per_s %g\nrewrites_checked %lld\nmutants %lld\nmutants_survived_unexplained %lld\n",
              programs_per_s, static_cast<long long>(all.rewrites),
              static_cast<long long>(schedules.mutants + plans.mutants),
              static_cast<long long>(schedules.unexplained + plans.unexplained));
  std::printf("planted_found_share %g\n", planted_share(seed));
}
