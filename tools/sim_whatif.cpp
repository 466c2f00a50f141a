// weft sim OPERATION --what-if: the product as a table, the best of each size, JSON, and a heat map.
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/sim.h"
#include "weft/base/file.h"
#include "weft/base/plural.h"
#include "weft/base/text.h"
#include "weft/sim/whatif.h"
#include "weft/view/heat_map.h"

namespace weft::tools {
namespace {

using sim::Axis;
using sim::WhatIfPoint;

constexpr size_t most_lines = 400, most_map_columns = 64, most_map_rows = 200;

std::string size_text(int64_t bytes) {
  constexpr const char* units[] = {"", "K", "M", "G", "T"};
  int unit = 0;
  for (; bytes >= 1024 && bytes % 1024 == 0 && unit < 4; bytes /= 1024) ++unit;
  return fmt::format("{}{}", bytes, units[unit]);
}

std::string time_text(double us) {
  if (us >= 1e6) return fmt::format("{:.3g} s", us / 1e6);
  return us >= 1000 ? fmt::format("{:.3g} ms", us / 1000) : fmt::format("{:.3g} us", us);
}

// Axes of the command line, and the sizes of -b, -e, -f in front where no axis says them.
std::vector<Axis> axes_of(const SimOptions& options) {
  std::vector<Axis> axes;
  for (const std::string& text : options.what_if)
    for (const std::string& one : words(text)) axes.push_back(sim::parse_axis(one));
  const bool said = std::any_of(axes.begin(), axes.end(), [](const Axis& a) { return a.name == "size"; });
  if (!said) {
    Axis sizes{"size", {}};
    for (const int64_t size : sizes_of(options.sweep)) sizes.values.push_back(size_text(size));
    axes.insert(axes.begin(), sizes);
  }
  const bool nodes = std::any_of(axes.begin(), axes.end(), [](const Axis& a) { return a.name == "nodes"; });
  if (nodes && options.ranks > 0)
    throw Error(ErrorKind::user, fmt::format("--ranks {} and an axis of nodes", options.ranks),
                "an axis of nodes takes all their GPUs; leave --ranks away");
  return axes;
}

struct Table {
  const topo::Cluster& cluster;
  std::string operation;
  std::vector<Axis> axes;
  std::vector<WhatIfPoint> points;

  const std::string& value(const WhatIfPoint& p, size_t axis) const { return axes[axis].values[p.at[axis]]; }
  // Points are compared where they do the same work: of one size and as many ranks.
  std::string work(const WhatIfPoint& p) const {
    return fmt::format("{} on {}", size_text(p.question.bytes), counted(p.question.ranks, "rank"));
  }
  std::string what(const WhatIfPoint& p) const {
    std::string text;
    for (size_t a = 0; a < axes.size(); ++a)
      if (axes[a].name != "size") text += fmt::format("{}{}={}", text.empty() ? "" : " ", axes[a].name, value(p, a));
    return text;
  }
};

// The fastest of each piece of work, in the order in which they came; nothing where none was possible.
std::vector<std::pair<std::string, const WhatIfPoint*>> best_of(const Table& table) {
  std::vector<std::pair<std::string, const WhatIfPoint*>> best;
  for (const WhatIfPoint& p : table.points) {
    const std::string work = table.work(p);
    auto found = std::find_if(best.begin(), best.end(), [&](const auto& b) { return b.first == work; });
    if (found == best.end()) found = best.insert(best.end(), {work, nullptr});
    if (p.impossible.empty() && (!found->second || p.us < found->second->us)) found->second = &p;
  }
  return best;
}

void print_line(const Table& table, const WhatIfPoint& p, bool best) {
  std::string line = best ? "* " : "  ";
  for (size_t a = 0; a < table.axes.size(); ++a) line += fmt::format("{:>12} ", table.value(p, a));
  if (!p.impossible.empty()) {
    std::printf("%s %10s  %s\n", line.c_str(), "-", p.impossible.c_str());
    return;
  }
  std::printf("%s %10.2f %8.2f  %-9s %10.2f %-9s %6.2f  %s\n", line.c_str(), p.us, p.busbw, p.bound.c_str(), p.limit.us,
              p.limit.by.c_str(), p.us / p.limit.us, p.runs.c_str());
}

void print_table(const Table& table) {
  const auto best = best_of(table);
  std::printf("# weft sim %s --what-if: predicted, nothing was run; %s, %s\n# ", table.operation.c_str(),
              table.cluster.name.c_str(), counted(static_cast<int64_t>(table.points.size()), "point").c_str());
  for (const Axis& axis : table.axes) std::printf("%12s ", axis.name.c_str());
  std::printf(" %10s %8s  %-9s %10s %-9s %6s  %s\n", "time (us)", "busbw", "bound by", "least (us)", "set by", "ratio",
              "runs");
  const auto is_best = [&](const WhatIfPoint& p) {
    return std::any_of(best.begin(), best.end(), [&](const auto& b) { return b.second == &p; });
  };
  size_t lines = 0;
  for (const WhatIfPoint& p : table.points) {
    if (lines++ >= most_lines && !is_best(p)) continue;
    print_line(table, p, is_best(p));
  }
  if (table.points.size() > most_lines)
    std::printf("  ... of %zu points the first %zu and the best; --json has all\n", table.points.size(), most_lines);
  for (const auto& [work, p] : best) {
    if (!p) {
      std::printf("%s: no point is possible\n", work.c_str());
      continue;
    }
    const std::string what = table.what(*p);
    std::printf("best for %s: %s%s%.2f us (%s), bound by %s; least %.2f us, set by %s\n", work.c_str(), what.c_str(),
                what.empty() ? "" : ": ", p->us, p->runs.c_str(), p->bound.c_str(), p->limit.us, p->limit.by.c_str());
  }
}

nlohmann::json to_json(const Table& table) {
  nlohmann::json points = nlohmann::json::array();
  const auto best = best_of(table);
  for (const WhatIfPoint& p : table.points) {
    nlohmann::json out;
    for (size_t a = 0; a < table.axes.size(); ++a) out["at"][table.axes[a].name] = table.value(p, a);
    out["ranks"] = p.question.ranks;
    out["size"] = p.question.bytes;
    if (p.impossible.empty())
      out.update({{"time", p.us},
                  {"bus_bw", p.busbw},
                  {"bound", p.bound},
                  {"least_us", p.limit.us},
                  {"least_set_by", p.limit.by},
                  {"runs", p.runs},
                  {"best", std::any_of(best.begin(), best.end(), [&](const auto& b) { return b.second == &p; })}});
    else
      out["impossible"] = p.impossible;
    points.push_back(out);
  }
  return {{"operation", table.operation}, {"machine", table.cluster.name}, {"points", points}};
}

// Columns are sizes where there are several, else the axis with most values; rows are what is left.
std::string picture(const Table& table) {
  size_t across = 0;
  for (size_t a = 0; a < table.axes.size(); ++a) {
    const bool sizes = table.axes[a].name == "size" && table.axes[a].values.size() > 1;
    if (table.axes[across].name == "size" && table.axes[across].values.size() > 1) break;
    if (sizes || table.axes[a].values.size() > table.axes[across].values.size()) across = a;
  }
  view::HeatMap map;
  map.columns = table.axes[across].values;
  map.x_name = table.axes[across].name;
  map.title = fmt::format("{} on {} of {}", table.operation, counted(table.cluster.nodes, "node"), table.cluster.name);
  const bool many = std::any_of(table.axes.begin(), table.axes.end(), [](const Axis& a) { return a.name == "nodes"; });
  if (many) map.title = fmt::format("{} on {}", table.operation, table.cluster.name);
  const size_t columns = map.columns.size(), rows = table.points.size() / columns;
  if (columns > most_map_columns || rows > most_map_rows)
    throw Error(ErrorKind::user, fmt::format("--plot: a map of {} columns and {} rows", columns, rows),
                fmt::format("at most {} and {}: give fewer values", most_map_columns, most_map_rows));
  map.cells.resize(columns * rows);
  std::map<std::string, double> least;
  for (const auto& [work, p] : best_of(table)) least[work] = p ? p->us : 0;
  map.note = fmt::format("predicted time; colours compare what does the same work ({} of them)", least.size());
  std::vector<size_t> next(columns);
  for (const WhatIfPoint& p : table.points) {
    const size_t column = p.at[across], row = next[column]++;
    if (column == 0) {
      std::string name;
      for (size_t a = 0; a < table.axes.size(); ++a)
        if (a != across && (table.axes[a].values.size() > 1 || table.axes[a].name != "size"))
          name += fmt::format("{}{} {}", name.empty() ? "" : ", ", table.axes[a].name, table.value(p, a));
      map.rows.push_back(name);
    }
    view::HeatMap::Cell& cell = map.cells[row * columns + column];
    if (!p.impossible.empty()) {
      cell.detail = p.impossible;
      continue;
    }
    cell.ratio = p.us / least[table.work(p)];
    cell.text = time_text(p.us);
    cell.detail = fmt::format("{}: {}; {:.2f} us, bound by {}; least {:.2f} us, set by {}", table.work(p), p.runs, p.us,
                              p.bound, p.limit.us, p.limit.by);
  }
  return view::svg(map);
}

}  // namespace

void sim_what_if(const SimOptions& options, sim::NcclCollective collective) {
  const topo::Cluster cluster = find_cluster(options.machine);
  sim::Question question{collective, ranks_of(options, cluster), 0, bench_dtype(options.dtype),
                         options.gpus_per_process};
  Table table{cluster, std::string(algo::name(sim::collective_of(collective))), axes_of(options), {}};
  sim::nodes_of(cluster, question.ranks);
  table.points = sim::what_if(cluster, question, table.axes, nccl_wishes(), options.keep_order);
  if (options.program.json)
    std::printf("%s\n", to_json(table).dump(2).c_str());
  else
    print_table(table);
  if (!options.plot.empty()) write_file(options.plot, picture(table));
}

}  // namespace weft::tools
