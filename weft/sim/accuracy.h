// How right the NCCL model is on measured tables: sets, bands, splits and errors, all decided before a point is judged.
//
// A set is a table or a part of it with one machine, one environment and one kind of operation (collectives, or point to
// point). Error = 100 |ln(predicted / measured)|. No point is judged that its own model was fitted to.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "weft/sim/nccl.h"

namespace weft::sim {

struct MeasuredSet {
  std::string name, machine;        // machine: what "other machines" are other than
  bool pooled = true;               // false: TCP, GPUDirect off, mis-set: reported, not counted
  bool known = false;               // algorithm and protocol were stated
  std::vector<NcclSample> samples;  // in the order of the table; series lie together
  std::vector<int> series;          // of each sample: same collective, ranks and setting
};
// Reads the nccl-tests tables of a folder of CSV files. Error(user) for a row that is not one, with file and line.
std::vector<MeasuredSet> read_measured(const std::filesystem::path& folder);

struct Errors {
  double median = 0, p95 = 0;
  size_t count = 0;
};
Errors errors_of(std::vector<double> values);

struct SetAccuracy {
  std::string name;
  bool pooled = true;
  Errors spec, calibrated, calibrated_monotone;  // monotone: without points that are slower than a larger size
  size_t suspicious = 0;
};
struct Accuracy {
  std::vector<SetAccuracy> sets;
  Errors spec, calibrated, calibrated_monotone;  // of the pooled sets: median of medians, median of p95s
  Errors known, tree;                            // forced protocols; the forced tree
  double choice_within_2pct = 0;                 // share of sizes where alternatives were measured
  size_t choices = 0;
};
Accuracy evaluate_accuracy(const std::vector<MeasuredSet>& sets);

}  // namespace weft::sim
