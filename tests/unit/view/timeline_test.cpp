// A timeline's page holds what it was given and nothing from a network; its Chrome trace is JSON with every bar; what
// runs backwards is refused.
#include "weft/view/timeline.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft::view {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

Timeline small() {
  Timeline t;
  t.title = "a </script> \"b\" \\";
  t.names = {"put", "get"};
  t.causes = {"the beginning", "a message"};
  t.kinds = {"work", "way"};
  t.tracks = {{"rank 0", "main"}, {"rank 1", "main"}};
  t.bars = {{1, 1, 0, 3'000'000, 4'000'001, 1, 1}, {0, 0, 0, 0, 1'000'000, 0, Timeline::none}};
  t.columns = {{"chunk", {7, 8}}};
  t.meters = {{"rank 0", "out", {{500'000, 1'000'000}, {0, 250'000}}}};
  t.path = {
      {0, 1, 0, 1'000'000, ""}, {1, Timeline::none, 1'000'000, 3'000'000, "4 B"}, {0, 0, 3'000'000, 4'000'001, ""}};
  t.end_ps = 4'000'001;
  return t;
}

TEST(Timeline, ThePageStandsAlone) {
  const std::string page = html(small());
  EXPECT_EQ(count(page, "</script>"), 2u) << "a title must not end the data";
  EXPECT_EQ(count(page, "http://") + count(page, "https://") + count(page, " src=") + count(page, "@import"), 0u);
  // By track and begin: bar 1 stands first, and bar 0 came after it.
  EXPECT_NE(
      page.find(R"("count":[1,1],"begin":[0,3000000],"length":[1000000,1000001],"wait":[0,3000000],"name":[0,1])"),
      std::string::npos);
  EXPECT_NE(page.find(R"("from":[-1,0])"), std::string::npos);
  EXPECT_NE(page.find(R"("values":[8,7])"), std::string::npos);
  EXPECT_NE(page.find(R"("begin":[0,500000],"busy":[250000,1000000])"), std::string::npos);
  EXPECT_NE(page.find(R"("kind":[0,1,0],"bar":[0,-1,1],"length":[1000000,2000000,1000001],"detail":["","4 B",""])"),
            std::string::npos);
}

TEST(Timeline, TheChromeTraceHasEveryPicosecond) {
  const std::string trace = chrome_trace(small());
  EXPECT_NE(trace.find(R"("ts":3.000000,"dur":1.000001)"), std::string::npos);
  EXPECT_EQ(count(trace, R"("ph":"X")"), 5u);  // two bars, three parts of the path
  EXPECT_EQ(count(trace, R"("ph":"s")"), 1u);
  EXPECT_EQ(count(trace, R"("ph":"f")"), 1u);
  EXPECT_NE(trace.find(R"("name":"critical path")"), std::string::npos);
  EXPECT_NE(trace.find(R"({"busy %":100})"), std::string::npos);
  EXPECT_EQ(count(trace, "{"), count(trace, "}"));
  EXPECT_EQ(trace.find(",\n]"), std::string::npos);
}

TEST(Timeline, WhatRunsBackwardsIsRefused) {
  const auto refuses = [](const std::function<void(Timeline&)>& change) {
    Timeline t = small();
    change(t);
    EXPECT_THROW(html(t), Error);
    EXPECT_THROW(chrome_trace(t), Error);
  };
  refuses([](Timeline& t) { t.bars[0].end_ps = 0; });
  refuses([](Timeline& t) { t.bars[0].wait_ps = 3'000'001; });
  refuses([](Timeline& t) { t.bars[0].from = 2; });
  refuses([](Timeline& t) { t.bars[0].track = 2; });
  refuses([](Timeline& t) { t.path[1].begin_ps = 1'000'001; });
  refuses([](Timeline& t) { t.columns[0].values.pop_back(); });
}

TEST(Timeline, OfNothing) {
  Timeline t;
  EXPECT_NE(html(t).find(R"("tracks":[])"), std::string::npos);
  EXPECT_NE(chrome_trace(t).find("traceEvents"), std::string::npos);
}

}  // namespace
}  // namespace weft::view
