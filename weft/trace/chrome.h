// Chrome traces as tracks of spans: what WEFT_TIMELINE, `weft sim --trace` and most profilers write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/trace/kineto.h"

namespace weft::trace {

struct ChromeTrace {
  struct Track {
    std::string process, thread;
  };
  // Spans of a track do not overlap: what is nested stands on a track of its own below.
  struct Span {
    uint32_t track = 0;
    std::string name;
    int64_t wait_ns = 0, begin_ns = 0, end_ns = 0;  // it had waited since wait_ns
  };
  std::vector<Track> tracks;
  std::vector<Span> spans;
  int64_t begin_ns = 0, end_ns = 0;  // of all
  Tally dropped;
};

// Spans with their lengths (ph X). A span of category `wait` that ends where the next one of its thread begins is that
// one's waiting. Error(user): no JSON (with the byte), no list of events, more spans than `most`.
ChromeTrace read_chrome(const std::string& name, std::string_view text, size_t most);

}  // namespace weft::trace
