// Tables of measured times, and which machine each was measured on.
#include <algorithm>
#include <charconv>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/sim/accuracy.h"

namespace weft::sim {
namespace {

struct Row {
  std::string collective, hardware, algo, proto;
  int ranks = 0, nodes = 0;
  double bytes = 0, time_us = 0;
};

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Spec sheets and the rings that NCCL is known to find there (channels x GB/s of a channel).
NcclMachine machine_of(const Row& row) {
  NcclMachine m;
  const bool recent = has(row.hardware, "NCCL2.2") || has(row.hardware, "NCCL22") || has(row.hardware, "L40S") ||
                      has(row.hardware, "H100");
  if (recent && !has(row.hardware, "NCCL2.21")) m.release = 229;
  m.gpus_per_node = std::max(1, row.ranks / std::max(1, row.nodes));
  if (has(row.hardware, "Polaris")) {
    m.channels = 4, m.bw_intra = 20, m.channels_inter = 2, m.bw_inter = 24, m.nic = 24, m.amd_cpu = true;
  } else if (has(row.hardware, "L40S")) {
    m.channels = 1, m.bw_intra = 20, m.nvlink = false, m.ll128 = false;
  } else if (has(row.hardware, "PCIE")) {
    m.channels = 1, m.bw_intra = 20, m.channels_inter = 1, m.bw_inter = 20, m.nic = 20, m.nvlink = false;
    m.ll128 = row.nodes > 1;
  } else if (has(row.hardware, "H100")) {
    m.arch = GpuArch::hopper;
    m.channels = 12, m.bw_intra = 30, m.channels_inter = 8, m.bw_inter = 45, m.nic = 45;
    m.nvls = !has(row.hardware, "NVLS off");
  }
  return m;
}

std::string kind_of(NcclCollective c) {
  return c == NcclCollective::all_to_all || c == NcclCollective::send_recv ? "point to point" : "collectives";
}

// Name of the set, and whether it is pooled: one set for each table of one machine, environment and kind of operation
// that can be described; TCP (Polaris env1, env2), repeats of an environment under another name (env3) and tables of a
// handful of points are reported beside them.
void place(const Row& row, NcclCollective collective, MeasuredSet& set) {
  const std::string& h = row.hardware;
  set.machine = has(h, "Polaris") ? "Polaris"
                : has(h, "L40S")  ? "L40S"
                : has(h, "PCIE")  ? "A100 PCIe"
                : has(h, "H100")  ? "H100"
                                  : "A100";
  set.known = row.algo != "auto" || row.proto != "auto";
  set.name = h;
  if (has(h, "L40S")) set.name += set.known ? " forced" : fmt::format(" x{}", row.ranks);
  if (set.machine == "A100 PCIe") set.name += row.nodes == 1 ? " one node" : " two nodes";
  if (set.machine == "H100" && !has(h, "HBM3")) set.name += fmt::format(" {} ranks", row.ranks);
  if (set.machine == "H100" && has(h, "HBM3"))
    set.name = row.nodes == 1 ? "NVIDIA H100 80GB HBM3 one node" : h + " two nodes";
  set.name += ", " + kind_of(collective);
  const bool p2p = kind_of(collective) != "collectives";
  if (set.machine == "Polaris") {
    const bool many = row.nodes >= 128;
    if (has(h, "env5"))
      set.name = p2p ? "Polaris env5, point to point" : set.name + (many ? ", 128 nodes and more" : ", few nodes");
    set.pooled = p2p ? has(h, "env5") : has(h, "env4") || (has(h, "2.18 env5") && many);
  } else {
    // Mis-set machines (a ring of 90 GB/s where 360 are there), and GPUDirect off, where neighbouring sizes differ by two.
    set.pooled = !has(h, "8xNDR") && !has(h, "GDRoff") && !(has(h, "HBM3") && (p2p || row.nodes > 1)) &&
                 !(p2p && set.machine == "A100 PCIe" && row.nodes == 1);
  }
}

bool read_row(const std::string& line, Row& row) {
  const std::vector<std::string> f = split(line, ',');
  if (f.size() < 10) return false;
  row.collective = f[0], row.hardware = f[3], row.algo = f[4], row.proto = f[5];
  const auto number = [](const std::string& text, auto& value) {
    return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
  };
  return number(f[1], row.ranks) && number(f[2], row.nodes) && number(f[6], row.bytes) && number(f[7], row.time_us) &&
         row.ranks >= 1 && row.nodes >= 1 && row.bytes >= 0;
}

// A process that drives all GPUs of the node pays every launch itself.
int gpus_per_process(const Row& row) {
  return has(row.hardware, "A100-SXM4") || has(row.hardware, "L40S") ? row.ranks : 1;
}

void add(std::map<std::string, MeasuredSet>& sets, std::map<std::string, int>& series, const Row& row) {
  NcclSample s;
  s.job = {nccl_collective(row.collective), row.ranks, row.nodes, row.bytes, gpus_per_process(row)};
  s.machine = machine_of(row);
  s.measured_us = row.time_us;
  MeasuredSet place_of;
  place(row, s.job.collective, place_of);
  const auto setting = [](const std::string& text) { return text == "auto" ? std::string() : text; };
  const std::vector<NcclChoice> table =
      nccl_table(s.machine, s.job, nccl_filter(setting(row.algo), setting(row.proto), s.job.collective));
  s.tuned = !table.empty();
  if (s.tuned) s.choice = nccl_choose(table, row.bytes);
  const auto found = sets.emplace(place_of.name, place_of).first;
  const std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}", place_of.name, row.collective, row.ranks, row.nodes, row.algo, row.proto);
  found->second.samples.push_back(s);
  found->second.series.push_back(series.emplace(key, static_cast<int>(series.size())).first->second);
}

}  // namespace

std::vector<MeasuredSet> read_measured(const std::filesystem::path& folder) {
  std::map<std::string, MeasuredSet> sets;
  std::map<std::string, int> series;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::vector<std::string> lines = split(read_file(file), '\n');
    if (lines.empty() || lines[0].rfind("collective,ranks,nodes,hardware,algo,proto,size_bytes,time_us", 0) != 0)
      continue;
    for (size_t i = 1; i < lines.size(); ++i) {
      Row row;
      if (lines[i].empty()) continue;
      if (!read_row(lines[i], row))
        throw Error(ErrorKind::user, fmt::format("{}:{}: not a row of an nccl-tests table", file.string(), i + 1),
                    "columns: collective,ranks,nodes,hardware,algo,proto,size_bytes,time_us,algbw_GBs,busbw_GBs");
      if (row.time_us > 0 && row.bytes > 0 && row.ranks > 1) add(sets, series, row);
    }
  }
  std::vector<MeasuredSet> list;
  for (auto& [name, set] : sets) list.push_back(std::move(set));
  return list;
}

}  // namespace weft::sim
