// The tuning file: what won, where, for which sizes; read by `weft run` and by the library.
//
// TOML, first line `tuning = 1`. An entry belongs to a machine (topo::fingerprint), a program (hash of its canonical
// text), a number of ranks, a total of elements, and to what lies between the ranks; another machine's entry is an error
// that names both, never silently used. Writing keeps the other entries, those too
// that another process writes at the same time, and is atomic.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "weft/ir/evaluate.h"
#include "weft/schedule/schedule.h"

namespace weft::tune {

constexpr int tuning_version = 1;

struct TuningEntry {
  std::string machine, program, program_hash;
  int ranks = 0;
  int64_t elements = 0;  // sum over the program's inputs and states: what the sizes amount to
  std::string schedule;  // canonical text
  double median_ns = 0, plain_ns = 0;
  std::string transport = {};  // the layer between ranks (transport/spec.h); "": they share memory
};
std::vector<TuningEntry> read_tuning(const std::filesystem::path& path);  // Error(user) for other versions, bad files
void write_tuning(const std::filesystem::path& path, const TuningEntry& entry);  // replaces the entry of the same key
// Error where the file is bad or could not be written: asked before work is spent.
void require_writable_tuning(const std::filesystem::path& path);
std::filesystem::path default_tuning_path();  // WEFT_TUNING, else cache_directory()/tuning.toml
// The entry for this program, ranks and the nearest number of elements (within a factor of 4). Error(user) if the file
// has entries for the program but of another machine only.
std::optional<TuningEntry> find_tuning(const std::vector<TuningEntry>& entries, const ir::Program& program, int ranks,
                                       int64_t elements, const std::string& machine, const std::string& transport = "");
std::string program_hash(const ir::Program& program);
int64_t total_elements(const ir::Program& program, const ir::Sizes& sizes);

}  // namespace weft::tune
