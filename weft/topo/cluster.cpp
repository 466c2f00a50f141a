// Reading cluster files: every key known, every number checked, nothing silently left at a default.
#include "weft/topo/cluster.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cmath>
#include <set>

#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft::topo {
namespace {

class Reader {
 public:
  Reader(const std::string& text, const std::string& name) : name_(name) {
    try {
      file_ = toml::parse(text);
    } catch (const toml::parse_error& error) {
      bad(fmt::format("line {}: {}", error.source().begin.line, error.description()));
    }
  }
  [[noreturn]] void bad(const std::string& what) const {
    throw Error(ErrorKind::user, fmt::format("cluster file {}: {}", name_, what),
                "see machines/ for complete files and docs/simulation.md for the keys");
  }
  [[noreturn]] void bad(const toml::node& at, const std::string& what) const {
    bad(fmt::format("line {}: {}", at.source().begin.line, what));
  }

  const toml::node& need(const char* section, const char* key) {
    seen_.insert(fmt::format("{}.{}", section, key));
    const toml::table* table = *section ? file_[section].as_table() : &file_;
    if (!table) bad(fmt::format("section [{}] is missing", section));
    const toml::node* node = table->get(key);
    if (!node) bad(fmt::format("{}`{}` is missing", *section ? fmt::format("[{}] ", section) : "", key));
    return *node;
  }
  double number(const char* section, const char* key, double least) {
    const toml::node& node = need(section, key);
    const auto value = node.value<double>();
    if (!value || !std::isfinite(*value) || *value < least || *value > 1e12)
      bad(node, fmt::format("{} is a number from {} on", key, least));
    return *value;
  }
  int integer(const char* section, const char* key, int least) {
    const toml::node& node = need(section, key);
    const auto value = node.value_exact<int64_t>();
    if (!value || *value < least || *value > 1 << 24)
      bad(node, fmt::format("{} is a whole number from {} on", key, least));
    return static_cast<int>(*value);
  }
  std::string word(const char* section, const char* key, const std::set<std::string>& of) {
    const toml::node& node = need(section, key);
    const auto value = node.value<std::string>();
    if (!value) bad(node, fmt::format("{} is a text", key));
    if (of.empty() || of.count(*value)) return *value;
    std::string all;
    for (const std::string& w : of) all += (all.empty() ? "" : ", ") + w;
    bad(node, fmt::format("{} = \"{}\": it is one of {}", key, *value, all));
  }
  bool flag(const char* section, const char* key) {
    const toml::node& node = need(section, key);
    const auto value = node.value_exact<bool>();
    if (!value) bad(node, fmt::format("{} is true or false", key));
    return *value;
  }
  void nothing_else() const {
    for (const auto& [key, node] : file_) {
      const toml::table* table = node.as_table();
      if (!table && !seen_.count(fmt::format(".{}", key.str()))) bad(node, fmt::format("`{}` is unknown", key.str()));
      if (!table) continue;
      for (const auto& [inner, value] : *table)
        if (!seen_.count(fmt::format("{}.{}", key.str(), inner.str())))
          bad(value, fmt::format("[{}] `{}` is unknown", key.str(), inner.str()));
    }
  }

 private:
  std::string name_;
  toml::table file_;
  std::set<std::string> seen_;
};

Joint read_joint(Reader& reader, const char* section, const std::set<std::string>& kinds) {
  Joint joint;
  joint.kind = reader.word(section, "kind", kinds);
  joint.latency_ns = reader.number(section, "latency_ns", 0);
  joint.gb_per_s = reader.number(section, "gb_per_s", 0.001);
  joint.channels = reader.integer(section, "channels", 1);
  joint.channel_gb_per_s = reader.number(section, "channel_gb_per_s", 0.001);
  return joint;
}

}  // namespace

Cluster parse_cluster(const std::string& text, const std::string& name) {
  Reader reader(text, name);
  const int version = reader.integer("", "cluster", 0);
  if (version != cluster_version)
    reader.bad(fmt::format("it has version {}, this build reads {}", version, cluster_version));
  Cluster c;
  c.name = reader.word("", "name", {});
  c.source = reader.word("", "source", {});
  c.nodes = reader.integer("", "nodes", 1);
  c.gpus_per_node = reader.integer("", "gpus_per_node", 1);
  c.architecture = reader.word("gpu", "architecture", {"volta", "ampere", "hopper", "cpu"});
  c.memory_gb_per_s = reader.number("gpu", "memory_gb_per_s", 0.001);
  c.tflops = reader.number("gpu", "tflops", 0.000001);
  c.launch_us = reader.number("gpu", "launch_us", 0);
  c.send_ns = reader.number("gpu", "send_ns", 0);
  c.receive_ns = reader.number("gpu", "receive_ns", 0);
  c.gap_ns = reader.number("gpu", "gap_ns", 0);
  c.cpu = reader.word("nccl", "cpu", {"intel", "amd", "arm"});
  c.ll128 = reader.flag("nccl", "ll128");
  c.nvls = reader.flag("nccl", "nvls");
  c.nccl = reader.integer("nccl", "release", 219);
  c.intra = read_joint(reader, "intra", {"nvlink", "nvswitch", "pcie", "memory"});
  c.inter = read_joint(reader, "inter", {"infiniband", "slingshot", "ethernet", "none"});
  reader.nothing_else();
  if (c.nodes > 1 && c.inter.kind == "none") reader.bad(fmt::format("{} nodes and [inter] kind = \"none\"", c.nodes));
  return c;
}

Cluster read_cluster(const std::filesystem::path& path) { return parse_cluster(read_file(path), path.string()); }

}  // namespace weft::topo
