// weft trace import: traces of other tools become jobs, with an account of every event.
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/verbs.h"
#include "weft/base/file.h"
#include "weft/base/plural.h"
#include "weft/base/printable.h"
#include "weft/base/text.h"
#include "weft/trace/chrome.h"
#include "weft/trace/kineto.h"
#include "weft/trace/replay.h"
#include "weft/view/timeline.h"

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

struct ShowOptions {
  std::string file, out;
  int64_t most_spans = int64_t{1} << 20;
};

view::Timeline timeline_of(const trace::ChromeTrace& t, const std::string& name) {
  view::Timeline out;
  out.title = name;
  out.note = "grey: waiting; what lies inside another span stands on a row of its own";
  out.end_ps = (t.end_ns - t.begin_ns) * 1000;
  out.facts = {{"time", human_ns(static_cast<double>(t.end_ns - t.begin_ns))},
               {"spans", fmt::format("{}", t.spans.size())}};
  for (const auto& [what, entry] : t.dropped.entries)
    out.facts.emplace_back("not drawn", fmt::format("{} {}", entry.count, what));
  out.causes = {"what the trace does not say"};
  std::map<std::string, uint32_t> names;
  for (const trace::ChromeTrace::Track& track : t.tracks)
    out.tracks.push_back({printable(track.process), printable(track.thread)});
  for (const trace::ChromeTrace::Span& s : t.spans) {
    const auto [at, fresh] = names.try_emplace(s.name, static_cast<uint32_t>(out.names.size()));
    if (fresh) out.names.push_back(printable(s.name));
    out.bars.push_back({s.track, at->second, (s.wait_ns - t.begin_ns) * 1000, (s.begin_ns - t.begin_ns) * 1000,
                        (s.end_ns - t.begin_ns) * 1000, 0, view::Timeline::none});
  }
  return out;
}

void show_verb(const ShowOptions& options) {
  const std::string name = std::filesystem::path(options.file).filename().string();
  const trace::ChromeTrace t =
      trace::read_chrome(name, file_text(options.file), static_cast<size_t>(options.most_spans));
  write_file(options.out, view::html(timeline_of(t, name)));
  std::printf("%s on %s, %s: %s\n", counted(static_cast<int64_t>(t.spans.size()), "span").c_str(),
              counted(static_cast<int64_t>(t.tracks.size()), "row").c_str(),
              human_ns(static_cast<double>(t.end_ns - t.begin_ns)).c_str(), options.out.c_str());
  print_tally("dropped", t.dropped);
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
  auto shown = std::make_shared<ShowOptions>();
  CLI::App* show =
      verb->add_subcommand("show", "draw a Chrome trace (of WEFT_TIMELINE, weft sim --trace, a profiler) as a page");
  show->footer(
      "  WEFT_TIMELINE=run.json weft run examples/adam.weft --size P=1Mi && weft trace show run.json -o run.html");
  show->add_option("file", shown->file, "the trace, at most 64 MiB")->required();
  show->add_option("-o,--output", shown->out, "write the page (HTML) into this file")->required();
  show->add_option("--most-spans", shown->most_spans, "spans that it may have")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 26))
      ->capture_default_str();
  return [options, shown, show] { show->parsed() ? show_verb(*shown) : import_verb(*options); };
}

}  // namespace weft::tools
