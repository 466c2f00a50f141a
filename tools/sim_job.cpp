// weft sim FILE.job: a job on a machine that need not be here.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/sim.h"
#include "weft/base/file.h"
#include "weft/base/plural.h"
#include "weft/base/text.h"
#include "weft/trace/replay.h"
#include "weft/view/timeline.h"

namespace weft::tools {
namespace {

trace::Ways ways_of(const SimOptions& options, const topo::Cluster& cluster) {
  trace::Ways ways;
  const bool plans = !(options.algorithm + options.protocol).empty() || options.channels > 0 || options.keep_order ||
                     cluster.architecture == "cpu";
  const std::string by = options.by.empty() ? plans ? "weft" : "nccl" : options.by;
  ways.by = by == "weft" ? trace::Ways::By::weft : by == "nccl" ? trace::Ways::By::nccl : trace::Ways::By::measured;
  ways.nccl = nccl_wishes();
  ways.plans = plan_wishes(options);
  for (const std::string& text : options.stragglers) {
    const auto [rank, factor] = key_value(text, "--straggler", "3=1.5");
    double value = 0;
    const std::string digits = factor.substr(factor.starts_with('x') ? 1 : 0);
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (problem != std::errc() || end != digits.data() + digits.size() || !(value > 0) || value > 1e6)
      throw Error(ErrorKind::user, fmt::format("--straggler {}: {} is no factor above 0", text, factor),
                  "such as 3=1.5");
    ways.slowdown[static_cast<int>(count_option("--straggler", rank))] = value;
  }
  return ways;
}

std::string operation_name(const trace::Operation& o) {
  if (!o.collective) return o.kernel;
  return fmt::format("{} {}", algo::name(sim::collective_of(*o.collective)),
                     human_bytes(static_cast<double>(o.elements * size_bytes(o.dtype))));
}

class JobPicture {
 public:
  JobPicture(const trace::Job& job, const trace::Replay& replay) : job_(job), replay_(replay) {}
  view::Timeline draw(const topo::Cluster& cluster, const std::string& name) {
    out_.title = name;
    out_.note = fmt::format("a job of {} played on {}; grey: an operation waits for ranks that come later",
                            counted(job_.ranks, "rank"), cluster.name);
    out_.facts = {{"time", human_ns(static_cast<double>(replay_.end_ns))}};
    out_.end_ps = replay_.end_ns * 1000;
    out_.causes = {"the rank before it", "the last rank of its group"};
    out_.columns = {{"number", {}}};
    for (size_t r = 0; r < job_.lines.size(); ++r) work(r);
    std::map<std::pair<size_t, size_t>, uint32_t> bar;
    for (const trace::PlayedOperation& o : replay_.operations) bar[{o.line, o.number}] = operation(o);
    return std::move(out_);
  }

 private:
  uint32_t name(const std::string& text) {
    const auto [at, fresh] = names_.try_emplace(text, static_cast<uint32_t>(out_.names.size()));
    if (fresh) out_.names.push_back(text);
    return at->second;
  }
  uint32_t track(size_t line, int lane) {
    const auto [at, fresh] = tracks_.try_emplace({line, lane}, static_cast<uint32_t>(out_.tracks.size()));
    if (fresh)
      out_.tracks.push_back(
          {fmt::format("rank {}", job_.lines[line].rank), lane < 0 ? "work" : fmt::format("stream {}", lane)});
    return at->second;
  }
  void add(uint32_t track, const std::string& text, std::array<int64_t, 3> ns, uint32_t cause, int64_t number) {
    out_.bars.push_back({track, name(text), ns[0] * 1000, ns[1] * 1000, ns[2] * 1000, cause, view::Timeline::none});
    out_.columns[0].values.push_back(number);
  }
  void work(size_t line) {
    int64_t at = job_.lines[line].begin_ns;
    const std::vector<trace::Item>& items = job_.lines[line].items;
    for (size_t i = 0; i < items.size(); ++i) {
      const int64_t end = replay_.ranks[line].item_end_ns[i];
      if (items[i].kind == trace::Item::Kind::work)
        add(track(line, -1), "work", {at, at, end}, 0, static_cast<int64_t>(i));
      at = end;
    }
  }
  uint32_t operation(const trace::PlayedOperation& o) {
    const trace::Operation& said = job_.lines[o.line].operations[o.number];
    add(track(o.line, said.lane), operation_name(said), {o.started_ns, o.begin_ns, o.end_ns}, 1,
        static_cast<int64_t>(o.number));
    return static_cast<uint32_t>(out_.bars.size()) - 1;
  }

  const trace::Job& job_;
  const trace::Replay& replay_;
  view::Timeline out_;
  std::map<std::string, uint32_t> names_;
  std::map<std::pair<size_t, int>, uint32_t> tracks_;
};

double ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

void print_text(const trace::Job& job, const topo::Cluster& cluster, const trace::Replay& r,
                const trace::Replay& measured, trace::Ways::By by) {
  constexpr const char* ways[] = {"as NCCL would do them on", "as Weft's plans would do them on",
                                  "as the trace had them, whatever"};
  std::printf("job of %s, %zu of them known; collectives %s %s\n", counted(job.ranks, "rank").c_str(), job.lines.size(),
              ways[static_cast<size_t>(by)], cluster.name.c_str());
  std::printf("  time     %12.3f ms\n  as traced%12.3f ms\n", ms(r.end_ns), ms(measured.end_ns));
  std::printf("  %6s %12s %12s %12s\n", "rank", "work ms", "waited ms", "end ms");
  for (size_t i = 0; i < r.ranks.size(); ++i)
    std::printf("  %6d %12.3f %12.3f %12.3f\n", job.lines[i].rank, ms(r.ranks[i].work_ns), ms(r.ranks[i].waited_ns),
                ms(r.ranks[i].end_ns));
  std::vector<trace::PlayedKind> kinds = r.kinds;
  std::stable_sort(kinds.begin(), kinds.end(), [](const trace::PlayedKind& a, const trace::PlayedKind& b) {
    return a.us * static_cast<double>(a.count) > b.us * static_cast<double>(b.count);
  });
  if (!kinds.empty())
    std::printf("  %-14s %10s %6s %6s %7s %12s  %s\n", "operation", "size", "ranks", "nodes", "count", "us each",
                "how");
  for (const trace::PlayedKind& k : kinds)
    std::printf("  %-14s %10s %6d %6d %7lld %12.2f  %s\n",
                std::string(algo::name(sim::collective_of(k.question.collective))).c_str(),
                human_bytes(static_cast<double>(k.question.bytes)).c_str(), k.question.ranks, k.nodes,
                static_cast<long long>(k.count), k.us, k.how.c_str());
}

void print_json(const trace::Job& job, const topo::Cluster& cluster, const trace::Replay& r,
                const trace::Replay& measured) {
  nlohmann::json ranks = nlohmann::json::array(), kinds = nlohmann::json::array();
  for (size_t i = 0; i < r.ranks.size(); ++i)
    ranks.push_back({{"rank", job.lines[i].rank},
                     {"work_ns", r.ranks[i].work_ns},
                     {"waited_ns", r.ranks[i].waited_ns},
                     {"end_ns", r.ranks[i].end_ns}});
  for (const trace::PlayedKind& k : r.kinds)
    kinds.push_back({{"operation", algo::name(sim::collective_of(k.question.collective))},
                     {"bytes", k.question.bytes},
                     {"ranks", k.question.ranks},
                     {"nodes", k.nodes},
                     {"count", k.count},
                     {"us", k.us},
                     {"how", k.how}});
  const nlohmann::json out = {{"job", job.name},     {"machine", cluster.name},
                              {"time_ns", r.end_ns}, {"traced_ns", measured.end_ns},
                              {"ranks", ranks},      {"operations", kinds}};
  std::printf("%s\n", out.dump(2).c_str());
}

}  // namespace

void sim_job(const SimOptions& options) {
  const topo::Cluster cluster = find_cluster(options.machine);
  if (options.ranks > 0)
    throw Error(ErrorKind::user, "--ranks of a job", "a job says how many ranks it has; leave --ranks away");
  const trace::Job job = trace::parse_job(file_text(options.program.file));
  const trace::Ways ways = ways_of(options, cluster);
  trace::Ways as_traced;
  as_traced.by = trace::Ways::By::measured;
  const trace::Replay measured = trace::replay(job, cluster, as_traced), played = trace::replay(job, cluster, ways);
  if (options.program.json)
    print_json(job, cluster, played, measured);
  else
    print_text(job, cluster, played, measured, ways.by);
  if (!options.pictures()) return;
  const size_t bars = played.operations.size() + job.lines.size();
  if (bars > static_cast<size_t>(options.most_spans))
    throw Error(ErrorKind::timeout, fmt::format("the picture passed {} spans", options.most_spans),
                "raise --most-spans");
  const view::Timeline timeline = JobPicture(job, played).draw(cluster, job.name);
  if (!options.timeline.empty()) write_file(options.timeline, view::html(timeline));
  if (!options.trace.empty()) write_file(options.trace, view::chrome_trace(timeline));
}

}  // namespace weft::tools
