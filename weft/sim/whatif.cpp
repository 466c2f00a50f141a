// The product, point by point. NCCL's points are formulas; Weft's are simulated, so they come with a budget.
#include "weft/sim/whatif.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::sim {
namespace {

constexpr size_t most_points = 20'000;

[[noreturn]] void bad(const std::string& axis, const std::string& value, const std::string& what) {
  throw Error(ErrorKind::user, fmt::format("--what-if {}={}: {}", axis, value, what),
              "axes: algo=ring,tree,weft:halving  proto=LL,LL128,Simple  channels=1..32  nodes=1..64  size=64K,1M  "
              "nic_bw=x1,x2  gpu_bw=, memory_bw=, nic_latency=, gpu_latency=");
}

int64_t count_of(const std::string& axis, const std::string& value, int64_t most) {
  int64_t number = 0;
  try {
    number = parse_count(value);
  } catch (const Error&) { bad(axis, value, "no count"); }
  if (number < 1 || number > most) bad(axis, value, fmt::format("it is from 1 to {}", most));
  return number;
}

// 1..32: 1, 2, 4 ... and the end.
std::vector<std::string> range_of(const std::string& axis, const std::string& text, int64_t most) {
  const size_t dots = text.find("..");
  const int64_t first = count_of(axis, text.substr(0, dots), most), last = count_of(axis, text.substr(dots + 2), most);
  if (last < first) bad(axis, text, "a range ascends");
  std::vector<std::string> values;
  for (int64_t value = first; value < last; value *= 2) values.push_back(std::to_string(value));
  values.push_back(std::to_string(last));
  return values;
}

// "x2": a factor of `usual`; "50": itself.
double figure_of(const std::string& axis, const std::string& value, double usual) {
  const bool factor = value[0] == 'x';
  double number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, problem] = std::from_chars(value.data() + (factor ? 1 : 0), end, number);
  if (problem != std::errc() || stop != end || !std::isfinite(number) || number <= 0 || number > 1e9)
    bad(axis, value, "a factor such as x2, or a number above 0");
  return factor ? usual * number : number;
}

struct Figure {
  const char* name;
  topo::Joint topo::Cluster::*joint;  // null: the memory's
  bool latency;
};
constexpr Figure figures[] = {{"nic_bw", &topo::Cluster::inter, false},
                              {"gpu_bw", &topo::Cluster::intra, false},
                              {"memory_bw", nullptr, false},
                              {"nic_latency", &topo::Cluster::inter, true},
                              {"gpu_latency", &topo::Cluster::intra, true}};

const Figure* find_figure(const std::string& name) {
  for (const Figure& f : figures)
    if (name == f.name) return &f;
  return nullptr;
}

// Bandwidth of a link is also that of each channel over it.
void apply_figure(const Figure& f, const std::string& value, topo::Cluster& cluster) {
  if (!f.joint) {
    cluster.memory_gb_per_s = figure_of(f.name, value, cluster.memory_gb_per_s);
    return;
  }
  topo::Joint& joint = cluster.*f.joint;
  if (f.latency) {
    joint.latency_ns =
        value[0] == 'x' ? figure_of(f.name, value, joint.latency_ns) : 1000 * figure_of(f.name, value, 0);
    return;
  }
  const double before = joint.gb_per_s;
  joint.gb_per_s = figure_of(f.name, value, before);
  joint.channel_gb_per_s *= joint.gb_per_s / before;
}

struct Point {
  topo::Cluster cluster;
  Question question;
  NcclWishes wishes;
  std::string algorithm;
  int channels = 0;
  std::string proto;
};

void check_algorithm(const Axis& axis, const std::string& value) {
  if (value == "weft") return;
  if (value.rfind("weft:", 0) == 0) {
    if (!algo::find_algorithm(value.substr(5))) bad(axis.name, value, "Weft has no algorithm of that name");
    return;
  }
  try {
    nccl_filter(value, "", NcclCollective::all_reduce);
  } catch (const Error& error) { bad(axis.name, value, error.message()); }
}

void check_value(const Axis& axis, const std::string& value) {
  if (value.empty()) bad(axis.name, value, "a value is missing");
  if (axis.name == "algo") return check_algorithm(axis, value);
  if (axis.name == "proto") try {
      nccl_filter("", value, NcclCollective::all_reduce);
      return;
    } catch (const Error& error) { bad(axis.name, value, error.message()); }
  if (axis.name == "channels" || axis.name == "nodes")
    count_of(axis.name, value, axis.name == "nodes" ? 1 << 18 : 64);
  else if (axis.name == "size")
    count_of(axis.name, value, int64_t{1} << 50);
  else
    figure_of(axis.name, value, 1);
}

void apply_value(const Axis& axis, const std::string& value, Point& point) {
  if (axis.name == "algo") {
    point.algorithm = value;
  } else if (axis.name == "proto") {
    point.wishes.proto = point.proto = value;
  } else if (axis.name == "channels") {
    point.channels = static_cast<int>(parse_count(value));
    point.wishes.limits.min_channels = point.wishes.limits.max_channels = point.channels;
  } else if (axis.name == "nodes") {
    point.cluster.nodes = static_cast<int>(parse_count(value));
    point.question.ranks = point.cluster.nodes * point.cluster.gpus_per_node;
  } else if (axis.name == "size") {
    point.question.bytes = parse_count(value);
  } else {
    apply_figure(*find_figure(axis.name), value, point.cluster);
  }
}

NcclProtocol protocol_of(const std::string& text, const Question& q, const topo::Cluster& cluster) {
  if (text.empty())
    return q.bytes <= 256 << 10 ? NcclProtocol::ll : cluster.ll128 ? NcclProtocol::ll128 : NcclProtocol::simple;
  const NcclFilter filter = nccl_filter("", text, q.collective);
  for (int p = 0; p < 3; ++p)
    if (filter.protocol[p]) return static_cast<NcclProtocol>(p);
  return NcclProtocol::simple;
}

void take_plan(const PlanAnswer& answer, WhatIfPoint& out) {
  out.us = answer.us;
  out.bound = answer.bound;
  out.runs = fmt::format("Weft {} {} x{}", answer.choice.algorithm->name(), name(answer.choice.protocol),
                         answer.choice.channels);
}

void simulate_point(const Point& p, bool keep_order, WhatIfPoint& out) {
  if (p.algorithm == "weft") {
    PlanWishes wishes{keep_order, std::nullopt, p.channels};
    if (!p.proto.empty()) wishes.protocol = protocol_of(p.proto, p.question, p.cluster);
    const auto answer = weft_answer(p.cluster, p.question, wishes);
    if (!answer) out.impossible = "no plan small enough to simulate";
    if (answer) take_plan(*answer, out);
    return;
  }
  const algo::Algorithm* algorithm = algo::find_algorithm(p.algorithm.substr(5));
  if (!algorithm || !algorithm->supports(collective_of(p.question.collective)) ||
      !algorithm->supports_ranks(p.question.ranks)) {
    out.impossible = "Weft has no such plan for these ranks";
    return;
  }
  if (algorithm->needs_mapped() && nodes_of(p.cluster, p.question.ranks) > 1) {
    out.impossible = "it maps peers' memory, which nodes do not share";
    return;
  }
  PlanChoice choice = plan_choice(p.cluster, p.question, *algorithm, protocol_of(p.proto, p.question, p.cluster),
                                  p.channels ? p.channels : 4);
  PlanAnswer answer = simulate_choice(p.cluster, p.question, choice);
  choice.slots *= 4;
  answer.bound = bound_of(answer.prediction, p.cluster.launch_us * 1000,
                          simulate_choice(p.cluster, p.question, choice).prediction.end_ns);
  take_plan(answer, out);
}

void nccl_point(const Point& p, WhatIfPoint& out) {
  const NcclAnswer answer = nccl_answer(p.cluster, p.question, p.wishes);
  out.us = answer.us;
  out.bound = answer.bound;
  out.runs = answer.choice ? fmt::format("NCCL {} {} {}x{}", name(answer.choice->algorithm),
                                         name(answer.choice->protocol), answer.launch.channels, answer.launch.threads)
                           : "NCCL point to point";
}

WhatIfPoint predict_point(Point p, bool keep_order) {
  WhatIfPoint out;
  const bool simulated = p.algorithm.rfind("weft", 0) == 0;
  if (!simulated && !p.algorithm.empty()) p.wishes.algo = p.algorithm;
  p.question.bytes = rounded_bytes(p.question.collective, p.question.ranks, p.question.bytes, p.question.dtype);
  out.question = p.question;
  try {
    if (simulated)
      simulate_point(p, keep_order, out);
    else
      nccl_point(p, out);
    out.limit = lower_bound(p.cluster, p.question);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal || error.kind() == ErrorKind::plan) throw;
    out.impossible = error.message();
  }
  if (out.us > 0)
    out.busbw =
        static_cast<double>(p.question.bytes) / out.us / 1000 * bus_factor(p.question.collective, p.question.ranks);
  return out;
}

size_t points_of(const std::vector<Axis>& axes) {
  size_t points = 1;
  std::set<std::string> names;
  for (const Axis& axis : axes) {
    if (!names.insert(axis.name).second)
      throw Error(ErrorKind::user, fmt::format("--what-if: the axis {} is there twice", axis.name),
                  axis.name == "size" ? "give sizes by -b, -e, -f or as an axis" : "give all its values at once");
    points *= axis.values.size();
    if (points > most_points)
      throw Error(ErrorKind::user, fmt::format("--what-if: more than {} points", most_points), "give fewer values");
  }
  return points;
}

}  // namespace

Axis parse_axis(const std::string& text) {
  const size_t equals = text.find('=');
  Axis axis{text.substr(0, equals), {}};
  static const std::set<std::string> counted{"algo", "proto", "channels", "nodes", "size"};
  if (equals == std::string::npos) bad(text, "", "an axis is NAME=VALUES");
  if (!counted.count(axis.name) && !find_figure(axis.name)) bad(axis.name, text.substr(equals + 1), "no such axis");
  const int64_t most = axis.name == "channels" ? 64 : axis.name == "nodes" ? 1 << 18 : int64_t{1} << 50;
  for (const std::string& value : split(text.substr(equals + 1), ',')) {
    if (value.find("..") == std::string::npos || !counted.count(axis.name)) {
      axis.values.push_back(value);
    } else {
      const std::vector<std::string> range = range_of(axis.name, value, most);
      axis.values.insert(axis.values.end(), range.begin(), range.end());
    }
  }
  if (axis.values.empty()) bad(axis.name, "", "a value is missing");
  for (const std::string& value : axis.values) check_value(axis, value);
  return axis;
}

std::vector<WhatIfPoint> what_if(const topo::Cluster& cluster, const Question& question, const std::vector<Axis>& axes,
                                 const NcclWishes& wishes, bool keep_order) {
  const size_t points = points_of(axes);
  std::vector<WhatIfPoint> list;
  std::vector<size_t> at(axes.size());
  for (size_t i = 0; i < points; ++i) {
    Point point{cluster, question, wishes, "", 0, ""};
    for (size_t a = 0; a < axes.size(); ++a) apply_value(axes[a], axes[a].values[at[a]], point);
    list.push_back(predict_point(std::move(point), keep_order));
    list.back().at = at;
    for (size_t a = axes.size(); a-- > 0;) {
      if (++at[a] < axes[a].values.size()) break;
      at[a] = 0;
    }
  }
  return list;
}

}  // namespace weft::sim
