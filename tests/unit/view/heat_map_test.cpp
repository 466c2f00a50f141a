// A heat map is well-formed, marks the best, and escapes what it is given.
#include "weft/view/heat_map.h"

#include <gtest/gtest.h>

namespace weft::view {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(HeatMap, MarksTheBestAndEscapes) {
  HeatMap map;
  map.title = "a < b & \"c\"";
  map.columns = {"1", "2"};
  map.rows = {"x", "y"};
  map.cells = {{1, "5 us", "d<"}, {3, "7 us", ""}, {0, "", "why not"}, {20, "9 ms", ""}};
  const std::string text = svg(map);
  EXPECT_EQ(count(text, "#d7301f"), 1u);
  EXPECT_EQ(count(text, "#eeeeee"), 1u);
  EXPECT_NE(text.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_EQ(text.find("d<"), std::string::npos);
  EXPECT_EQ(count(text, "<g>"), count(text, "</g>"));
  EXPECT_EQ(count(text, "<g>"), 4u);
}

}  // namespace
}  // namespace weft::view
