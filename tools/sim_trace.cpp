// weft sim --trace, --timeline: a recorded run as files, and its critical path in words.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <tuple>

#include "tools/sim.h"
#include "weft/base/file.h"
#include "weft/base/plural.h"
#include "weft/base/text.h"
#include "weft/view/timeline.h"

namespace weft::tools {
namespace {

constexpr int most_whole = 64;  // so many ranks are shown one by one where folding changes no figure

class Drawing {
 public:
  Drawing(const topo::Cluster& cluster, const plan::Instance& instance, const sim::Trace& trace)
      : cluster_(cluster), instance_(instance), trace_(trace) {}
  view::Timeline draw(const PictureSubject& subject) {
    out_.end_ps = trace_.end_ps;
    out_.causes = {"the beginning", "its lane", "a message", "a slot", "a step"};
    for (int k = 0; k < sim::path_kinds; ++k) out_.kinds.push_back(sim::name(static_cast<sim::PathPart::Kind>(k)));
    tracks();
    bars();
    meters();
    path();
    facts(subject);
    return std::move(out_);
  }

 private:
  static std::string group(uint32_t rank) { return fmt::format("rank {}", rank); }
  void tracks() {
    const auto channels = static_cast<uint32_t>(instance_.channels());
    std::map<std::array<uint32_t, 3>, uint32_t> used;
    for (const sim::TracedStep& s : trace_.steps) used[{s.rank, s.lane, s.channel}] = 0;
    for (auto& [place, track] : used) {
      track = static_cast<uint32_t>(out_.tracks.size());
      const std::string& lane = instance_.plan().lanes[place[1]].name;
      out_.tracks.push_back({group(place[0]), channels == 1 ? lane : fmt::format("{} channel {}", lane, place[2])});
    }
    for (const sim::TracedStep& s : trace_.steps) track_of_.push_back(used[{s.rank, s.lane, s.channel}]);
  }
  // A step by its label, else by its text.
  std::string step_name(const sim::TracedStep& s) const {
    const plan::Step& step = instance_.step(s.lane, s.step);
    return step.label.empty() ? plan::print(step) : step.label;
  }
  void bars() {
    std::map<std::pair<uint16_t, uint16_t>, uint32_t> names;
    out_.columns = {{"chunk", {}}, {"slice", {}}, {"launch", {}}, {"elements", {}}};
    for (uint32_t id = 0; id < trace_.steps.size(); ++id) {
      const sim::TracedStep& s = trace_.steps[id];
      const auto [name, fresh] = names.try_emplace({s.lane, s.step}, static_cast<uint32_t>(out_.names.size()));
      if (fresh) out_.names.push_back(step_name(s));
      const uint32_t from = s.cause == sim::Cause::message ? trace_.messages[s.from].sender : s.from;
      out_.bars.push_back({track_of_[id], name->second, s.ready_ps, s.begin_ps, s.end_ps,
                           static_cast<uint32_t>(s.cause), from == sim::no_record ? view::Timeline::none : from});
      const int64_t values[] = {s.chunk, s.slice, s.launch, s.elements};
      for (size_t c = 0; c < out_.columns.size(); ++c) out_.columns[c].values.push_back(values[c]);
    }
  }
  std::string port_name(uint16_t port) const {
    const std::string& kind = port == 0 ? cluster_.intra.kind : cluster_.inter.kind;
    return kind == "nvswitch" ? "NVLink" : kind;
  }
  void meters() {
    std::map<std::tuple<uint32_t, uint16_t, bool>, view::Timeline::Meter> used;
    for (const sim::TracedMessage& m : trace_.messages) {
      used[{m.from, m.send_port, false}].busy.push_back({m.begin_ps, m.send_busy_ps});
      used[{m.to, m.receive_port, true}].busy.push_back({m.receive_begin_ps, m.receive_busy_ps});
    }
    for (auto& [place, meter] : used) {
      const auto [rank, port, in] = place;
      meter.group = group(rank);
      meter.name = fmt::format("{} {}", port_name(port), in ? "in" : "out");
      out_.meters.push_back(std::move(meter));
    }
  }
  std::string detail(uint32_t message) const {
    const sim::TracedMessage& m = trace_.messages[message];
    return fmt::format("message of {} from rank {} to {}, {}", instance_.plan().families[m.family].name, m.from, m.to,
                       human_bytes(static_cast<double>(m.bytes)));
  }
  void path() {
    for (const sim::PathPart& p : sim::critical_path(trace_)) {
      // A port that is busy is shown where the message came from that keeps it so.
      const bool port = p.kind == sim::PathPart::Kind::send_port;
      const uint32_t bar = port ? trace_.messages[p.message].sender : p.step;
      out_.path.push_back({static_cast<uint32_t>(p.kind), bar == sim::no_record ? view::Timeline::none : bar,
                           p.begin_ps, p.end_ps, p.message == sim::no_record ? "" : detail(p.message)});
    }
  }
  void facts(const PictureSubject& s) {
    out_.title = s.title;
    out_.note =
        fmt::format("predicted on {} of {}; one lane a row, grey: waiting; below each rank how busy its ports are",
                    counted(sim::nodes_of(cluster_, s.ranks), "node"), cluster_.name);
    out_.facts = {{"time", human_ns(static_cast<double>(trace_.end_ps) / 1000)},
                  {"launching before it", human_ns(s.launch_ns)},
                  {"ranks", s.simulated == s.ranks ? fmt::format("{}", s.ranks)
                                                   : fmt::format("{} stand for {}", s.simulated, s.ranks)},
                  {"steps", fmt::format("{}", trace_.steps.size())},
                  {"messages", fmt::format("{}", trace_.messages.size())}};
  }

  const topo::Cluster& cluster_;
  const plan::Instance& instance_;
  const sim::Trace& trace_;
  view::Timeline out_;
  std::vector<uint32_t> track_of_;
};

std::string path_text(const view::Timeline& t) {
  std::map<uint32_t, int64_t> sum;
  for (const view::Timeline::Part& p : t.path) sum[p.kind] += p.end_ps - p.begin_ps;
  std::vector<std::pair<int64_t, uint32_t>> order;
  for (const auto& [kind, ps] : sum) order.emplace_back(-ps, kind);
  std::sort(order.begin(), order.end());
  std::string text;
  for (const auto& [ps, kind] : order)
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", t.kinds[kind],
                        -100. * static_cast<double>(ps) / static_cast<double>(t.end_ps));
  return text.empty() ? "nothing takes time" : text;
}

}  // namespace

sim::Options recording(const SimOptions& options, int ranks, sim::Trace& trace) {
  sim::Options asked;
  if (options.whole) asked.fold = sim::Fold::off;
  if (!options.pictures()) return asked;
  trace.most = static_cast<size_t>(options.most_spans);
  asked.trace = &trace;
  if (ranks <= most_whole) asked.fold = sim::Fold::off;
  return asked;
}

void write_pictures(const SimOptions& options, const topo::Cluster& cluster, const plan::Instance& instance,
                    const sim::Trace& trace, const PictureSubject& subject) {
  const view::Timeline timeline = Drawing(cluster, instance, trace).draw(subject);
  if (!options.timeline.empty()) write_file(options.timeline, view::html(timeline));
  if (!options.trace.empty()) write_file(options.trace, view::chrome_trace(timeline));
  if (options.program.json) return;
  std::printf("# critical path of %s: %s\n", human_ns(static_cast<double>(timeline.end_ps) / 1000).c_str(),
              path_text(timeline).c_str());
  std::printf("# %s and %s recorded: %s\n", counted(static_cast<int64_t>(trace.steps.size()), "step").c_str(),
              counted(static_cast<int64_t>(trace.messages.size()), "message").c_str(),
              join(options.timeline.empty() || options.trace.empty() ? std::vector{options.timeline + options.trace}
                                                                     : std::vector{options.timeline, options.trace},
                   ", ")
                  .c_str());
}

}  // namespace weft::tools
