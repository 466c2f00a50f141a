// What a machine consists of and what joins its parts: to be listed and drawn. Read from a cluster file, from hwloc, or
// from NCCL's own topology file (NCCL_TOPO_DUMP_FILE).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "weft/topo/cluster.h"

namespace weft::topo {

struct Part {
  std::string kind, name, detail;  // "gpu", "GPU 0", "sm 80"
  std::string id;                  // what joins call it; may be empty
  int count = 1;                   // so many alike
  std::vector<Part> parts;
};
struct Join {
  std::string from, to, label;
};
struct Layout {
  Part root;
  std::vector<Join> joins;
  std::vector<std::string> notes;
};

Layout layout_of(const Cluster& cluster);
Layout layout_here();  // hwloc: packages, caches, cores, GPUs and NICs that it sees
// Error(user) with file and line for what is no such file, elements and numbers that cannot be, and links to nowhere.
Layout read_nccl_topology(const std::filesystem::path& path);
bool is_nccl_topology(const std::string& text);

std::string print(const Layout& layout);  // indented, one part a line; then joins
std::string dot(const Layout& layout);    // for graphviz: boxes in boxes

}  // namespace weft::topo
