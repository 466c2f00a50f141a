// The verifier's story: for every number of ranks lay the plan out, look at it without running it, then run it on terms
// in every variant, and look at what happened. The first number of ranks with a finding ends it: later ones would say
// the same.
#include "weft/plan/verify.h"

#include <algorithm>
#include <set>

#include "weft/plan/verify_cache.h"
#include "weft/plan/verify_post.h"
#include "weft/plan/verify_run.h"

namespace weft::plan {

namespace {

constexpr int most_small_ranks = 9;
constexpr int most_ranks_for_cover = 32;       // V15: further numbers of ranks are tried where a step has not run
constexpr int most_ranks_for_parameters = 12;  // and other values of parameters, with fewer

using Ran = std::set<std::pair<int, int>>;  // (lane of the text, step of the text)

bool is_integer(const std::string& text) {
  return !text.empty() && text.find_first_not_of("-0123456789") == std::string::npos;
}

// Does `require` admit n ranks? A line that cannot be evaluated is left to Instance, which says why.
bool admits(const Plan& plan, int ranks, const std::map<Id, std::string>& params) {
  std::map<std::string, Expr> values{{"n", expr::integer(ranks)}};
  for (const Param& param : plan.params) {
    const auto given = params.find(param.name);
    const std::string& text = given == params.end() ? param.value : given->second;
    if (is_integer(text)) values[param.name] = expr::integer(std::stoll(text));
  }
  try {
    for (const Expr& requirement : plan.requirements) {
      const expr::IntCode code(expr::substitute(requirement, values), [](const std::string&) { return -1; }, {});
      if (code.run(nullptr) == 0) return false;
    }
  } catch (const Error&) {}
  return true;
}

int deepest(const Body& body) {  // largest lag
  int most = 0;
  for (const Step* step : text_steps(body))
    for (const Await& await : step->after) most = std::max(most, await.lag);
  return most;
}

std::vector<Variant> variants(const Plan& plan) {
  int reach = 0;
  for (const Buffer& buffer : plan.buffers) reach = std::max(reach, buffer.depth);
  for (const Lane& lane : plan.lanes) reach = std::max(reach, deepest(lane.body));
  const bool aliases =
      std::any_of(plan.buffers.begin(), plan.buffers.end(), [](const Buffer& b) { return !b.alias.empty(); });
  const bool given =
      std::any_of(plan.spaces.begin(), plan.spaces.end(), [](const Space& s) { return s.kind == Space::Kind::given; });
  const bool even =
      std::any_of(plan.spaces.begin(), plan.spaces.end(), [](const Space& s) { return s.kind == Space::Kind::even; });
  std::vector<Variant> list;
  for (bool alias : {true, false}) {
    if (alias && !aliases) continue;
    std::set<int> chunks{1, 2, reach + 2};
    for (int l : chunks) list.push_back({l, alias, false, 0});
    for (uint64_t seed = 1; given && seed <= 3; ++seed) list.push_back({1, alias, false, seed});
  }
  if (even) list.push_back({2, aliases, true, 0});
  return list;
}

void cover(const Assembly& assembly, Ran& ran) {
  for (const AssembledLane& lane : assembly.lanes)
    for (const AssembledBlock& block : lane.blocks)
      for (const AssembledStep& step : block.steps)
        if (!step.flat.operands.empty()) ran.emplace(lane.lane, step.flat.source_step);
}

// Steps with operands that ran nowhere (those without are points to wait for).
std::vector<std::pair<int, const Step*>> uncovered(const Plan& plan, const Ran& ran) {
  std::vector<std::pair<int, const Step*>> list;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const std::vector<const Step*> steps = text_steps(plan.lanes[lane].body);
    for (size_t s = 0; s < steps.size(); ++s)
      if (!steps[s]->targets.empty() && !ran.contains({static_cast<int>(lane), static_cast<int>(s)}))
        list.emplace_back(static_cast<int>(lane), steps[s]);
  }
  return list;
}

int64_t verify_ranks(const Plan& plan, int ranks, const VerifyOptions& options, Findings& findings, Ran& ran) {
  const Instance instance(plan, ranks, options.params);
  const Assembly assembly = assemble(instance);
  Terms terms(instance);
  KernelTerms kernels(instance, terms);
  const Subject subject = make_subject(instance, assembly, terms, kernels);
  check_static(subject, options, findings);
  int64_t steps = 0;
  if (!findings.empty()) return steps;
  for (const Variant& variant : variants(plan)) {
    SymbolicRun run(subject, variant, findings);
    const bool whole = run.run();
    steps += run.steps();
    if (whole) check_posts(run);
    if (whole) check_stages(run, findings);
    if (!findings.empty()) return steps;
  }
  cover(assembly, ran);
  return steps;
}

// The parameters as given, then each integer one at other small values: a step that the given values leave out
// (`for j in 2..k` with k = 2) is tried where it runs.
std::vector<std::map<Id, std::string>> parameter_choices(const Plan& plan, const std::map<Id, std::string>& given) {
  std::vector<std::map<Id, std::string>> list{given};
  for (const Param& param : plan.params)
    for (int value = 1; value <= 4 && is_integer(param.value); ++value) {
      list.push_back(given);
      list.back()[param.name] = std::to_string(value);
    }
  return list;
}

// Would n ranks with these parameters run a step that has not run? What does not load there, does not.
bool adds_cover(const Plan& plan, int ranks, const std::map<Id, std::string>& params, const Ran& ran) {
  if (!admits(plan, ranks, params)) return false;
  try {
    const Instance instance(plan, ranks, params);
    Ran here = ran;
    cover(assemble(instance), here);
    return here.size() > ran.size();
  } catch (const Error&) { return false; }
}

// V15: verifies further ranks and parameters at which steps run that have not run so far; what is left is a finding.
void cover_rest(const Plan& plan, const VerifyOptions& options, Findings& findings, Ran& ran, Verdict& verdict) {
  for (const auto& params : parameter_choices(plan, options.params))
    for (int n = 1; n <= most_ranks_for_cover && !uncovered(plan, ran).empty(); ++n) {
      const bool own = params == options.params;
      if (n > most_ranks_for_parameters && !own) break;
      if (!adds_cover(plan, n, params, ran)) continue;
      VerifyOptions there = options;
      there.params = params;
      Findings found(1);
      verdict.steps += verify_ranks(plan, n, there, own ? findings : found, ran);
      if (own) verdict.ranks.push_back(n);
      if (!findings.empty()) return;
    }
  for (const auto& [lane, step] : uncovered(plan, ran)) {
    Finding finding;
    finding.rule = "V15";
    finding.lane = plan.lanes[static_cast<size_t>(lane)].name;
    finding.step = step->label.empty() ? print(*step) : step->label;
    finding.message = fmt::format(
        "ran on no number of ranks up to {} that `require` admits. Remedy: drop the step, or widen what the plan "
        "admits",
        most_ranks_for_cover);
    findings.add(finding, "cover");
  }
}

void add_error(const Error& error, Findings& findings) {
  Finding finding;
  finding.rule = error.rule().empty() ? "V1" : error.rule();
  finding.message = error.message() + (error.remedy().empty() ? "" : ". Remedy: " + error.remedy());
  findings.add(finding, "error");
}

void verify_all(const Plan& plan, const VerifyOptions& options, Findings& findings, Verdict& verdict) {
  const std::vector<int> ranks = options.ranks.empty() ? admitted_ranks(plan, options.params) : options.ranks;
  Ran ran;
  for (int n : ranks) {
    verdict.steps += verify_ranks(plan, n, options, findings, ran);
    verdict.ranks.push_back(n);
    if (!findings.empty()) return;
  }
  if (options.ranks.empty()) cover_rest(plan, options, findings, ran, verdict);
}

}  // namespace

std::vector<int> admitted_ranks(const Plan& plan, const std::map<Id, std::string>& params) {
  std::vector<int> ranks;
  for (int n = 1; n <= most_small_ranks; ++n)
    if (admits(plan, n, params)) ranks.push_back(n);
  return ranks;
}

Verdict verify(const Plan& plan, const VerifyOptions& options) {
  const std::string key = options.cache ? verdict_key(plan, options) : std::string();
  if (options.cache)
    if (std::optional<Verdict> known = read_verdict(key)) return *known;
  Findings findings(std::max(options.max_findings, 1));
  Verdict verdict;
  try {
    verify_all(plan, options, findings, verdict);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
    add_error(error, findings);
  }
  verdict.findings = std::move(findings.list());
  if (options.cache && verdict.ok()) write_verdict(key, verdict);
  return verdict;
}

std::string print(const Finding& finding) {
  std::string text = finding.rule + ":";
  if (finding.rank >= 0) text += fmt::format(" rank {}", finding.rank);
  if (!finding.lane.empty()) text += " lane " + finding.lane;
  if (finding.channel >= 0) text += fmt::format(" channel {}", finding.channel);
  if (!finding.step.empty()) text += " step " + finding.step;
  if (!finding.cell.empty()) text += " cell " + finding.cell;
  return text + (text.back() == ':' ? " " : ": ") + finding.message;
}

void require_verified(const Plan& plan, const VerifyOptions& options) {
  const Verdict verdict = verify(plan, options);
  if (verdict.ok()) return;
  std::string message = fmt::format("plan {} breaks a rule", plan.name);
  const size_t shown = std::min<size_t>(verdict.findings.size(), 3);
  for (size_t i = 0; i < shown; ++i) message += "\n  " + print(verdict.findings[i]);
  if (verdict.findings.size() > shown) message += fmt::format("\n  and {} more", verdict.findings.size() - shown);
  throw Error(ErrorKind::plan, message, "", verdict.findings[0].rule);
}

}  // namespace weft::plan
