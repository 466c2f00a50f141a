// Layouts as text and as DOT, and the layout of a cluster file.
#include "weft/topo/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "weft/base/plural.h"
#include "weft/base/text.h"

namespace weft::topo {
namespace {

std::string words_of(const Part& part) {
  std::string text = part.count > 1 ? fmt::format("{} x {}", part.count, part.name) : part.name;
  if (!part.detail.empty()) text += ": " + part.detail;
  return text;
}

void print_part(const Part& part, int depth, std::string& out) {
  out += std::string(static_cast<size_t>(2 * depth), ' ') + words_of(part) + "\n";
  for (const Part& inner : part.parts) print_part(inner, depth + 1, out);
}

std::string dot_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

const char* colour_of(const std::string& kind) {
  static const std::map<std::string, const char*> colours = {{"gpu", "#b7e1a1"},    {"nic", "#ffd9a8"},
                                                             {"net", "#ffd9a8"},    {"switch", "#cfe2f3"},
                                                             {"fabric", "#cfe2f3"}, {"memory", "#eeeeee"}};
  const auto found = colours.find(kind);
  return found == colours.end() ? "white" : found->second;
}

class Dot {
 public:
  explicit Dot(const Layout& layout) : layout_(layout) {
    out_ =
        "graph machine {\n  graph [fontname=\"sans-serif\", rankdir=TB, compound=true];\n"
        "  node [fontname=\"sans-serif\", fontsize=11, shape=box, style=filled];\n"
        "  edge [fontname=\"sans-serif\", fontsize=9];\n";
    part(layout.root, 1);
    for (const Join& join : layout.joins) this->join(join);
    out_ += "}\n";
  }
  std::string take() { return std::move(out_); }

 private:
  void part(const Part& p, int depth) {
    const std::string indent(static_cast<size_t>(2 * depth), ' ');
    const std::string id = p.id.empty() ? fmt::format("part{}", next_++) : p.id;
    std::string label = p.count > 1 ? fmt::format("{} x {}", p.count, p.name) : p.name;
    if (!p.detail.empty()) label += "\\n" + p.detail;
    if (p.parts.empty()) {
      ends_[id] = {id, ""};
      out_ += fmt::format("{}{} [label={}, fillcolor=\"{}\"];\n", indent, dot_string(id), label_text(label),
                          colour_of(p.kind));
      return;
    }
    out_ += fmt::format("{}subgraph {} {{\n{}  label={};\n{}  style=rounded;\n", indent, dot_string("cluster_" + id),
                        indent, label_text(label), indent);
    for (const Part& inner : p.parts) part(inner, depth + 1);
    out_ += indent + "}\n";
    const Part* leaf = &p;
    while (!leaf->parts.empty()) leaf = &leaf->parts.front();
    ends_[id] = {leaf->id, "cluster_" + id};
  }
  // Line breaks stay.
  static std::string label_text(const std::string& text) {
    std::string out = dot_string(text);
    for (size_t at = 0; (at = out.find("\\\\n", at)) != std::string::npos;) out.replace(at, 3, "\\n");
    return out;
  }
  void join(const Join& j) {
    const auto from = ends_.find(j.from), to = ends_.find(j.to);
    if (from == ends_.end() || to == ends_.end() || from->second.first.empty() || to->second.first.empty()) return;
    std::string more;
    if (!from->second.second.empty()) more += fmt::format(", ltail={}", dot_string(from->second.second));
    if (!to->second.second.empty()) more += fmt::format(", lhead={}", dot_string(to->second.second));
    out_ += fmt::format("  {} -- {} [label={}{}];\n", dot_string(from->second.first), dot_string(to->second.first),
                        dot_string(j.label), more);
  }

  const Layout& layout_;
  std::string out_;
  int next_ = 0;
  std::map<std::string, std::pair<std::string, std::string>> ends_;  // id: a node, and the box it stands for
};

std::string joint_text(const Joint& joint) {
  return fmt::format("{:g} GB/s each way, {:g} us; NCCL: {} of {:g} GB/s", joint.gb_per_s, joint.latency_ns / 1000,
                     counted(joint.channels, "channel"), joint.channel_gb_per_s);
}

// One node: its GPUs, what joins them, and the ways out.
Part node_of(const Cluster& c, int number, Layout& layout) {
  const std::string name = fmt::format("node{}", number);
  const bool cpu = c.architecture == "cpu";
  Part node{"node", fmt::format("node {}", number), "", name, 1, {}};
  const std::string middle = name + "_middle";
  const bool pairs = c.intra.kind == "nvlink" && c.gpus_per_node <= 4;
  if (!pairs && c.gpus_per_node > 1)
    node.parts.push_back({"switch",
                          c.intra.kind == "nvswitch" ? "NVSwitch"
                          : c.intra.kind == "memory" ? "shared memory"
                          : c.intra.kind == "pcie"   ? "PCIe"
                                                     : "NVLink",
                          joint_text(c.intra),
                          middle,
                          1,
                          {}});
  for (int g = 0; g < c.gpus_per_node; ++g) {
    const std::string id = fmt::format("{}_gpu{}", name, g);
    node.parts.push_back({"gpu", fmt::format("{} {}", cpu ? "rank" : "GPU", g), cpu ? "" : c.architecture, id, 1, {}});
    if (!pairs && c.gpus_per_node > 1) layout.joins.push_back({middle, id, ""});
    for (int other = 0; pairs && other < g; ++other)
      layout.joins.push_back({fmt::format("{}_gpu{}", name, other), id, other == 0 && g == 1 ? "NVLink" : ""});
  }
  if (c.inter.kind != "none") {
    node.parts.push_back({"nic", fmt::format("{} NICs", c.inter.kind), joint_text(c.inter), name + "_out", 1, {}});
    for (int g = 0; g < c.gpus_per_node; ++g)
      layout.joins.push_back({fmt::format("{}_gpu{}", name, g), name + "_out", ""});
  }
  return node;
}

}  // namespace

Layout layout_of(const Cluster& c) {
  constexpr int most_nodes = 2;
  Layout layout;
  layout.root = {"cluster", c.name, counted(c.nodes, "node"), "cluster", 1, {}};
  for (int n = 0; n < std::min(c.nodes, most_nodes); ++n) layout.root.parts.push_back(node_of(c, n, layout));
  if (c.nodes > 1) {
    layout.root.parts.push_back({"fabric", c.inter.kind, "", "fabric", 1, {}});
    for (int n = 0; n < std::min(c.nodes, most_nodes); ++n)
      layout.joins.push_back(
          {fmt::format("node{}_out", n), "fabric", fmt::format("{:g} GB/s a GPU", c.inter.gb_per_s)});
    if (c.nodes > most_nodes) {
      layout.root.parts.push_back({"node", "node", "as the others", "more", c.nodes - most_nodes, {}});
      layout.joins.push_back({"more", "fabric", ""});
    }
  }
  layout.notes.push_back(fmt::format("each GPU: {:g} GB/s of memory, {:g} TFLOP/s (f32), {:g} us to launch",
                                     c.memory_gb_per_s, c.tflops, c.launch_us));
  layout.notes.push_back(fmt::format("NCCL {}.{}: LL128 {}, NVLS {}", c.nccl / 100, c.nccl % 100,
                                     c.ll128 ? "yes" : "no", c.nvls ? "yes" : "no"));
  layout.notes.push_back("figures from: " + c.source);
  return layout;
}

std::string print(const Layout& layout) {
  std::string out;
  print_part(layout.root, 0, out);
  for (const Join& join : layout.joins)
    if (!join.label.empty()) out += fmt::format("{} -- {}: {}\n", join.from, join.to, join.label);
  for (const std::string& note : layout.notes) out += note + "\n";
  return out;
}

std::string dot(const Layout& layout) { return Dot(layout).take(); }

}  // namespace weft::topo
