// weft trace import: traces of other tools become jobs, with an account of every event.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/verbs.h"
#include "weft/base/file.h"
#include "weft/base/plural.h"
#include "weft/trace/kineto.h"
#include "weft/trace/replay.h"

namespace weft::tools {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string out;
  bool json = false;
};

void print_tally(const char* head, const trace::Tally& tally) {
  for (const auto& [what, entry] : tally.entries)
    std::printf("  %-8s %9lld  %s   (first: %s)\n", std::exchange(head, ""), static_cast<long long>(entry.count),
                what.c_str(), entry.example.c_str());
}

nlohmann::json tally_json(const trace::Tally& tally) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [what, entry] : tally.entries)
    list.push_back({{"what", what}, {"count", entry.count}, {"first", entry.example}});
  return list;
}

void import_verb(const Options& options) {
  std::vector<std::filesystem::path> files(options.files.begin(), options.files.end());
  const trace::Imported imported = trace::import_kineto(files);
  const trace::Job& job = imported.job;
  const std::string text = trace::print(job);
  if (!options.out.empty()) write_file(options.out, text);
  size_t operations = 0;
  for (const trace::RankLine& line : job.lines) operations += line.operations.size();
  const trace::Replay played = trace::replay(job, {}, {trace::Ways::By::measured, {}, {}, {}});
  if (options.json) {
    const nlohmann::json out = {{"ranks", job.ranks},
                                {"traced", job.lines.size()},
                                {"groups", job.groups.size()},
                                {"operations", operations},
                                {"time_ns", played.end_ns},
                                {"read", tally_json(imported.report.read)},
                                {"matched", tally_json(imported.report.matched)},
                                {"dropped", tally_json(imported.report.dropped)},
                                {"assumed", tally_json(imported.report.assumed)}};
    return void(std::printf("%s\n", out.dump(2).c_str()));
  }
  std::printf("%s of %s: %s in %s, %.3f ms\n", counted(static_cast<int64_t>(job.lines.size()), "rank").c_str(),
              counted(job.ranks, "rank").c_str(), counted(static_cast<int64_t>(operations), "operation").c_str(),
              counted(static_cast<int64_t>(job.groups.size()), "group").c_str(),
              static_cast<double>(played.end_ns) / 1e6);
  print_tally("read", imported.report.read);
  print_tally("matched", imported.report.matched);
  print_tally("dropped", imported.report.dropped);
  print_tally("assumed", imported.report.assumed);
  if (options.out.empty())
    std::printf("give -o FILE.job to keep the job, and weft sim FILE.job --machine NAME to play it elsewhere\n");
}

}  // namespace

Verb add_trace(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("trace", "traces of other tools, for weft sim");
  CLI::App* import = verb->add_subcommand("import", "make a job of a PyTorch profiler's (Kineto) traces");
  verb->require_subcommand(1);
  import->footer(
      "  weft trace import rank0.json rank1.json -o run.job     all ranks, some, or one (.gz too)\n"
      "  weft sim run.job --machine dgx_h100                     the same work, collectives as they would be there\n\n"
      "What was read, matched and dropped is listed with counts, reasons and the first event of each "
      "(docs/traces.md).");
  import->add_option("files", options->files, "one JSON file a rank, as torch.profiler writes them")->required();
  import->add_option("-o,--output", options->out, "write the job into this file");
  import->add_flag("--json", options->json, "print JSON");
  return [options] { import_verb(*options); };
}

}  // namespace weft::tools
