// One Kineto file as it is read: only what a job needs. Internal to the room.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/trace/kineto.h"

namespace weft::trace {

// What a call of a collective says about itself.
struct Call {
  std::string name, dtype, group_name, group_ranks;  // as they stand in the file; empty: not said
  int64_t in = -1, out = -1, group_size = -1;        // elements; -1: not said
  int64_t group_first = -1, group_stride = -1;
  int64_t source = -1, destination = -1;  // of point to point
  int64_t dims = -1;                      // elements of the first input, where only shapes are said
  std::string dims_dtype;
  bool said() const { return !name.empty(); }
};

struct GpuEvent {
  int64_t begin_ns = 0, end_ns = 0, correlation = -1, event = 0;
  int stream = 0;
  int32_t nccl = -1;  // index into `kernels`; -1: computation or a copy
};
struct NcclKernel {
  std::string name;
  Call call;
};
struct Range {  // a call on the host
  int64_t begin_ns = 0, end_ns = 0;
  uint64_t thread = 0;
  Call call;
};
struct Launch {
  int64_t correlation = 0, at_ns = 0;
  uint64_t thread = 0;
};
struct ProcessGroup {
  std::string name;
  std::vector<int> ranks;
};

struct KinetoFile {
  std::string name;
  int rank = -1, world = -1;  // -1: not said
  std::vector<ProcessGroup> groups;
  std::vector<GpuEvent> gpu;
  std::vector<NcclKernel> kernels;
  std::vector<Range> ranges;
  std::vector<Launch> launches;
};

// A file that is mapped, or what a program writes into a pipe.
KinetoFile read_kineto(const std::filesystem::path& path, Report& report);
KinetoFile read_kineto_text(const std::string& name, std::string_view text, Report& report);

std::vector<int> ranks_of_text(const std::string& text);  // "[0, 1]"; nothing where it is cut ("[0, 1, ...]")

}  // namespace weft::trace
