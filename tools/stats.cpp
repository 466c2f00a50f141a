// weft show --as stats: what each rank of a plan will do, counted and not run, and what no plan can do without.
#include "weft/plan/stats.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <nlohmann/json.hpp>

#include "tools/verbs.h"
#include "weft/base/plural.h"
#include "weft/plan/lower_bound.h"

namespace weft::tools {
namespace {

double exchanged(const plan::RankStats& s) {
  return static_cast<double>(s.bytes_sent) + s.bytes_read_mapped + s.bytes_written_mapped;
}

nlohmann::json to_json(const plan::RankStats& s) {
  return {{"steps", s.steps},
          {"messages_sent", s.messages_sent},
          {"bytes_sent", s.bytes_sent},
          {"messages_received", s.messages_received},
          {"bytes_received", s.bytes_received},
          {"bytes_read_here", s.bytes_read_here},
          {"bytes_read_mapped", s.bytes_read_mapped},
          {"bytes_written_here", s.bytes_written_here},
          {"bytes_written_mapped", s.bytes_written_mapped},
          {"flops", s.flops},
          {"matmul_flops", s.matmul_flops},
          {"awaits", s.awaits},
          {"critical_hops", s.critical_hops},
          {"passes", s.passes}};
}

std::string row(const std::string& rank, const plan::RankStats& s) {
  const auto integer = [](double value) { return static_cast<int64_t>(value); };
  return fmt::format("{:>4} {:>8} {:>9} {:>12} {:>9} {:>12} {:>12} {:>12} {:>12} {:>12} {:>7} {:>5} {:>6}\n", rank,
                     s.steps, s.messages_sent, s.bytes_sent, s.messages_received, s.bytes_received,
                     integer(s.bytes_read_here), integer(s.bytes_read_mapped), integer(s.bytes_written_here),
                     integer(s.bytes_written_mapped), s.awaits, s.critical_hops, s.passes);
}

std::string bound_line(const std::optional<plan::LowerBound>& bound, double together) {
  if (!bound) return "lower bound: not known for so many ranks, or for counts that are found while it runs\n";
  const std::string ratio = bound->bytes > 0 ? fmt::format(" ({:.2f} times)", together / bound->bytes) : "";
  return fmt::format(
      "exchanged by all ranks together: {:.0f} bytes; lower bound of any plan with these results: {:.0f}{}\n"
      "lower bound of the busiest rank: {:.0f} bytes, {}\n",
      together, bound->bytes, ratio, bound->busiest_bytes, counted(bound->critical_hops, "hop"));
}

}  // namespace

std::string plan_stats(const plan::Plan& plan, int ranks, const plan::LaunchArgs& args,
                       const std::vector<int64_t>& chunk_elements, bool json) {
  const plan::Instance instance(plan, ranks);
  const std::vector<plan::RankStats> all = plan::stats(instance, args, chunk_elements);
  const std::optional<plan::LowerBound> bound = plan::lower_bound(instance, args);
  double together = 0;
  for (const plan::RankStats& s : all) together += exchanged(s);
  if (json) {
    nlohmann::json out = {{"plan", plan.name}, {"exchanged_bytes", together}, {"ranks", nlohmann::json::array()}};
    for (const plan::RankStats& s : all) out["ranks"].push_back(to_json(s));
    if (bound)
      out["lower_bound"] = {
          {"bytes", bound->bytes}, {"busiest_bytes", bound->busiest_bytes}, {"critical_hops", bound->critical_hops}};
    return out.dump(2) + "\n";
  }
  std::string text = fmt::format("{} on {}, one launch\n", plan.name, counted(ranks, "rank"));
  text += fmt::format("{:>4} {:>8} {:>22} {:>22} {:>25} {:>25} {:>7} {:>5} {:>6}\n", "", "", "sent", "received",
                      "bytes read", "bytes written", "", "", "");
  text += fmt::format("{:>4} {:>8} {:>9} {:>12} {:>9} {:>12} {:>12} {:>12} {:>12} {:>12} {:>7} {:>5} {:>6}\n", "rank",
                      "steps", "messages", "bytes", "messages", "bytes", "here", "at peers", "here", "at peers",
                      "awaits", "hops", "passes");
  constexpr size_t most_rows = 64;
  for (size_t rank = 0; rank < std::min(all.size(), most_rows); rank++) text += row(std::to_string(rank), all[rank]);
  if (all.size() > most_rows) text += fmt::format("... and {} more\n", all.size() - most_rows);
  return text + bound_line(bound, together);
}

const plan::SegmentTable* one_segment(int64_t elements) {
  static std::deque<plan::SegmentTable> tables;
  return &tables.emplace_back(plan::SegmentTable{{elements}});
}

plan::LaunchArgs plan_sizes(const plan::Plan& plan, int ranks, const std::vector<std::string>& sizes) {
  const plan::Instance instance(plan, ranks);
  std::map<std::string, int64_t> given;
  for (const std::string& text : sizes) {
    const auto [name, value] = key_value(text, "--size", plan.spaces.front().name + "=16Mi");
    if (plan::find_space(plan, name) < 0)
      throw Error(ErrorKind::user, fmt::format("--size {}: {} has no space named {}", text, plan.name, name),
                  "see its `space` lines");
    given[name] = count_option("--size", value, name);
  }
  constexpr int64_t usual = 1 << 20;
  plan::LaunchArgs args;
  for (size_t s = 0; s < plan.spaces.size(); s++) {
    const plan::Space& space = plan.spaces[s];
    const int64_t parts = std::max<int64_t>(1, instance.parts(static_cast<int>(s)));
    const int64_t elements = given.count(space.name) ? given[space.name] : usual;
    plan::SpaceExtent extent;
    if (space.kind == plan::Space::Kind::given)
      extent.extent = plan::Given{std::vector<int64_t>(static_cast<size_t>(parts), elements / parts)};
    else
      extent.extent = plan::Cut{1, space.kind == plan::Space::Kind::equal ? elements / parts * parts : elements, 1};
    if (space.kind == plan::Space::Kind::even) extent.segments = one_segment(elements);  // where it asks for a list
    args.spaces.push_back(extent);
  }
  args.buffers.resize(plan.buffers.size());
  args.scalars.assign(plan::launch_scalars(plan).size(), {true, 1, 1});
  return args;
}

}  // namespace weft::tools
