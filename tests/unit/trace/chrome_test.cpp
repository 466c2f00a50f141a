// Chrome traces: names, waits that belong to what follows, nested spans on tracks of their own, and what is refused.
#include "weft/trace/chrome.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft::trace {
namespace {

TEST(Chrome, TracksWaitsAndNests) {
  const ChromeTrace t = read_chrome("a.json", R"([
{"ph":"M","name":"process_name","pid":3,"args":{"name":"rank 3"}},
{"ph":"M","name":"thread_name","pid":3,"tid":1,"args":{"name":"lane main"}},
{"ph":"X","name":"inner","pid":3,"tid":1,"ts":1683564902174221.123,"dur":0.5},
{"ph":"X","name":"outer","pid":3,"tid":1,"ts":1683564902174220.123,"dur":4},
{"ph":"X","name":"wait","cat":"wait","pid":3,"tid":1,"ts":1683564902174224.123,"dur":1.001},
{"ph":"X","name":"next","pid":3,"tid":1,"ts":1683564902174225.124,"dur":0},
{"ph":"i","name":"mark","pid":3,"tid":1,"ts":1},
{"ph":"X","name":"bad","pid":3,"tid":1,"ts":1,"dur":-1},
{"ph":"X","name":"other","pid":"x","tid":2,"ts":1683564902174230,"dur":1}])",
                                    100);
  ASSERT_EQ(t.tracks.size(), 3u);
  ASSERT_EQ(t.spans.size(), 4u);
  EXPECT_EQ(t.end_ns - t.begin_ns, 10877);
  for (const ChromeTrace::Span& s : t.spans) {
    if (s.name == "inner") { EXPECT_EQ(t.tracks[s.track].thread, "lane main (2)"); }
    if (s.name == "outer") {
      EXPECT_EQ(s.begin_ns, t.begin_ns);
      EXPECT_EQ(t.tracks[s.track].process, "rank 3");
      EXPECT_EQ(t.tracks[s.track].thread, "lane main");
    }
    if (s.name == "next") {
      EXPECT_EQ(s.begin_ns - s.wait_ns, 1001);
      EXPECT_EQ(s.end_ns, s.begin_ns);
    }
    EXPECT_NE(s.name, "wait");
  }
  EXPECT_EQ(t.dropped.entries.size(), 2u);
}

TEST(Chrome, WhatIsRefused) {
  const auto why = [](const std::string& text, size_t most = 10) {
    try {
      read_chrome("a.json", text, most);
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string("nothing was wrong");
  };
  EXPECT_NE(why("[{\"ph\":\"X\"").find("a.json: byte 11"), std::string::npos) << why("[{\"ph\":\"X\"");
  EXPECT_NE(why("{}").find("no list of traceEvents"), std::string::npos);
  EXPECT_NE(why("3").find("no list of traceEvents"), std::string::npos);
  EXPECT_EQ(why("[1,null,\"x\",{}]"), "nothing was wrong");
  EXPECT_NE(why(R"([{"ph":"X","ts":1,"dur":1},{"ph":"X","ts":2,"dur":1}])", 1).find("more than 1 spans"),
            std::string::npos);
  EXPECT_EQ(why(R"([{"ph":"X","ts":1e300,"dur":1},{"ph":"X","ts":"2","dur":1}])"), "nothing was wrong");
}

}  // namespace
}  // namespace weft::trace
