// WEFT_TIMELINE: one whole JSON file, the steps of all ranks and plans in it, whoever ends first.
#include "weft/runtime/timeline.h"

#include <nlohmann/json.hpp>
#include <set>

#include "tests/unit/runtime/harness.h"
#include "weft/base/once.h"

namespace weft::runtime {
namespace {

using test::case_plan;

class TimelineTest : public testing::TestWithParam<test::Run> {
 protected:
  void SetUp() override {
    char name[] = "/tmp/weft-timeline-XXXXXX";
    folder_ = mkdtemp(name);
    file_ = folder_ + "/trace.json";
    timeline_begun().forget();
    setenv("WEFT_TIMELINE", file_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("WEFT_TIMELINE");
    std::filesystem::remove_all(folder_);
  }
  void run(int ranks, const std::vector<std::string>& plans, int launches) {
    GetParam()(ranks,
               [&](transport::Transport& t) {
                 const auto kernels = kernel::evaluator_library();
                 Communicator communicator(t, *kernels);
                 for (const std::string& name : plans) {
                   LoadOptions options;
                   options.verify = false;
                   const auto loaded = communicator.load(case_plan(name), options);
                   std::vector<float> x(1000, 1), y(1000);
                   plan::LaunchArgs args;
                   args.spaces = {{plan::Cut{1, 1000, 1}, std::nullopt, nullptr}};
                   args.buffers = {plan::Dense{x.data()}, plan::Dense{y.data()}};
                   for (int i = 0; i < launches; ++i) communicator.launch(*loaded, args);
                 }
               },
               {});
  }
  std::string folder_, file_;
};

TEST_P(TimelineTest, HoldsEveryStepOfEveryRank) {
  write_file(file_, "what stood here before");
  run(3, {"ring_all_reduce", "chain_all_reduce"}, 2);
  const auto events = nlohmann::json::parse(read_file(file_));
  std::map<std::pair<int, std::string>, int> steps;  // (rank, plan)
  std::set<int> named;
  for (const auto& event : events) {
    if (event["name"] == "process_name") named.insert(event["pid"].get<int>());
    if (event["ph"] != "X" || event["cat"] == "wait") continue;
    ++steps[{event["pid"], event["cat"]}];
    EXPECT_GE(event["dur"].get<double>(), 0);
    EXPECT_LT(event["args"]["launch"].get<int>(), 2);
    EXPECT_NE(event["name"].get<std::string>().find("->"), std::string::npos) << "steps are named by their text";
  }
  EXPECT_EQ(named, (std::set<int>{0, 1, 2}));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ((steps[{rank, "ring_all_reduce"}]) % 2, 0);
    EXPECT_GE((steps[{rank, "ring_all_reduce"}]), 2 * 4) << rank;
    EXPECT_GE((steps[{rank, "chain_all_reduce"}]), 2) << rank;
  }
}

TEST_P(TimelineTest, JobsOfOneProgramFollowEachOther) {
  run(2, {"ring_all_reduce"}, 1);
  const size_t first = nlohmann::json::parse(read_file(file_)).size();
  run(2, {"ring_all_reduce"}, 1);
  EXPECT_GT(nlohmann::json::parse(read_file(file_)).size(), first);
}

TEST_P(TimelineTest, SurvivesAFailure) {
  const Error error = error_of([&] {
    GetParam()(2,
               [&](transport::Transport& t) {
                 const auto kernels = kernel::evaluator_library();
                 Communicator communicator(t, *kernels);
                 const auto loaded = communicator.load(case_plan("ring_all_reduce"), {});
                 std::vector<float> x(1000, 1), y(1000);
                 plan::LaunchArgs args;
                 args.spaces = {{plan::Cut{1, 1000, 1}, std::nullopt, nullptr}};
                 args.buffers = {plan::Dense{x.data()}, plan::Dense{y.data()}};
                 communicator.launch(*loaded, args);
                 if (t.rank() == 1) throw Error(ErrorKind::user, "enough");
                 communicator.launch(*loaded, args);
               },
               {});
  });
  EXPECT_EQ(error.kind(), ErrorKind::user);
  std::set<int> ranks;
  for (const auto& event : nlohmann::json::parse(read_file(file_)))
    if (event["ph"] == "X") ranks.insert(event["pid"].get<int>());
  EXPECT_EQ(ranks, (std::set<int>{0, 1}));
}

TEST_P(TimelineTest, AFileThatCannotBeWrittenIsSaidAtOnce) {
  setenv("WEFT_TIMELINE", (folder_ + "/nowhere/trace.json").c_str(), 1);
  const Error error = error_of([&] { run(2, {"ring_all_reduce"}, 1); });
  EXPECT_EQ(error.kind(), ErrorKind::user);
  EXPECT_NE(std::string(error.what()).find("WEFT_TIMELINE"), std::string::npos) << error.what();
  EXPECT_FALSE(error.remedy().empty());
}

INSTANTIATE_TEST_SUITE_P(Both, TimelineTest, testing::Values(&transport::run_threads, &transport::run_processes),
                         [](const auto& info) {
                           return info.param == &transport::run_threads ? "threads" : "processes";
                         });

}  // namespace
}  // namespace weft::runtime
