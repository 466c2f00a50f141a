// GOAL: the text and its image, both semantics against hand-computed ends and against the programs' own answers.
#include "weft/sim/goal.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "tests/support/source_dir.h"
#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft::sim {
namespace {

std::filesystem::path shared_folder() {
  const char* set = getenv("WEFT_SHARED");
  return set ? set : std::filesystem::path(checkout_dir()) / ".." / "shared";
}

// gzip'd files are unpacked by the system's gzip.
Goal read_any(const std::filesystem::path& path) {
  if (path.extension() != ".gz") return read_goal(path);
  const std::string command = "gzip -dc '" + path.string() + "'";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char buffer[1 << 16];
  for (size_t got; pipe && (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, got);
  if (pipe) pclose(pipe);
  return parse_goal(text, path.string());
}

struct Oracle {
  std::vector<int64_t> ends;  // per host; one entry alone: the maximum
  bool all = false;
  uint64_t events = 0;
};
Oracle read_oracle(const std::filesystem::path& path) {
  Oracle oracle;
  const std::string text = read_file(path);
  std::smatch match;
  if (std::regex_search(text, match, std::regex("Events: ([0-9]+)"))) oracle.events = std::stoull(match[1]);
  const std::regex host("Host [0-9]+: ([0-9]+)"), most("Maximum finishing time at host [0-9]+: ([0-9]+)");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), host); it != std::sregex_iterator(); ++it)
    oracle.ends.push_back(std::stoll((*it)[1]));
  oracle.all = !oracle.ends.empty();
  if (!oracle.all && std::regex_search(text, match, most)) oracle.ends.push_back(std::stoll(match[1]));
  return oracle;
}

struct Given {
  const char *goal, *oracle;
  GoalCosts costs;
  GoalMode mode;
};

class OfPrograms : public ::testing::TestWithParam<Given> {};

TEST_P(OfPrograms, EndsAreTheirs) {
  const auto folder = shared_folder() / "data" / "sim" / "goal";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference data in " << folder;
  const Goal goal = read_any(folder / GetParam().goal);
  const Oracle oracle = read_oracle(folder / GetParam().oracle);
  ASSERT_FALSE(oracle.ends.empty());
  const GoalResult result = simulate_goal(goal, GetParam().costs, GetParam().mode);
  EXPECT_EQ(result.events, oracle.events);
  if (!oracle.all) { EXPECT_EQ(result.last_ns(), oracle.ends[0]); }
  for (size_t h = 0; oracle.all && h < oracle.ends.size(); ++h)
    EXPECT_EQ(result.end_ns[h], oracle.ends[h]) << "host " << h;
}

// All to the nanosecond.
INSTANTIATE_TEST_SUITE_P(
    Files, OfPrograms,
    ::testing::Values(Given{"dissemination_16.goal", "dissemination_16.default.lgs-orig.txt", {}, GoalMode::original},
                      Given{"binomialbcast_32.goal", "binomialbcast_32.default.lgs-orig.txt", {}, GoalMode::original},
                      Given{"sweep3d_4.goal.gz", "sweep3d_4.default.lgs-orig.txt", {}, GoalMode::original},
                      Given{"dissemination_16.bin", "dissemination_16.default.lgs.txt", {}, GoalMode::fork},
                      Given{"dissemination_16.goal", "dissemination_16.ai.lgs.txt", GoalCosts::ai(), GoalMode::fork},
                      Given{"binomialbcast_32.goal", "binomialbcast_32.default.lgs.txt", {}, GoalMode::fork},
                      Given{"binomialbcast_32.goal", "binomialbcast_32.ai.lgs.txt", GoalCosts::ai(), GoalMode::fork},
                      Given{"incast_8to1.goal", "incast_8to1.ai.lgs.txt", GoalCosts::ai(), GoalMode::fork},
                      Given{"sweep3d_4.goal.gz", "sweep3d_4.default.lgs.txt", {}, GoalMode::fork},
                      Given{"sweep3d_4.goal.gz", "sweep3d_4.ai.lgs.txt", GoalCosts::ai(), GoalMode::fork}),
    [](const auto& info) {
      return std::regex_replace(std::string(info.param.oracle), std::regex("[^a-zA-Z0-9]"), "_");
    });

TEST(Goal, ImageIsThatOfTxt2bin) {
  const auto folder = shared_folder() / "data" / "sim" / "goal";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference data in " << folder;
  EXPECT_EQ(read_goal(folder / "dissemination_16.goal").image(), read_file(folder / "dissemination_16.bin"));
}

const char* const pair = R"(num_ranks 2
// a comment
rank 0 {
a: calc 100 cpu 1
b: send 10b to 1 tag 7
b requires a
c: calc 5
c irequires b
}
rank 1 { /* another,
over two lines */
r: recv 10b from -1 tag -1
after_all: calc 50
after_all requires r
}
)";

TEST(Goal, TextAndImageAreOneThing) {
  const Goal goal = parse_goal(pair);
  EXPECT_EQ(goal.ranks(), 2u);
  EXPECT_EQ(goal.cpus(), 2);
  EXPECT_EQ(goal.ops(), 5u);
  EXPECT_EQ(uint32_t{goal.rank(1).op(0).peer}, goal_any);  // a copy: operations lie packed
  const Goal again = parse_goal(print_goal(goal));
  EXPECT_EQ(again.image(), goal.image());
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "pair.bin";
  write_goal_binary(file, goal);
  EXPECT_EQ(read_goal(file).image(), goal.image());
  std::filesystem::remove(file);
}

// L 1000, o 100, g 10, G 2, O 0, S large. The send starts at processor 0's time 0 (GOAL starts what is ready when its
// own processor is free): busy to 100, the message arrives at 1100. c starts with the send: 105.
TEST(Goal, HandComputedEnds) {
  const Goal goal = parse_goal(
      "num_ranks 2\nrank 0 {\nb: send 11b to 1\nc: calc 5\nc requires b\n}\n"
      "rank 1 {\nr: recv 11b from 0\nd: calc 50\nd requires r\n}\n");
  const GoalCosts costs{1000, 100, 10, 2, 0, 1000};
  const GoalResult original = simulate_goal(goal, costs, GoalMode::original);
  EXPECT_EQ(original.end_ns, (std::vector<int64_t>{105, 1100 + 100 + 20 + 50}));
  const GoalResult fork = simulate_goal(goal, costs, GoalMode::fork);
  EXPECT_EQ(fork.end_ns, (std::vector<int64_t>{105, 1100 + 20 + 10 + 100 + 50}));
  EXPECT_EQ(fork.events, 5u);  // send, message, receive, two calcs
}

// Above S the send ends with its receive, so c follows it.
TEST(Goal, LargeSendsWaitForTheirReceive) {
  const Goal goal = parse_goal(
      "num_ranks 2\nrank 0 {\nb: send 11b to 1\nc: calc 5\nc requires b\n}\n"
      "rank 1 {\nr: recv 11b from 0\n}\n");
  EXPECT_EQ(simulate_goal(goal, {1000, 100, 10, 2, 0, 10}, GoalMode::fork).end_ns,
            (std::vector<int64_t>{1230 + 5, 1230}));
}

TEST(Goal, FractionsOfANanosecondAreTheForksAlone) {
  const Goal goal = parse_goal("num_ranks 2\nrank 0 {\nb: send 101b to 1\n}\nrank 1 {\nr: recv 101b from 0\n}\n");
  const GoalCosts costs{1000, 0, 0, 0.5, 0, 1000};
  EXPECT_EQ(simulate_goal(goal, costs, GoalMode::fork).last_ns(), 1050);
  EXPECT_EQ(simulate_goal(goal, costs, GoalMode::original).last_ns(), 1000);
}

std::string why(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) { return error.what(); }
  return "nothing was wrong";
}

TEST(Goal, BadTextIsNamedWithItsLine) {
  const auto message = [](const std::string& text) { return why([&] { parse_goal(text, "f.goal"); }); };
  EXPECT_NE(message("num_ranks 1\nrank 0 {\na: sleep 3\n}\n").find("f.goal:3"), std::string::npos);
  EXPECT_NE(message("num_ranks 1\nrank 0 {\na: calc 3\nb requires a\n}\n").find("label `b`"), std::string::npos);
  EXPECT_NE(message("num_ranks 1\nrank 0 {\na: calc 3\na: calc 4\n}\n").find("twice"), std::string::npos);
  EXPECT_NE(message("num_ranks 2\nrank 1 {\n}\n").find("rank 0 was expected"), std::string::npos);
  EXPECT_NE(message("num_ranks 2\nrank 0 {\n}\n").find("ends before rank 1"), std::string::npos);
  EXPECT_NE(message("num_ranks 1\nrank 0 {\na: calc 1\n").find("ends inside rank 0"), std::string::npos);
  EXPECT_NE(message("num_ranks 1\nrank 0 {\na: send 8b to 1\n}\n").find("no such rank"), std::string::npos);
  EXPECT_NE(message("num_ranks 1\nrank 0 {\na: send 8 to 0\n}\n").find("ends in b"), std::string::npos);
  EXPECT_NE(message("num_ranks 99999999\n").find("more ranks"), std::string::npos);
  EXPECT_NE(message("").find("num_ranks"), std::string::npos);
}

TEST(Goal, DamagedImagesAreRefused) {
  const Goal goal = parse_goal(pair);
  const std::string image(goal.image());
  for (size_t cut = 0; cut < image.size(); ++cut) {
    const std::string part = image.substr(0, cut);
    EXPECT_THROW(goal_from_image(nullptr, part, "part"), Error) << cut;
  }
  for (size_t at = 0; at < image.size(); ++at)
    for (const char flip : {'\x01', '\x80'}) {
      std::string damaged = image;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      try {  // what is accepted can be run, or says what is wrong
        simulate_goal(goal_from_image(nullptr, damaged, "damaged"), {}, GoalMode::fork);
      } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::user); }
    }
}

// What another processor works at delays what requires it in the fork alone; a calculation beyond the end of time.
TEST(Goal, WorkOfAnotherProcessor) {
  const Goal goal = parse_goal(
      "num_ranks 2\nrank 0 {\nb: calc 100000 cpu 1\na: send 1b to 1 cpu 0\na requires b\n}\nrank 1 {\nr: recv 1b from "
      "0\n}\n");
  const GoalCosts costs{1000, 100, 10, 2, 0, 1000};
  EXPECT_EQ(simulate_goal(goal, costs, GoalMode::original).end_ns, (std::vector<int64_t>{100'000, 1200}));
  EXPECT_EQ(simulate_goal(goal, costs, GoalMode::fork).end_ns, (std::vector<int64_t>{100'100, 101'210}));
  std::string text = "num_ranks 1\nrank 0 {\na0: calc 1000000000000000000\n";
  for (int i = 1; i < 12; ++i) text += fmt::format("a{0}: calc 1000000000000000000\na{0} requires a{1}\n", i, i - 1);
  EXPECT_NE(why([&] { simulate_goal(parse_goal(text + "}\n"), {}, GoalMode::fork); }).find("292 years"),
            std::string::npos);
}

TEST(Goal, DeadlockSaysWhoWaits) {
  const Goal goal =
      parse_goal("num_ranks 2\nrank 0 {\na: recv 8b from 1 tag 3\n}\nrank 1 {\nb: send 8b to 0 tag 4\n}\n");
  const std::string text = why([&] { simulate_goal(goal, {}, GoalMode::original); });
  EXPECT_NE(text.find("rank 0"), std::string::npos) << text;
  EXPECT_NE(text.find("tag 3"), std::string::npos) << text;
  const Goal cycle = parse_goal("num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}\n");
  EXPECT_NE(why([&] { simulate_goal(cycle, {}, GoalMode::fork); }).find("deadlock"), std::string::npos);
}

TEST(Goal, ManyLabelsOfOddNames) {
  std::string text = "num_ranks 1\nrank 0 {\nx_1a: calc 1\nl007: calc 1\nz99999999: calc 1\n";
  for (int i = 1; i < 500; ++i) text += fmt::format("l{}: calc {}\nl{} requires x_1a\n", 3 * i, i, 3 * i);
  text += "l007 requires z99999999\nm3: calc 2\nm3 requires l3\n}\n";
  const Goal goal = parse_goal(text);
  EXPECT_EQ(goal.ops(), 3u + 499u + 1u);
  EXPECT_EQ(simulate_goal(goal, {}, GoalMode::fork).last_ns(), 3 + 499 * 500 / 2 + 2);
}

}  // namespace
}  // namespace weft::sim
