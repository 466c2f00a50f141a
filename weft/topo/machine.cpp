// Machines as data: detection by hwloc, files in TOML, and curves by interpolation.
//
// Why a file and not constants in code: figures age and differ, and a prediction is only as honest as the figures it
// names. Every machine file says where its numbers come from (`source`).
#include "weft/topo/machine.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/base/text.h"

namespace weft::topo {
namespace {

// The fields of a machine file, in file order: one table for reading and writing.
struct NumberField {
  const char* key;
  double Machine::*at;
  bool may_be_none = false;  // 0
};
struct IntegerField {
  const char* key;
  int64_t Machine::*at;
};
struct CurveField {
  const char* key;
  BandwidthCurve Machine::*at;
};

constexpr NumberField number_fields[] = {
    {"hop_ns", &Machine::hop_ns},
    {"step_ns", &Machine::step_ns},
    {"launch_ns", &Machine::launch_ns},
    {"message_ns", &Machine::message_ns},
    {"await_ns", &Machine::await_ns},
    {"wire_ns", &Machine::wire_ns, true},
    {"wire_bytes_per_s", &Machine::wire_bytes_per_s, true},
    {"flops_per_s", &Machine::flops_per_s},
    {"matmul_flops_per_s", &Machine::matmul_flops_per_s},
    {"packed_bytes_per_s", &Machine::packed_bytes_per_s},
};
constexpr IntegerField integer_fields[] = {
    {"l2_bytes", &Machine::l2_bytes},
    {"l3_bytes", &Machine::l3_bytes},
    {"memory_bytes", &Machine::memory_bytes},
};
constexpr CurveField curve_fields[] = {
    {"read", &Machine::read},
    {"write", &Machine::write},
    {"write_stream", &Machine::write_stream},
    {"read_peer", &Machine::read_peer},
    {"write_peer", &Machine::write_peer},
    {"write_peer_stream", &Machine::write_peer_stream},
};

[[noreturn]] void bad_file(const std::string& name, const std::string& what) {
  throw Error(ErrorKind::user, fmt::format("machine file {}: {}", name, what),
              "run `weft calibrate` to write a fresh one, or mend the line");
}

std::vector<double> number_list(const toml::table& table, const char* key, const std::string& path, const char* curve) {
  const toml::array* list = table[key].as_array();
  if (!list || list->empty()) bad_file(path, fmt::format("[{}] needs a list `{}` of numbers", curve, key));
  std::vector<double> out;
  for (const toml::node& node : *list) {
    const auto value = node.value<double>();
    if (!value || !(*value > 0) || !std::isfinite(*value))
      bad_file(path, fmt::format("[{}] {}: every entry is a positive number", curve, key));
    out.push_back(*value);
  }
  return out;
}

// A key that is there must hold an integer: what was meant otherwise is not quietly replaced by the default.
int64_t integer_or(const toml::table& file, const char* key, int64_t absent, int64_t least, const std::string& path) {
  if (!file[key]) return absent;
  const auto value = file[key].value<int64_t>();
  if (!value || *value < least) bad_file(path, fmt::format("{} must be an integer of at least {}", key, least));
  return *value;
}

BandwidthCurve read_curve(const toml::table& file, const char* name, const std::string& path) {
  const toml::table* table = file[name].as_table();
  if (!table) bad_file(path, fmt::format("section [{}] is missing", name));
  BandwidthCurve curve{number_list(*table, "bytes", path, name), number_list(*table, "bytes_per_s", path, name)};
  if (curve.bytes.size() != curve.bytes_per_s.size())
    bad_file(path, fmt::format("[{}] bytes and bytes_per_s differ in length", name));
  if (!std::is_sorted(curve.bytes.begin(), curve.bytes.end()))
    bad_file(path, fmt::format("[{}] bytes must ascend", name));
  return curve;
}

std::string print_curve(const char* name, const BandwidthCurve& curve) {
  const auto list = [](const std::vector<double>& values) {
    std::string out;
    for (const double value : values) out += (out.empty() ? "" : ", ") + fmt::format("{:.0f}", value);
    return out;
  };
  return fmt::format("\n[{}]\nbytes = [{}]\nbytes_per_s = [{}]\n", name, list(curve.bytes), list(curve.bytes_per_s));
}

// One default figure for every working set, until somebody calibrates.
BandwidthCurve flat(double bytes_per_s) { return {{4096, 1 << 30}, {bytes_per_s, bytes_per_s}}; }

class Topology {
 public:
  Topology() {
    hwloc_topology_init(&topology_);
    hwloc_topology_load(topology_);
  }
  ~Topology() { hwloc_topology_destroy(topology_); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  int64_t cache_bytes(hwloc_obj_type_t type) const {
    const hwloc_obj_t cache = hwloc_get_obj_by_type(topology_, type, 0);
    return cache ? static_cast<int64_t>(cache->attr->cache.size) : 0;
  }
  int64_t memory_bytes() const { return static_cast<int64_t>(hwloc_get_root_obj(topology_)->total_memory); }
  std::string cpu() const {
    const hwloc_obj_t package = hwloc_get_obj_by_type(topology_, HWLOC_OBJ_PACKAGE, 0);
    const char* model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : nullptr;
    return model ? std::string(trim(model)) : "unknown CPU";
  }

 private:
  hwloc_topology_t topology_ = nullptr;
};

}  // namespace

double BandwidthCurve::at(double working_set) const {
  WEFT_CHECK(!bytes.empty(), "an empty bandwidth curve");
  if (working_set <= bytes.front()) return bytes_per_s.front();
  if (working_set >= bytes.back()) return bytes_per_s.back();
  const size_t hi = static_cast<size_t>(std::upper_bound(bytes.begin(), bytes.end(), working_set) - bytes.begin());
  const double share = std::log2(working_set / bytes[hi - 1]) / std::log2(bytes[hi] / bytes[hi - 1]);
  return bytes_per_s[hi - 1] + share * (bytes_per_s[hi] - bytes_per_s[hi - 1]);
}

namespace {

// Ranks are pinned later, and what a program was started with is what a machine is known by: read before main.
const std::vector<int> cores_at_start = allowed_cores();

}  // namespace

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; core++)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

Machine detect() {
  const Topology topology;
  Machine machine;
  machine.name = "this machine";
  machine.cpu = topology.cpu();
  machine.source = "hwloc; bandwidths are defaults, not measured";
  machine.cores = std::max<int>(1, static_cast<int>(cores_at_start.size()));
  machine.l2_bytes = topology.cache_bytes(HWLOC_OBJ_L2CACHE);
  machine.l3_bytes = topology.cache_bytes(HWLOC_OBJ_L3CACHE);
  machine.memory_bytes = topology.memory_bytes();
  for (const CurveField& field : curve_fields) machine.*field.at = flat(8e9);
  return machine;
}

std::string fingerprint(const Machine& machine) {
  return fmt::format("{} | {} cores | L2 {} | L3 {}", machine.cpu, machine.cores, machine.l2_bytes, machine.l3_bytes);
}

std::filesystem::path calibration_path(int ranks) {
  const std::string id = hash_hex(fingerprint(detect())).substr(0, 12);
  const std::filesystem::path folder = cache_directory() / "machines";
  std::error_code failed;  // where it cannot be made, writing says so
  std::filesystem::create_directory(folder, failed);
  return folder / fmt::format("{}-n{}.toml", id, ranks);
}

Machine read_machine(const std::filesystem::path& path) { return parse_machine(read_file(path), path.string()); }

Machine parse_machine(const std::string& text, const std::string& path) {
  toml::table file;
  try {
    file = toml::parse(text);
  } catch (const toml::parse_error& error) {
    bad_file(path, fmt::format("line {}: {}", error.source().begin.line, error.description()));
  }
  const auto version = file["machine"].value<int64_t>();
  if (!version) bad_file(path, "no `machine = VERSION` line: this is no machine file");
  if (*version != machine_version)
    bad_file(path, fmt::format("machine form {}, this build reads {}: another version of Weft wrote it", *version,
                               machine_version));
  Machine machine;
  machine.name = file["name"].value_or(std::string("?"));
  machine.cpu = file["cpu"].value_or(std::string("?"));
  machine.source = file["source"].value_or(std::string(""));
  machine.cores = static_cast<int>(integer_or(file, "cores", 1, 1, path));
  machine.ranks = static_cast<int>(integer_or(file, "ranks", 2, 1, path));
  for (const IntegerField& field : integer_fields)
    machine.*field.at = integer_or(file, field.key, machine.*field.at, 0, path);
  for (const NumberField& field : number_fields) {
    if (!file[field.key]) continue;
    const auto value = file[field.key].value<double>();
    if (!value || !(*value > 0 || (field.may_be_none && *value == 0)) || !std::isfinite(*value))
      bad_file(path, fmt::format("{} must be positive{}", field.key, field.may_be_none ? ", or 0 for none" : ""));
    machine.*field.at = *value;
  }
  for (const CurveField& field : curve_fields) machine.*field.at = read_curve(file, field.key, path);
  return machine;
}

std::string print_machine(const Machine& machine) {
  std::string text =
      fmt::format("machine = {}\nname = '{}'\ncpu = '{}'\nsource = '{}'\ncores = {}\nranks = {}\n", machine_version,
                  machine.name, machine.cpu, machine.source, machine.cores, machine.ranks);
  for (const IntegerField& field : integer_fields) text += fmt::format("{} = {}\n", field.key, machine.*field.at);
  for (const NumberField& field : number_fields)
    text += fmt::format("{} = {}\n", field.key, shortest(machine.*field.at));
  for (const CurveField& field : curve_fields) text += print_curve(field.key, machine.*field.at);
  return text;
}

void write_machine(const std::filesystem::path& path, const Machine& machine) {
  write_file(path, print_machine(machine));
}

}  // namespace weft::topo
