// Jobs: the text form, what it refuses, and lines played against each other, by hand.
#include "weft/trace/job.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "weft/base/error.h"
#include "weft/trace/replay.h"

namespace weft::trace {
namespace {

const char* const two = R"(job 1 two
ranks 4
group 0 world 0..3
group 1 tp.0 0..1
group 2 odd 1,3
rank 0 begin 0
  work 100
  start 0 all_reduce f32 1024 group 1 lane 20 measured 50
  work 30
  start 1 other unknownKernel lane 21 measured 400
  wait 0
  work 5
rank 1 begin 40
  start 0 all_reduce f32 1024 group 1 lane 20 measured 60
  work 10
  wait 0
)";

std::string why(const std::string& text, ErrorKind kind = ErrorKind::user) {
  try {
    parse_job(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "nothing was wrong";
}
std::string with(const std::string& from, const std::string& to) {
  std::string text = two;
  text.replace(text.find(from), from.size(), to);
  return text;
}
void expect_why(const std::string& text, const std::string& part) {
  EXPECT_NE(why(text).find(part), std::string::npos) << why(text);
}

TEST(Job, ReadsBackExactly) {
  const Job job = parse_job(two);
  EXPECT_EQ(print(job), two);
  EXPECT_EQ(job.groups[2].ranks, (std::vector<int>{1, 3}));
  EXPECT_EQ(job.lines[0].operations[1].kernel, "unknownKernel");
  EXPECT_TRUE(is_job(two));
  EXPECT_FALSE(is_job("plan 1 x"));
}

TEST(Job, RefusesWhatItIsNot) {
  expect_why("plan 1 x\n", "this is no job");
  expect_why("", "this is no job");
  expect_why(with("ranks 4\n", ""), "0 to 0");
  expect_why(with("work 100", "work -1"), "7:8: -1 is not a whole number");
  expect_why(with("work 100", "work 1e3"), "1e3 is not a whole number");
  expect_why(with("work 100", "rest 100"), "no item is called rest");
  expect_why(with("wait 0", "wait 2"), "2 is not a whole number from 0 to 1");
  expect_why(with("start 0 all_reduce", "start 1 all_reduce"), "next operation is number 0");
  expect_why(with("all_reduce f32 1024 group 1", "all_reduce f32 1024 group 9"), "9 is not a whole number from 0 to 2");
  expect_why(with("all_reduce f32 1024 group 1", "all_reduce f32 1024 group 2"), "rank 0 is not in group 2");
  expect_why(with("all_reduce f32", "all_reduce f33"), "no dtype is called f33");
  expect_why(with("all_reduce f32", "some_reduce f32"), "some_reduce");
  expect_why(with("rank 1 begin", "rank 0 begin"), "ranks stand once, in order");
  expect_why(with("rank 1 begin 40", "rank 4 begin 40"), "4 is not a whole number from 0 to 3");
  expect_why(with("1,3", "3,1"), "stand once, in order");
  expect_why(with("group 1 tp.0", "group 2 tp.0"), "next group is number 1");
  expect_why("job 1 x\nranks 2\n  work 5\n", "an item of no rank");
  expect_why("job 1 x\nnodes 2\n", "no line begins with nodes");
}

topo::Cluster cluster(int nodes, int gpus) {
  topo::Cluster c;
  c.name = "test";
  c.nodes = nodes;
  c.gpus_per_node = gpus;
  c.launch_us = 1;
  c.architecture = "hopper";
  return c;
}

// Rank 0 starts at 100 and rank 1 at 40; as traced, each takes its own time.
TEST(Replay, AsMeasured) {
  const Replay r = replay(parse_job(two), cluster(1, 4), {Ways::By::measured, {}, {}, {}});
  // 100 + 50 = 150 is waited for, then 5; the other operation ends at 130 + 400.
  EXPECT_EQ(r.ranks[0].end_ns, 530);
  EXPECT_EQ(r.ranks[0].work_ns, 135);
  EXPECT_EQ(r.ranks[0].waited_ns, 530 - 135);
  EXPECT_EQ(r.ranks[1].end_ns, 100);
  EXPECT_EQ(r.ranks[1].waited_ns, 50);
  EXPECT_EQ(r.end_ns, 530);
}

Job pair(int64_t first, int64_t second, int ranks = 2) {
  return parse_job(fmt::format(R"(job 1 pair
ranks {2}
group 0 world 0..{3}
rank 0 begin 0
  work {0}
  start 0 all_reduce f32 0 group 0 lane 1 measured 1
  work 10
  wait 0
  start 1 all_reduce f32 0 group 0 lane 1 measured 1
  wait 1
rank 1 begin 0
  work {1}
  start 0 all_reduce f32 0 group 0 lane 1 measured 1
  start 1 all_reduce f32 0 group 0 lane 1 measured 1
  wait 1
)",
                               first, second, ranks, ranks - 1));
}

// The last one decides when an operation begins; here each takes a launch (1,000 ns).
TEST(Replay, OperationsMeet) {
  const Replay r = replay(pair(100, 700), cluster(1, 2), {});
  EXPECT_EQ(r.ranks[0].end_ns, 2700);
  EXPECT_EQ(r.ranks[1].end_ns, 2700);
  EXPECT_EQ(r.ranks[0].work_ns, 110);
  EXPECT_EQ(r.ranks[0].waited_ns, 2590);
  ASSERT_EQ(r.kinds.size(), 1u);
  EXPECT_EQ(r.kinds[0].count, 2);
  for (const PlayedOperation& o : r.operations) {
    EXPECT_EQ(o.end_ns - o.begin_ns, 1000);
    if (o.number == 0) { EXPECT_EQ(o.last, 1u); }
  }
  Ways slow;
  slow.slowdown[0] = 20;
  EXPECT_EQ(replay(pair(100, 700), cluster(1, 2), slow).end_ns, 2000 + 2000 + 0);  // 100 and 10 take 20 times as long
  slow.slowdown = {{7, 2.}};
  EXPECT_THROW(replay(pair(100, 700), cluster(1, 2), slow), Error);
}

// Times that no clock holds are refused, not wrapped.
TEST(Replay, TimesThatNoClockHolds) {
  Ways slow;
  slow.slowdown[0] = 1e17;
  const Error error = error_of([&] { replay(pair(100, 700), cluster(1, 2), slow); });
  EXPECT_EQ(error.kind(), ErrorKind::user);
  EXPECT_TRUE(has(error.what(), "rank 0 would be at work")) << error.what();
  slow.slowdown[0] = 1e15;  // 100,000,000 s, which it holds
  EXPECT_GT(replay(pair(100, 700), cluster(1, 2), slow).end_ns, static_cast<int64_t>(1e17));
}

TEST(Replay, MissingRanksAreNeverLate) { EXPECT_EQ(replay(pair(100, 700, 8), cluster(1, 8), {}).end_ns, 2700); }

TEST(Replay, TooManyRanksAndUnevenGroups) {
  EXPECT_THROW(replay(pair(1, 1, 8), cluster(1, 4), {}), Error);
  std::string text = print(pair(1, 1, 4));
  text.replace(text.find("0..3"), 4, "0..2");
  try {
    replay(parse_job(text), cluster(2, 2), {});
    ADD_FAILURE() << "a group of three on nodes of two";
  } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::unsupported); }
}

// Subgroups in opposite orders on two ranks: found, said, no hang.
TEST(Replay, DivergingRanksAreExplained) {
  const std::string text = R"(job 1 crossed
ranks 2
group 0 a 0..1
group 1 b 0..1
rank 0 begin 0
  start 0 all_reduce f32 4 group 0 lane 1 measured 1
  wait 0
  start 1 all_reduce f32 4 group 1 lane 1 measured 1
rank 1 begin 0
  start 0 all_reduce f32 4 group 1 lane 1 measured 1
  wait 0
  start 1 all_reduce f32 4 group 0 lane 1 measured 1
)";
  try {
    replay(parse_job(text), cluster(1, 2), {});
    ADD_FAILURE() << "it ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::plan);
    const std::string what = error.what();
    EXPECT_NE(what.find("operation 0 of group a: rank 0 is there with its 0, not there: 1 (waits for its 0)"),
              std::string::npos)
        << what;
  }
  std::string other = text;
  other.replace(other.find("all_reduce f32 4 group 1 lane 1 measured 1\n  wait"), 14, "all_gather f32");
  other.replace(other.find("group 1 lane 1 measured 1\n  wait"), 7, "group 0");
  EXPECT_THROW(replay(parse_job(other), cluster(1, 2), {}), Error);
}

}  // namespace
}  // namespace weft::trace
