// WEFT_TIMELINE: the steps of all ranks as one Chrome trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/transport/transport.h"

namespace weft::runtime {

class Loaded;

struct TimelineSpan {
  int lane, channel, step, slice;  // lane as in the plan, step as in the lane's text
  int64_t chunk, launch, begin_ns, end_ns, wait_ns;
};

// Spans of one communicator on one rank. They are added to the file when there are many, and at the end; ranks take
// turns by a lock on the file, and after every turn it is one whole JSON array.
class Timeline {
 public:
  // The first of a job empties the file. Error(user) where it cannot be written.
  Timeline(std::string file, int rank);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  void add(const Loaded& plan, const TimelineSpan& span);
  void write();  // what there is; a failure is logged: a full disk must not end a training

 private:
  struct Named {  // a plan, in words: spans outlive it
    const void* plan;
    std::string name;
    std::vector<std::string> lanes;
    std::vector<std::vector<std::string>> steps;  // per lane
  };
  struct Entry {
    size_t plan;
    TimelineSpan span;
  };
  size_t named(const Loaded& plan);
  std::string events() const;

  std::string file_;
  int rank_;
  uint32_t born_ = transport::forks_above();
  int64_t added_ = 0;
  std::vector<Named> plans_;
  std::vector<Entry> entries_;
};

}  // namespace weft::runtime
