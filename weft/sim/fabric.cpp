// The five fabrics, as arithmetic over link numbers: no graph, no search.
#include "weft/sim/fabric.h"

#include "weft/base/error.h"

namespace weft::sim {
namespace {

[[noreturn]] void bad_shape(const std::string& what) {
  throw Error(ErrorKind::user, what, "every dimension is at least 1, every bandwidth positive");
}

class Links : public Fabric {
 public:
  const std::vector<double>& capacities() const override { return capacities_; }

 protected:
  // `count` links of one bandwidth; returns the number of the first.
  uint32_t add(int64_t count, double bytes_per_ns) {
    if (!(bytes_per_ns > 0)) bad_shape(fmt::format("a bandwidth of {} bytes per ns", bytes_per_ns));
    const auto first = static_cast<uint32_t>(capacities_.size());
    if (count < 0 || first + count > (1 << 28)) bad_shape(fmt::format("a fabric of {} more links", count));
    capacities_.resize(first + static_cast<size_t>(count), bytes_per_ns);
    return first;
  }
  static void at_least_one(int value, const char* what) {
    if (value < 1) bad_shape(fmt::format("a fabric with {} {}", value, what));
  }
  std::vector<double> capacities_;
};

class FatTree : public Links {
 public:
  FatTree(const std::vector<int>& down, const std::vector<int>& up, const std::vector<double>& bandwidth)
      : down_(down), up_(up) {
    if (down.empty() || down.size() != up.size() || down.size() != bandwidth.size())
      bad_shape(fmt::format("a fat tree of {} levels down, {} up and {} bandwidths", down.size(), up.size(),
                            bandwidth.size()));
    for (size_t i = 0; i < down.size(); ++i) at_least_one(down[i], "children"), at_least_one(up[i], "parents");
    for (const int d : down) hosts_ *= d;
    int64_t below = hosts_, ways = 1;  // nodes of the level below: groups of hosts times parallel switches
    for (size_t i = 0; i < down.size(); ++i) {
      first_up_.push_back(add(below * ways * up[i], bandwidth[i]));
      first_down_.push_back(add(below * ways * up[i], bandwidth[i]));
      below /= down[i];
      ways *= up[i];
    }
  }
  int hosts() const override { return static_cast<int>(hosts_); }
  void route(int from, int to, std::vector<uint32_t>& links) const override {
    if (from == to) return;
    size_t levels = 0;
    for (int64_t a = from, b = to; a != b; ++levels) a /= down_[levels], b /= down_[levels];
    uint32_t descent[32];
    int64_t a = from, b = to, ways = 1, way = 0, digits = to;
    for (size_t i = 0; i < levels; ++i) {
      const int64_t choice = digits % up_[i];
      digits /= up_[i];
      links.push_back(first_up_[i] + static_cast<uint32_t>((a * ways + way) * up_[i] + choice));
      descent[i] = first_down_[i] + static_cast<uint32_t>((b * ways + way) * up_[i] + choice);
      way += choice * ways;
      ways *= up_[i];
      a /= down_[i], b /= down_[i];
    }
    while (levels > 0) links.push_back(descent[--levels]);
  }

 private:
  std::vector<int> down_, up_;
  int64_t hosts_ = 1;
  std::vector<uint32_t> first_up_, first_down_;  // by level: (node below, way up)
};

class DragonflyFabric : public Links {
 public:
  explicit DragonflyFabric(const Dragonfly& s) : s_(s) {
    at_least_one(s.groups, "groups"), at_least_one(s.routers, "routers"), at_least_one(s.hosts, "hosts");
    if (s.groups > 1) at_least_one(s.global, "global links");
    if (s.groups > s.routers * s.global + 1)
      bad_shape(fmt::format("a dragonfly of {} groups, but {} routers with {} global links reach only {}", s.groups,
                            s.routers, s.global, s.routers * s.global + 1));
    const int64_t all = int64_t{s.groups} * s.routers;
    up_ = add(all * s.hosts, s.host);
    down_ = add(all * s.hosts, s.host);
    local_ = add(all * s.routers, s.local);
    global_ = add(int64_t{s.groups} * s.groups, s.between);
  }
  int hosts() const override { return s_.groups * s_.routers * s_.hosts; }
  void route(int from, int to, std::vector<uint32_t>& links) const override {
    if (from == to) return;
    int router = from / s_.hosts;
    const int end = to / s_.hosts, group = router / s_.routers, goal = end / s_.routers;
    links.push_back(up_ + static_cast<uint32_t>(from));
    if (group != goal) {
      step(router, gateway(group, goal), links);
      links.push_back(global_ + static_cast<uint32_t>(group * s_.groups + goal));
      router = gateway(goal, group);
    }
    step(router, end, links);
    links.push_back(down_ + static_cast<uint32_t>(to));
  }

 private:
  int gateway(int group, int other) const {
    return group * s_.routers + ((other - group + s_.groups) % s_.groups - 1) / s_.global;
  }
  void step(int from, int to, std::vector<uint32_t>& links) const {
    if (from != to) links.push_back(local_ + static_cast<uint32_t>(from * s_.routers + to % s_.routers));
  }
  Dragonfly s_;
  uint32_t up_ = 0, down_ = 0, local_ = 0, global_ = 0;
};

class Torus : public Links {
 public:
  Torus(const std::vector<int>& dims, double bandwidth) : dims_(dims) {
    if (dims.empty()) bad_shape("a torus without dimensions");
    for (const int d : dims) {
      at_least_one(d, "nodes in a dimension");
      hosts_ *= d;
    }
    add(hosts_ * static_cast<int64_t>(dims.size()) * 2, bandwidth);
  }
  int hosts() const override { return static_cast<int>(hosts_); }
  void route(int from, int to, std::vector<uint32_t>& links) const override {
    int64_t stride = 1, at = from;
    for (size_t d = 0; d < dims_.size(); ++d) {
      const int size = dims_[d];
      const auto here = static_cast<int>(at / stride % size), there = static_cast<int>(to / stride % size);
      const int ahead = (there - here + size) % size;
      const bool forward = 2 * ahead <= size;
      for (int hop = forward ? ahead : size - ahead, x = here; hop > 0; --hop) {
        links.push_back(
            static_cast<uint32_t>((at * static_cast<int64_t>(dims_.size()) + static_cast<int64_t>(d)) * 2 + forward));
        const int next = (x + (forward ? 1 : size - 1)) % size;
        at += (next - x) * stride;
        x = next;
      }
      stride *= size;
    }
  }

 private:
  std::vector<int> dims_;
  int64_t hosts_ = 1;
};

class Rails : public Links {
 public:
  Rails(int nodes, int gpus, double nvlink, double nic) : nodes_(nodes), gpus_(gpus) {
    at_least_one(nodes, "nodes"), at_least_one(gpus, "GPUs in a node");
    const int64_t all = int64_t{nodes} * gpus;
    out_ = add(all, nvlink), in_ = add(all, nvlink), up_ = add(all, nic), down_ = add(all, nic);
  }
  int hosts() const override { return nodes_ * gpus_; }
  void route(int from, int to, std::vector<uint32_t>& links) const override {
    if (from == to) return;
    const int proxy = from / gpus_ == to / gpus_ ? to : from / gpus_ * gpus_ + to % gpus_;
    if (proxy != from) {
      links.push_back(out_ + static_cast<uint32_t>(from));
      links.push_back(in_ + static_cast<uint32_t>(proxy));
    }
    if (proxy == to) return;
    links.push_back(up_ + static_cast<uint32_t>(proxy));
    links.push_back(down_ + static_cast<uint32_t>(to));
  }

 private:
  int nodes_, gpus_;
  uint32_t out_ = 0, in_ = 0, up_ = 0, down_ = 0;
};

}  // namespace

std::unique_ptr<Fabric> make_switch(int hosts, double bytes_per_ns) {
  return std::make_unique<FatTree>(std::vector<int>{hosts}, std::vector<int>{1}, std::vector<double>{bytes_per_ns});
}
std::unique_ptr<Fabric> make_fat_tree(const std::vector<int>& down, const std::vector<int>& up,
                                      const std::vector<double>& bytes_per_ns) {
  return std::make_unique<FatTree>(down, up, bytes_per_ns);
}
std::unique_ptr<Fabric> make_dragonfly(const Dragonfly& shape) { return std::make_unique<DragonflyFabric>(shape); }
std::unique_ptr<Fabric> make_torus(const std::vector<int>& dims, double bytes_per_ns) {
  return std::make_unique<Torus>(dims, bytes_per_ns);
}
std::unique_ptr<Fabric> make_rails(int nodes, int gpus, double nvlink_bytes_per_ns, double nic_bytes_per_ns) {
  return std::make_unique<Rails>(nodes, gpus, nvlink_bytes_per_ns, nic_bytes_per_ns);
}

}  // namespace weft::sim
