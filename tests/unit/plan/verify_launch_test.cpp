// V14 and V16 where a launch and a device are known: for each half a launch that keeps it and one that breaks it.
#include "weft/plan/verify_launch.h"

#include <gtest/gtest.h>

#include "tests/unit/plan/cases.h"

namespace weft::plan {
namespace {

std::vector<SpaceExtent> flat(const Plan& plan, int64_t elements) {
  return std::vector<SpaceExtent>(plan.spaces.size(), SpaceExtent{Cut{1, elements, 1}, std::nullopt, nullptr});
}

std::vector<Finding> judge(const Plan& plan, int ranks, const std::vector<SpaceExtent>& spaces, int64_t chunk,
                           const Device& device) {
  const Instance instance(plan, ranks);
  return verify_launch(instance, spaces, std::vector<int64_t>(plan.spaces.size(), chunk), device);
}

void expect(const std::vector<Finding>& findings, const std::string& rule, const std::string& piece) {
  ASSERT_FALSE(findings.empty()) << "accepted, expected " << rule;
  bool found = false;
  std::string all;
  for (const Finding& f : findings) {
    found |= f.rule == rule && print(f).find(piece) != std::string::npos;
    all += print(f) + "\n";
  }
  EXPECT_TRUE(found) << all << "without " << rule << " " << piece;
  EXPECT_NE(all.find("Remedy"), std::string::npos);
}
void expect_none(const std::vector<Finding>& findings) {
  for (const Finding& f : findings) ADD_FAILURE() << print(f);
}

TEST(VerifyLaunch, EveryCasePlanIsAcceptedWhereNothingIsAsked) {
  for (const char* name : {"ring_all_reduce", "pairwise_two_shot_all_reduce", "two_shot_symmetric"}) {
    const Plan plan = cases::load(name);
    for (int n = 1; n <= 8; ++n) expect_none(judge(plan, n, flat(plan, 1000), 64, {}));
  }
}

// ---- V14 slots: the ring sends chunks of 64 floats in two slices.
TEST(VerifyLaunchV14, MessagesFitTheirSlots) {
  const Plan plan = cases::load("ring_all_reduce");
  for (int n : {2, 3, 5}) {
    expect_none(judge(plan, n, flat(plan, 10'000), 64, {.slot_bytes = 128}));
    expect(judge(plan, n, flat(plan, 10'000), 64, {.slot_bytes = 127}), "V14", "a message of 128 B");
    expect_none(judge(plan, n, flat(plan, 100), 4096, {.slot_bytes = 128}));  // parts are smaller than a chunk
  }
}

TEST(VerifyLaunchV14, FindingsNameRankLaneAndStep) {
  const Plan plan = cases::load("ring_all_reduce");
  const Finding f = judge(plan, 2, flat(plan, 10'000), 64, {.slot_bytes = 8})[0];
  EXPECT_EQ(f.rank, 0);
  EXPECT_FALSE(f.lane.empty() || f.step.empty());
}

// ---- V14 memory
TEST(VerifyLaunchV14, ScratchAndSlotsFitTheMemory) {
  const Plan plan = parse(
      "plan 1 kept\norder any\nround once\nchannels 1\nspace s parts 1 even\nbuffer x s f32 in\nbuffer t s f64 "
      "scratch\n"
      "buffer u s f64 scratch alias t\nbuffer y s f32 out\nlane main:\n  loop s:\n    x[0] -> t[0]\n    t[0] -> "
      "y[0]\n");
  expect_none(judge(plan, 1, flat(plan, 1000), 64, {.memory_bytes = 8000}));
  expect(judge(plan, 1, flat(plan, 1000), 64, {.memory_bytes = 7999}), "V14", "scratch and slots need");
  const Plan ring = cases::load("ring_all_reduce");  // four slots of 128 bytes for each link that ends on a rank
  const Instance two(ring, 2);
  const int64_t links = two.channels();
  expect_none(judge(ring, 2, flat(ring, 10'000), 64, {.memory_bytes = 4 * 128 * links}));
  expect(judge(ring, 2, flat(ring, 10'000), 64, {.memory_bytes = 4 * 128 * links - 1}), "V14", "fewer slots");
}

// ---- V14 residency: `early` waits for `late`, which stands behind it.
const char* const two_lanes =
    "plan 1 two\norder any\nround once\nchannels 1\nspace s parts 1 even\nbuffer x s f32 in\nbuffer t s f32 scratch\n"
    "buffer y s f32 out\nlane FIRST:\n  loop s:\n    BODY1\nlane SECOND:\n  loop s:\n    BODY2\n";
std::string lanes(const std::string& first, const std::string& one, const std::string& second, const std::string& two) {
  std::string text = two_lanes;
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"FIRST", first}, {"BODY1", one}, {"SECOND", second}, {"BODY2", two}})
    text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(VerifyLaunchV14, SpinningLanesNeverFillTheDeviceBeforeTheirFeeder) {
  const Plan good = parse(lanes("a", "fill: x[0] -> t[0]", "b", "t[0] -> y[0] after a.fill"));
  const Plan bad = parse(lanes("a", "t[0] -> y[0] after b.fill", "b", "fill: x[0] -> t[0]"));
  Device one;
  one.resident_lanes = 1, one.resumable = false;
  expect_none(judge(good, 1, flat(good, 100), 64, one));
  expect(judge(bad, 1, flat(bad, 100), 64, one), "V14", "spins for lane b");
  one.resident_lanes = 2;
  expect_none(judge(bad, 1, flat(bad, 100), 64, one));
  one.launches_together = 2;
  expect(judge(bad, 1, flat(bad, 100), 64, one), "V14", "4 lanes may run together");
  one.resumable = true;  // cursors on a CPU give way
  expect_none(judge(bad, 1, flat(bad, 100), 64, one));
}

TEST(VerifyLaunchV14, LanesOfOnePlaceOnSeveralRanksFeedEachOther) {
  const Plan plan = cases::load("ring_all_reduce");
  Device one;
  one.resident_lanes = 1, one.resumable = false;
  for (int n : {2, 3, 8}) expect_none(judge(plan, n, flat(plan, 1000), 64, one));
}

// ---- V16 width
TEST(VerifyLaunchV16, CellsBeginWhereWideAccessesMay) {
  const auto with_grain = [](const std::string& grain) {
    return parse("plan 1 wide\norder any\nround once\nchannels 1\nspace s parts n even" + grain +
                 "\nbuffer x s f16 in\nbuffer y s f32 out\nlane main:\n  loop s:\n    x[0 : n] -> y[0 : n]\n");
  };
  const Plan bytes = with_grain(""), narrow = with_grain(" grain 4"), wide = with_grain(" grain 8");
  expect_none(judge(wide, 2, flat(wide, 1000), 64, {.wide_bytes = 16}));
  expect(judge(narrow, 2, flat(narrow, 1000), 64, {.wide_bytes = 16}), "V16",
         "cells of x begin at multiples of 8 bytes");
  expect(judge(bytes, 2, flat(bytes, 1000), 64, {.wide_bytes = 16}), "V16", "a grain of 4");
  expect_none(judge(bytes, 2, flat(bytes, 1000), 64, {}));
}

// ---- V16 rows: 30 rows of 10.
TEST(VerifyLaunchV16, BordersDoNotCutRows) {
  const auto with_grain = [](int grain) {
    return parse(
        fmt::format("plan 1 rows\norder any\nround once\nchannels 1\nspace s parts n even grain {}\nspace q parts n "
                    "even of s by row\n"
                    "buffer x s f32 in\nbuffer b q f32 in\nbuffer y s f32 out\nkernel shift: a, b -> c\n  c = a + b\n"
                    "lane main:\n  loop s:\n    x[0 : n], b[0 : n] -> shift -> y[0 : n]\n",
                    grain));
  };
  for (int n : {1, 2, 4, 7}) {
    for (int grain : {10, 20, 50}) {
      const Plan plan = with_grain(grain);
      std::vector<SpaceExtent> spaces = flat(plan, 300);
      spaces[1] = {Cut{}, Meeting{{30, 10}, {1, 0}}, nullptr};
      expect_none(judge(plan, n, spaces, 40, {}));
    }
    const Plan plan = with_grain(8);
    std::vector<SpaceExtent> spaces = flat(plan, 300);
    spaces[1] = {Cut{}, Meeting{{30, 10}, {1, 0}}, nullptr};
    expect(judge(plan, n, spaces, 48, {}), "V16", "grain 10");
  }
}

}  // namespace
}  // namespace weft::plan
