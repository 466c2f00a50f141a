// weft verify: rules V1 to V16 on a plan, all findings.
#include "weft/plan/verify.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/verbs.h"

namespace weft::tools {
namespace {

struct Options {
  std::string file;
  std::vector<int> ranks;
  std::vector<std::string> params;
  bool json = false;
  int most = 20;
};

void verify_verb(const Options& options) {
  const PlanFile file = read_plan(options.file);
  const plan::Plan& plan = file.plan;
  plan::VerifyOptions verify;
  verify.ranks = options.ranks;
  if (file.ranks && verify.ranks.empty()) verify.ranks = {*file.ranks};
  verify.max_findings = options.most;
  for (const std::string& param : options.params) {
    const size_t at = param.find('=');
    if (at == std::string::npos)
      throw Error(ErrorKind::user, fmt::format("--param {}: want NAME=VALUE", param), "for example --param k=4");
    verify.params[param.substr(0, at)] = param.substr(at + 1);
  }
  const plan::Verdict verdict = plan::verify(plan, verify);
  std::vector<std::string> ranks;
  for (const int n : verdict.ranks) ranks.push_back(std::to_string(n));
  if (options.json) {
    nlohmann::json out = {{"plan", plan.name},
                          {"ok", verdict.ok()},
                          {"ranks", verdict.ranks},
                          {"steps", verdict.steps},
                          {"results_stated", file.stated},
                          {"findings", nlohmann::json::array()}};
    for (const plan::Finding& f : verdict.findings)
      out["findings"].push_back({{"rule", f.rule},
                                 {"rank", f.rank},
                                 {"lane", f.lane},
                                 {"channel", f.channel},
                                 {"step", f.step},
                                 {"cell", f.cell},
                                 {"message", f.message}});
    std::printf("%s\n", out.dump(2).c_str());
  } else {
    for (const plan::Finding& finding : verdict.findings) std::printf("%s\n", plan::print(finding).c_str());
    if (verdict.ok())
      std::printf("%s: rules V1 to V16 hold on %s ranks (%lld steps, three launches); they hold for every size\n",
                  plan.name.c_str(), join(ranks, ", ").c_str(), static_cast<long long>(verdict.steps));
    if (verdict.ok() && !file.stated) std::printf("what it computes is not stated (coll=\"custom\"), so not checked\n");
  }
  if (!verdict.ok()) fail(ErrorKind::plan, "{} breaks {} rule(s)", plan.name, verdict.findings.size());
}

}  // namespace

Verb add_verify(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("verify", "check a plan against rules V1 to V16 (docs/plan.md)");
  verb->footer(
      "  weft verify tests/cases/plan/ring_all_reduce.plan\n  weft verify my.plan --ranks 2 5 --param k=4 --json\n"
      "  weft verify tests/cases/msccl/allpairs_allreduce.xml");
  verb->add_option("file", options->file, "a plan, or an MSCCL schedule (XML)")->required();
  verb->add_option("-r,--ranks", options->ranks, "numbers of ranks (default: those of 1..9 that the plan admits)")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--param", options->params, "a parameter: NAME=VALUE");
  verb->add_option("--most", options->most, "most findings to print")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb->add_flag("--json", options->json, "print JSON");
  return [options] { verify_verb(*options); };
}

}  // namespace weft::tools
