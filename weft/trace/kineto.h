// Kineto traces (PyTorch's profiler): one JSON file a rank, read as a stream, and made into a job.
//
// A NCCL kernel's name tells neither size nor group, and often not even the operation (one kernel stands for all of a
// release). So sizes come from the kernel's own arguments where there are any (PyTorch 2.2 and newer), else from the call
// during which it was launched: the kernel's correlation leads to the launch, and the launch lies, on its thread, inside a
// record_param_comms or an nccl: range. What cannot be told is kept as an operation that takes what it took, and counted.
#pragma once

#include <filesystem>
#include <map>

#include "weft/trace/job.h"

namespace weft::trace {

// Counts with an example each: "FILE event 123".
struct Tally {
  struct Entry {
    int64_t count = 0;
    std::string example;
  };
  std::map<std::string, Entry> entries;
  void add(const std::string& what, const std::string& example, int64_t count = 1) {
    Entry& entry = entries[what];
    if (entry.count == 0) entry.example = example;
    entry.count += count;
  }
};

struct Report {
  Tally read, matched, dropped, assumed;
};

struct Imported {
  Job job;
  Report report;
};

// All of a job's ranks, some, or one; .gz through the system's gzip. Error(user): a file that is no such trace or ends
// too early (with the byte), two of one rank, ranks of different jobs; Error(agreement): ranks whose operations of a group
// differ (with both events).
Imported import_kineto(const std::vector<std::filesystem::path>& files);

// For tests: one file's text under a name.
Imported import_kineto_text(const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace weft::trace
