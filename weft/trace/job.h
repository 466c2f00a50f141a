// A job: what each rank of a training did between its collectives, and which collectives those were. What traces of other
// tools become, and what is simulated again on other machines.
//
// Ways: keep the trace (its times are those of one machine), one chain per stream (computation and communication that
// overlapped become serial), or a line of work that starts operations and waits for them. We take the last: an operation is
// started where it was, and waited for where the GPU had stood idle until it ended, so that overlap stays overlap.
//
// The text form is one line an item and reads back exactly (docs/traces.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/sim/nccl.h"

namespace weft::trace {

constexpr int64_t most_ns = int64_t{1} << 53;  // of a time in a job: a hundred days

struct Group {
  std::string name;
  std::vector<int> ranks;  // ascending
};

struct Operation {
  // None: something whose size is not known (`kernel` names it); it takes what it took.
  std::optional<sim::NcclCollective> collective;
  Dtype dtype = Dtype::f32;
  int64_t elements = 0;  // as nccl-tests counts: of the larger of what goes in and what comes out
  int group = 0;         // index into Job::groups
  int lane = 0;          // operations of a lane follow each other
  int64_t measured_ns = 0;
  std::string kernel;
};

struct Item {
  enum class Kind : uint8_t { work, start, wait };
  Kind kind = Kind::work;
  int64_t value = 0;  // work: ns; else an operation of the rank, by number
};

struct RankLine {
  int rank = 0;
  int64_t begin_ns = 0;  // its first item's, after the earliest of all ranks
  std::vector<Operation> operations;
  std::vector<Item> items;  // every operation is started once, in order
};

struct Job {
  std::string name = "job";
  int ranks = 1;
  std::vector<Group> groups;
  std::vector<RankLine> lines;  // of the ranks that are known, ascending
};

std::string print(const Job& job);
// Error(user) with line and column: what is not of this form, numbers out of range, waits for what was not started,
// ranks that are not in the group of their operation, ranks that are there twice.
Job parse_job(std::string_view text);
bool is_job(std::string_view text);

}  // namespace weft::trace
