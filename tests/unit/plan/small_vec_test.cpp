#include "weft/plan/small_vec.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace weft::plan {
namespace {

using Small = SmallVec<int64_t, 4>;

std::vector<int64_t> content(const Small& v) { return {v.begin(), v.end()}; }
Small counted(size_t n) {
  Small v;
  for (size_t i = 0; i < n; ++i) v.push_back(static_cast<int64_t>(i) + 1);
  return v;
}
std::vector<int64_t> first(size_t n) {
  std::vector<int64_t> v(n);
  std::iota(v.begin(), v.end(), 1);
  return v;
}

// Sizes on both sides of the inline capacity, through every way to get a copy.
TEST(SmallVec, CopiesAndMovesAroundTheBorder) {
  for (const size_t a : {0, 1, 3, 4, 5, 17})
    for (const size_t b : {0, 4, 5, 40}) {
      Small from = counted(a), to = counted(b);
      EXPECT_EQ(content(from), first(a));
      to = from;
      EXPECT_EQ(content(to), first(a));
      EXPECT_EQ(content(from), first(a));
      Small copied(from), moved(std::move(from));
      EXPECT_EQ(content(copied), first(a));
      EXPECT_EQ(content(moved), first(a));
      EXPECT_TRUE(from.empty());
      from = counted(b);  // a moved-from vector is as good as a new one
      EXPECT_EQ(content(from), first(b));
      to = std::move(from);
      EXPECT_EQ(content(to), first(b));
      EXPECT_TRUE(copied == moved);
      EXPECT_EQ(copied == to, a == b);
    }
}

TEST(SmallVec, PushesItsOwnElementWhileGrowing) {
  Small v = counted(4);
  v.push_back(v[0]);
  EXPECT_EQ(v.back(), 1);
  EXPECT_EQ(v.size(), 5u);
}

TEST(SmallVec, ResizeFillsWithNothingAndExtendDoesNot) {
  Small v = counted(3);
  v.clear();
  v.resize(6);
  EXPECT_EQ(content(v), std::vector<int64_t>(6, 0));
  v.resize(2);
  v.extend() = 7;
  v.pop_back();
  v.extend_to(3)[2] = 9;
  EXPECT_EQ(content(v), (std::vector<int64_t>{0, 0, 9}));
  v.truncate(1);
  EXPECT_EQ(v.size(), 1u);
  EXPECT_EQ(Small({5, 6}).back(), 6);
}

TEST(SmallVec, ElementsThatOwnMemory) {
  SmallVec<Small, 2> outer;
  for (size_t i = 0; i < 5; ++i) outer.push_back(counted(i * 3));
  SmallVec<Small, 2> copy = outer;
  outer.clear();
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(content(copy[i]), first(i * 3));
}

}  // namespace
}  // namespace weft::plan
