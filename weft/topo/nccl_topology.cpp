// NCCL's topology file: system > cpu > pci (nested for switches) > gpu with nvlink, nic > net. What it says is checked, and
// beside the tree stands how GPUs reach each other, in NCCL's words: NVn (n NVLinks), PIX (one PCIe switch), PXB (several),
// PHB (the CPU's bridge), SYS (across CPUs).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <pugixml.hpp>
#include <set>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/plural.h"
#include "weft/base/text.h"
#include "weft/topo/layout.h"

namespace weft::topo {
namespace {

constexpr int most_depth = 16;

struct Gpu {
  std::string bus, id;
  std::vector<std::string> way;      // from the CPU down: cpu, switches, itself
  std::map<std::string, int> links;  // bus or "switch": NVLinks
};

class Reader {
 public:
  Reader(const std::string& text, const std::string& name) : text_(text), name_(name) {
    const pugi::xml_parse_result result = document_.load_buffer(text.data(), text.size());
    if (!result) bad(result.offset, fmt::format("no XML: {}", result.description()));
    const pugi::xml_node system = document_.child("system");
    if (!system) bad(0, "the element <system> is missing");
    if (number(system, "version", 1, 1000) != 1)
      bad(system, fmt::format("version {}, this build reads 1", system.attribute("version").value()));
    layout_.root = {"cluster", "NCCL topology", name, "system", 1, {}};
    for (const pugi::xml_node& cpu : elements(system, {"cpu"})) layout_.root.parts.push_back(cpu_of(cpu));
    join_links();
    note_paths();
  }
  Layout take() { return std::move(layout_); }

 private:
  [[noreturn]] void bad(std::ptrdiff_t offset, const std::string& what) const {
    const auto end = text_.begin() + std::clamp<std::ptrdiff_t>(offset, 0, static_cast<std::ptrdiff_t>(text_.size()));
    throw Error(ErrorKind::user, fmt::format("{}:{}: {}", name_, 1 + std::count(text_.begin(), end, '\n'), what),
                "a topology as NCCL writes it with NCCL_TOPO_DUMP_FILE (docs/simulation.md)");
  }
  [[noreturn]] void bad(const pugi::xml_node& node, const std::string& what) const { bad(node.offset_debug(), what); }

  std::vector<pugi::xml_node> elements(const pugi::xml_node& node, const std::set<std::string>& known) const {
    std::vector<pugi::xml_node> list;
    for (const pugi::xml_node& child : node.children()) {
      if (child.type() != pugi::node_element) continue;
      if (!known.count(child.name())) bad(child, fmt::format("<{}> inside of <{}>", child.name(), node.name()));
      list.push_back(child);
    }
    return list;
  }
  std::string word(const pugi::xml_node& node, const char* key) const {
    const std::string value = node.attribute(key).value();
    if (value.empty()) bad(node, fmt::format("<{}> without {}", node.name(), key));
    return value;
  }
  int64_t number(const pugi::xml_node& node, const char* key, int64_t least, int64_t most) const {
    const std::string value = word(node, key);
    int64_t number = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (problem != std::errc() || end != value.data() + value.size() || number < least || number > most)
      bad(node, fmt::format("{}=\"{}\" of <{}>: a whole number from {} to {}", key, value, node.name(), least, most));
    return number;
  }

  Part cpu_of(const pugi::xml_node& cpu) {
    const std::string id = fmt::format("cpu{}", number(cpu, "numaid", -1, 1 << 20));
    Part part{"cpu", fmt::format("CPU {}", word(cpu, "numaid")), cpu.attribute("arch").value(), id, 1, {}};
    if (cpu.attribute("vendor")) part.detail += fmt::format(" {}", cpu.attribute("vendor").value());
    std::vector<std::string> way{id};
    for (const pugi::xml_node& child : elements(cpu, {"pci", "nic"}))
      part.parts.push_back(std::string(child.name()) == "nic" ? nic_of(child, id) : pci_of(child, way));
    return part;
  }

  Part pci_of(const pugi::xml_node& pci, std::vector<std::string> way) {
    const std::string bus = word(pci, "busid");
    if (!seen_.insert(bus).second) bad(pci, fmt::format("bus id {} is there twice", bus));
    if (way.size() > most_depth) bad(pci, fmt::format("more than {} PCI devices inside of each other", most_depth));
    way.push_back(bus);
    std::string speed = pci.attribute("link_speed").value();
    if (*pci.attribute("link_width").value()) speed += fmt::format(" x{}", pci.attribute("link_width").value());
    Part part{"switch", "PCI " + bus, speed, "pci" + bus, 1, {}};
    const std::vector<pugi::xml_node> inside = elements(pci, {"pci", "gpu", "nic", "pcilink"});
    // Files that are given to NCCL say only where devices are; their class says what they are.
    const std::string device = pci.attribute("class").value();
    if (inside.empty() && device.rfind("0x03", 0) == 0) {
      part.parts.push_back({"gpu", fmt::format("GPU {}", gpus_.size()), "", "gpu" + bus, 1, {}});
      gpus_.push_back({bus, "gpu" + bus, way, {}});
    }
    if (inside.empty() && device.rfind("0x02", 0) == 0) {
      part.parts.push_back({"nic", "NIC", "", fmt::format("nic{}", nics_++), 1, {}});
      ++nets_;
    }
    for (const pugi::xml_node& child : inside) {
      const std::string name = child.name();
      if (name == "pci") part.parts.push_back(pci_of(child, way));
      if (name == "gpu") part.parts.push_back(gpu_of(child, bus, way));
      if (name == "nic") part.parts.push_back(nic_of(child, "pci" + bus));
      if (name == "pcilink") layout_.joins.push_back({"pci" + bus, "pci" + word(child, "target"), "PCIe"});
    }
    return part;
  }

  Part gpu_of(const pugi::xml_node& gpu, const std::string& bus, const std::vector<std::string>& way) {
    Gpu known{bus, "gpu" + bus, way, {}};
    const int64_t dev = number(gpu, "dev", 0, 1 << 20);
    for (const pugi::xml_node& link : elements(gpu, {"nvlink", "c2c"})) {
      if (std::string(link.name()) == "c2c") continue;
      const int64_t count = number(link, "count", 1, 1 << 10);
      const bool to_switch = word(link, "tclass").rfind("0x0680", 0) == 0;
      known.links[to_switch ? "switch" : word(link, "target")] += static_cast<int>(count);
      if (!to_switch) targets_.emplace_back(link, word(link, "target"));
    }
    gpus_.push_back(known);
    return {"gpu", fmt::format("GPU {}", dev), fmt::format("sm {}", word(gpu, "sm")), known.id, 1, {}};
  }

  Part nic_of(const pugi::xml_node& nic, const std::string& id) {
    Part part{"nic", "NIC", "", id + "_nic" + std::to_string(nics_++), 1, {}};
    for (const pugi::xml_node& net : elements(nic, {"net"})) {
      const auto speed = static_cast<double>(number(net, "speed", 1, int64_t{1} << 40));
      part.parts.push_back(
          {"net", word(net, "name"), fmt::format("{:g} Gb/s", speed / 1000), fmt::format("net{}", nets_++), 1, {}});
    }
    return part;
  }

  void join_links() {
    for (const auto& [link, target] : targets_)
      if (!seen_.count(target)) bad(link, fmt::format("an NVLink to {}, which is no device here", target));
    std::set<std::pair<std::string, std::string>> drawn;
    bool has_switch = false;
    for (const Gpu& gpu : gpus_)
      for (const auto& [target, count] : gpu.links) {
        has_switch = has_switch || target == "switch";
        const std::string to = target == "switch" ? "nvswitch" : "gpu" + target;
        if (drawn.count({to, gpu.id})) continue;
        drawn.insert({gpu.id, to});
        layout_.joins.push_back({gpu.id, to, counted(count, "NVLink")});
      }
    if (has_switch) layout_.root.parts.push_back({"switch", "NVSwitch", "", "nvswitch", 1, {}});
  }

  static std::string path(const Gpu& a, const Gpu& b) {
    const auto direct = a.links.find(b.bus), up = a.links.find("switch"), down = b.links.find("switch");
    if (direct != a.links.end()) return fmt::format("NV{}", direct->second);
    if (up != a.links.end() && down != b.links.end()) return fmt::format("NV{}", std::min(up->second, down->second));
    if (a.way[0] != b.way[0]) return "SYS";
    size_t shared = 0;
    while (shared < std::min(a.way.size(), b.way.size()) && a.way[shared] == b.way[shared]) ++shared;
    if (shared == 1) return "PHB";
    return a.way.size() - shared <= 1 && b.way.size() - shared <= 1 ? "PIX" : "PXB";
  }

  void note_paths() {
    layout_.notes.push_back(
        fmt::format("{}, {}", counted(static_cast<int64_t>(gpus_.size()), "GPU"), counted(nets_, "network interface")));
    if (gpus_.size() < 2 || gpus_.size() > 32) return;
    std::string head = fmt::format("{:>6}", "");
    for (size_t g = 0; g < gpus_.size(); ++g) head += fmt::format("{:>6}", fmt::format("GPU{}", g));
    layout_.notes.push_back(head);
    for (size_t a = 0; a < gpus_.size(); ++a) {
      std::string line = fmt::format("{:>6}", fmt::format("GPU{}", a));
      for (size_t b = 0; b < gpus_.size(); ++b) line += fmt::format("{:>6}", a == b ? "X" : path(gpus_[a], gpus_[b]));
      layout_.notes.push_back(line);
    }
  }

  const std::string& text_;
  std::string name_;
  pugi::xml_document document_;
  Layout layout_;
  std::vector<Gpu> gpus_;
  std::set<std::string> seen_;
  std::vector<std::pair<pugi::xml_node, std::string>> targets_;
  int nics_ = 0, nets_ = 0;
};

}  // namespace

bool is_nccl_topology(const std::string& text) {
  const size_t at = text.find_first_not_of(" \t\r\n");
  return at != std::string::npos && text[at] == '<';
}

Layout read_nccl_topology(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  return Reader(text, path.string()).take();
}

}  // namespace weft::topo
