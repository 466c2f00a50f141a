// How `weft bench` shows its rows: nccl-tests' columns, JSON, and a picture in SVG.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/bench.h"
#include "weft/base/plural.h"
#include "weft/base/text.h"

namespace weft::tools {
namespace {

std::string wrong(const BenchSide& side) { return side.wrong < 0 ? "N/A" : std::to_string(side.wrong); }

std::string time_text(double us) {
  if (us >= 100'000) return fmt::format("{:.0f}", us);
  return us >= 100 ? fmt::format("{:.1f}", us) : fmt::format("{:.2f}", us);
}

nlohmann::json side_json(const BenchSide& side) {
  if (!side.measured) return nullptr;
  nlohmann::json out = {{"time", side.time_us}, {"alg_bw", side.algbw}, {"bus_bw", side.busbw}};
  out["nwrong"] = side.wrong < 0 ? nlohmann::json(nullptr) : nlohmann::json(side.wrong);
  return out;
}

struct Scale {
  double least = 0, most = 1, from = 0, to = 1;  // logarithmic
  double operator()(double value) const {
    return from + (to - from) * (std::log(std::max(value, least)) - std::log(least)) /
                      std::max(1e-9, std::log(most) - std::log(least));
  }
};

struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

std::vector<Line> lines_of(const BenchReport& report) {
  std::vector<Line> lines(1);
  lines[0].name = "weft";
  for (const std::string& peer : report.peers) lines.push_back({peer, {}});
  lines.push_back({"limit", {}});
  for (const BenchRow& row : report.rows) {
    const auto bytes = static_cast<double>(row.bytes);
    if (bytes <= 0) continue;
    lines[0].points.emplace_back(bytes, row.out_of_place.time_us);
    for (size_t p = 0; p < report.peers.size(); ++p)
      if (const auto found = row.peers_us.find(report.peers[p]); found != row.peers_us.end())
        lines[p + 1].points.emplace_back(bytes, found->second);
    if (row.limit_us > 0) lines.back().points.emplace_back(bytes, row.limit_us);
  }
  return lines;
}

std::string bytes_text(int64_t bytes) {
  constexpr const char* units[] = {"", "K", "M", "G"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 3; bytes /= 1024) ++unit;
  return fmt::format("{}{}", bytes, units[unit]);
}

}  // namespace

void print_head(const BenchReport& report) {
  std::printf("# weft bench %s, %s, nccl-tests' columns; GB = 1e9 bytes\n#\n", report.operation.c_str(),
              counted(report.ranks, "rank").c_str());
  std::printf("# %10s %13s %8s %10s %6s  %9s %7s %7s %7s  %9s %7s %7s %7s", "", "", "", "", "", "out-of", "place", "",
              "", "in", "place", "", "");
  if (!report.peers.empty()) std::printf("  %s", "peers");
  std::printf("\n# %10s %13s %8s %10s %6s  %9s %7s %7s %7s  %9s %7s %7s %7s", "size", "count", "type", "redop", "root",
              "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
  for (const std::string& peer : report.peers) std::printf(" %11s", peer.c_str());
  if (!report.peers.empty()) std::printf(" %6s", "ratio");
  std::printf(" %9s  %s\n", "limit", "runs");
  std::printf("# %10s %13s %8s %10s %6s  %9s %7s %7s %7s  %9s %7s %7s %7s", "(B)", "(elements)", "", "", "", "(us)",
              "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
  for (size_t p = 0; p < report.peers.size(); ++p) std::printf(" %11s", "(us)");
  if (!report.peers.empty()) std::printf(" %6s", "");
  std::printf(" %9s\n", "(us)");
}

void print_row(const BenchReport& report, const BenchRow& row) {
  std::printf("  %10lld %13lld %8s %10s %6d", static_cast<long long>(row.bytes), static_cast<long long>(row.count),
              row.dtype.c_str(), row.combine.c_str(), row.root);
  for (const BenchSide* side : {&row.out_of_place, &row.in_place}) {
    if (side->measured)
      std::printf("  %9s %7.2f %7.2f %7s", time_text(side->time_us).c_str(), side->algbw, side->busbw,
                  wrong(*side).c_str());
    else
      std::printf("  %9s %7s %7s %7s", "-", "-", "-", "-");
  }
  for (const std::string& peer : report.peers) {
    const auto found = row.peers_us.find(peer);
    std::printf(" %11s", found == row.peers_us.end() ? "-" : time_text(found->second).c_str());
  }
  if (!report.peers.empty()) std::printf(" %6s", row.ratio > 0 ? fmt::format("{:.2f}", row.ratio).c_str() : "-");
  std::printf(" %9s  %s\n", time_text(row.limit_us).c_str(), row.runs.c_str());
  std::fflush(stdout);
}

void print_tail(const BenchReport& report) {
  int64_t bad = 0;
  double sum = 0;
  int count = 0;
  for (const BenchRow& row : report.rows)
    for (const BenchSide* side : {&row.out_of_place, &row.in_place}) {
      bad += std::max<int64_t>(side->wrong, 0);
      if (side->measured) sum += side->busbw, ++count;
    }
  std::printf("# Out of bounds values : %lld %s\n", static_cast<long long>(bad), bad ? "FAILED" : "OK");
  std::printf("# Avg bus bandwidth    : %g\n", count ? sum / count : 0.0);
}

std::string to_json(const BenchReport& report) {
  nlohmann::json rows = nlohmann::json::array();
  for (const BenchRow& row : report.rows) {
    nlohmann::json out = {{"size", row.bytes},
                          {"count", row.count},
                          {"type", row.dtype},
                          {"redop", row.combine},
                          {"root", row.root},
                          {"out_of_place", side_json(row.out_of_place)},
                          {"in_place", side_json(row.in_place)},
                          {"limit_us", row.limit_us},
                          {"runs", row.runs}};
    if (!report.peers.empty()) out["peers_us"] = row.peers_us;
    if (row.ratio > 0) out["ratio"] = row.ratio;
    rows.push_back(out);
  }
  return nlohmann::json{{"operation", report.operation}, {"ranks", report.ranks}, {"results", rows}}.dump(2);
}

std::string to_svg(const BenchReport& report) {
  constexpr double width = 900, height = 560, left = 80, right = 160, top = 40, bottom = 60;
  constexpr const char* colours[] = {"#c0392b", "#2471a3", "#1e8449", "#b7950b", "#6c3483", "#5d6d7e", "#117a65"};
  const std::vector<Line> lines = lines_of(report);
  Scale x{1e300, 0, left, width - right}, y{1e300, 0, height - bottom, top};
  for (const Line& line : lines)
    for (const auto& [bytes, us] : line.points) {
      x.least = std::min(x.least, bytes), x.most = std::max(x.most, bytes);
      y.least = std::min(y.least, us), y.most = std::max(y.most, us);
    }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"{}\" height=\"{}\" fill=\"white\"/>\n<text x=\"{}\" y=\"24\" font-size=\"16\">{}, {}: "
      "microseconds over bytes</text>\n",
      width, height, width, height, left, report.operation, counted(report.ranks, "rank"));
  if (x.most <= 0) return svg + "</svg>\n";
  for (double us = std::pow(10, std::floor(std::log10(y.least))); us <= y.most; us *= 10)
    if (us >= y.least)
      svg += fmt::format(
          "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/><text x=\"{}\" "
          "y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n",
          left, width - right, y(us), y(us), left - 8, y(us) + 4, us);
  for (int64_t bytes = 8; static_cast<double>(bytes) <= x.most; bytes *= 16)
    if (static_cast<double>(bytes) >= x.least)
      svg += fmt::format(
          "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\" stroke=\"#ddd\"/><text x=\"{:.1f}\" "
          "y=\"{}\" text-anchor=\"middle\">{}</text>\n",
          x(static_cast<double>(bytes)), x(static_cast<double>(bytes)), top, height - bottom,
          x(static_cast<double>(bytes)), height - bottom + 20, bytes_text(bytes));
  for (size_t l = 0; l < lines.size(); ++l) {
    const bool limit = lines[l].name == "limit";
    std::string points;
    for (const auto& [bytes, us] : lines[l].points) points += fmt::format("{:.1f},{:.1f} ", x(bytes), y(us));
    if (points.empty()) continue;
    const char* colour = limit ? "#999" : colours[l % std::size(colours)];
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", points, colour,
                       limit ? " stroke-dasharray=\"5 4\"" : "");
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", width - right + 8,
                       y(lines[l].points.back().second) + 4, colour, lines[l].name);
  }
  return svg + "</svg>\n";
}

}  // namespace weft::tools
