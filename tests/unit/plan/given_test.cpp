// `given from S`: whose counts are equal, where no post says it.
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "weft/plan/verify.h"
#include "weft/plan/walk.h"

namespace weft::plan {
namespace {

// What arrives lies in scratch memory of b, and goes home again: the post speaks of a alone.
std::string there_and_back(const std::string& a, const std::string& b) {
  return "plan 1 there_and_back\norder rank\nround once\nchannels 1\n" + a + b +
         "buffer x a f32 in\nbuffer t b f32 scratch\nbuffer y a f32 out\nlink main simple slots 1\npost y[p] = x[p]\n"
         "lane main:\n  loop a b:\n    for j in 1..n:\n      put: x[r+j] -> >r+j\n      get: <r-j -> t[r-j]\n"
         "    own: x[r] -> t[r]\n  loop b a:\n    for j in 1..n:\n      back: t[r+j] -> >r+j\n"
         "      home: <r-j -> y[r-j]\n    keep: t[r] -> y[r]\n";
}

const std::string a = "space a parts n given\n", b = "space b parts n given from a\n";

TEST(GivenFrom, SaysWhoseCountsAreEqual) {
  const Plan plan = parse(there_and_back(a, b));
  EXPECT_EQ(print(plan), there_and_back(a, b));
  EXPECT_TRUE(verify(plan, {.ranks = {1, 2, 3, 5}, .cache = false}).ok());
}

TEST(GivenFrom, IsNeeded) {
  const Plan plan = parse(there_and_back(a, "space b parts n given\n"));
  EXPECT_FALSE(verify(plan, {.ranks = {3}, .cache = false}).ok());
}

TEST(GivenFrom, NamesAGivenSpaceAboveWithAPartForEachRank) {
  EXPECT_TRUE(has(error_of([] { parse(there_and_back(a, "space b parts n given from nosuch\n")); }).what(), "nosuch"));
  EXPECT_TRUE(has(error_of([] { parse(there_and_back(a, "space b parts n given from b\n")); }).what(), "no space b"));
  for (const auto& [first, second] : std::vector<std::pair<std::string, std::string>>{
           {"space a parts n even\n", b}, {"space a parts 2 given\n", b}, {a, "space b parts 2 given from a\n"}}) {
    const Error error = error_of([&] { const Instance instance(parse(there_and_back(first, second)), 3); });
    EXPECT_TRUE(error.kind() == ErrorKind::plan || error.kind() == ErrorKind::user) << error.what();
    EXPECT_TRUE(has(error.what(), "space b is given from")) << error.what();
  }
}

}  // namespace
}  // namespace weft::plan
