// Machines by name: files beside the caller, in the repository, or where the package was installed.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "tools/sim.h"
#include "weft/base/file.h"
#include "weft/base/text.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders() { return {"machines", fs::path(WEFT_DATA_DIR) / "machines"}; }

// NAME:NODES; 0: nothing was said.
int take_nodes(std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || fs::exists(text)) return 0;
  int nodes = 0;
  const std::string number = text.substr(colon + 1);
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), nodes);
  if (problem != std::errc() || end != number.data() + number.size() || nodes < 1 || nodes > 1 << 20)
    throw Error(ErrorKind::user, fmt::format("--machine {}: `{}` is no number of nodes", text, number),
                "NAME:NODES, from 1 to 1048576 nodes, such as dgx_h100:4");
  text.resize(colon);
  return nodes;
}

}  // namespace

std::vector<std::string> cluster_names() {
  std::set<std::string> names;
  for (const fs::path& folder : folders()) {
    if (!fs::is_directory(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".toml") names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

topo::Cluster find_cluster(const std::string& text) {
  std::string name = text;
  const int nodes = take_nodes(name);
  fs::path found;
  if (name.find('/') != std::string::npos || name.ends_with(".toml") || fs::exists(name)) found = name;
  for (const fs::path& folder : folders())
    if (found.empty() && fs::exists(folder / (name + ".toml"))) found = folder / (name + ".toml");
  if (found.empty())
    throw Error(
        ErrorKind::user, fmt::format("no machine is named {}", name),
        fmt::format("machines here: {}; or give a cluster file (docs/simulation.md)", join(cluster_names(), ", ")));
  topo::Cluster cluster = topo::read_cluster(found);
  if (nodes > 1 && cluster.inter.kind == "none")
    throw Error(ErrorKind::user, fmt::format("--machine {}: nothing joins the nodes of {}", text, cluster.name),
                "its file says [inter] kind = \"none\"; take one node, or another machine");
  if (nodes > 0) cluster.nodes = nodes;
  return cluster;
}

}  // namespace weft::tools
