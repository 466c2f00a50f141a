// What ran when, as a page to look into and as a Chrome trace (Perfetto and chrome://tracing read it).
//
// Ways to the page: SVG (a browser is slow at 10^4 shapes), a library for drawing (a network, or a megabyte in every
// file), or a canvas that draws what is visible and no more. We take the last: a track is searched for the first bar in
// view and goes on from pixel to pixel, so a million bars cost what a screen has pixels; how busy a meter was between two
// pixels is a difference of two sums.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft::view {

struct Timeline {
  static constexpr uint32_t none = 0xFFFFFFFF;
  struct Track {
    std::string group, name;  // tracks of a group stand together: a rank and its lanes
  };
  // Bars of a track do not overlap.
  struct Bar {
    uint32_t track = 0, name = 0;                   // name: index into `names`
    int64_t wait_ps = 0, begin_ps = 0, end_ps = 0;  // it was wanted at wait_ps <= begin
    uint32_t cause = 0, from = none;                // what ended the wait: index into `causes`; and the bar that did it
  };
  struct Column {  // a number of each bar that details show
    std::string name;
    std::vector<int64_t> values;
  };
  struct Meter {  // something that is busy or not, such as one way of a port
    std::string group, name;
    struct Busy {
      int64_t begin_ps = 0, busy_ps = 0;
    };
    std::vector<Busy> busy;  // do not overlap
  };
  struct Part {         // of the critical path: they touch, from 0 to the end
    uint32_t kind = 0;  // index into `kinds`
    uint32_t bar = none;
    int64_t begin_ps = 0, end_ps = 0;
    std::string detail;
  };
  std::string title, note;
  std::vector<std::pair<std::string, std::string>> facts;  // above the picture
  std::vector<std::string> names, causes, kinds;
  std::vector<Track> tracks;
  std::vector<Bar> bars;
  std::vector<Column> columns;
  std::vector<Meter> meters;
  std::vector<Part> path;
  int64_t end_ps = 0;
};

// Bars and busy stretches may be in any order. WEFT_CHECK: indices that are in their lists, times that do not run
// backwards.
std::string html(const Timeline& timeline);
// Bars with their wait, columns and cause as arguments, an arrow from the bar that ended the wait, the meters as counters
// over a thousand stretches of the run, and the critical path as a process of its own.
std::string chrome_trace(const Timeline& timeline);

}  // namespace weft::view
