// Fabrics: hosts, links with a bandwidth each, and the way from host to host. Routing is static and minimal, so a way is
// a function of the two hosts; how flows share it is flows.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft::sim {

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual int hosts() const = 0;
  virtual const std::vector<double>& capacities() const = 0;  // bytes per ns, by link
  // Appends the links from one host to another (none to itself).
  virtual void route(int from, int to, std::vector<uint32_t>& links) const = 0;
};

// Everybody on one switch that never blocks: a link up and one down each.
std::unique_ptr<Fabric> make_switch(int hosts, double bytes_per_ns);

// An extended generalised fat tree (Ohring et al. 1995): level i joins down[i] nodes of the level below under up[i]
// switches, over links of bytes_per_ns[i]. {32, 32}, {1, 8} has 1,024 hosts, 32 on a leaf with 8 ways up: 4 to 1
// oversubscribed where the bandwidths are equal. Routes are D-mod-k: the way up is chosen by the destination.
std::unique_ptr<Fabric> make_fat_tree(const std::vector<int>& down, const std::vector<int>& up,
                                      const std::vector<double>& bytes_per_ns);

// A dragonfly (Kim et al., ISCA 2008): groups of `routers`, `hosts` on each, `global` links each to other groups; at
// most routers * global + 1 groups. Minimal routes: local, global, local.
struct Dragonfly {
  int groups = 9, routers = 4, hosts = 2, global = 2;
  double host = 1, local = 1, between = 1;  // bytes per ns
};
std::unique_ptr<Fabric> make_dragonfly(const Dragonfly& shape);

// A torus with one host a node, a link each way in each dimension; dimension by dimension, the shorter way round.
std::unique_ptr<Fabric> make_torus(const std::vector<int>& dims, double bytes_per_ns);

// Nodes of `gpus`, each with an NVLink switch inside; GPU i of every node is on rail i. Between nodes a message first
// goes to the GPU of its own node that is on the destination's rail (NCCL's PXN).
std::unique_ptr<Fabric> make_rails(int nodes, int gpus, double nvlink_bytes_per_ns, double nic_bytes_per_ns);

}  // namespace weft::sim
