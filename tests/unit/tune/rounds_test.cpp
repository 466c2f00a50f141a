// Rounds, judgement, the cost model and the tuning file, with a made-up evaluator.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "weft/base/file.h"
#include "weft/tune/file.h"
#include "weft/tune/search.h"

namespace weft::tune {
namespace {

std::vector<Trial> three() {
  std::vector<Trial> trials(3);
  for (int i = 0; i < 3; i++) {
    trials[static_cast<size_t>(i)].id = i;
    trials[static_cast<size_t>(i)].prediction.total_ns = 100.0 + 10 * i;
  }
  trials[2].plain = true;
  return trials;
}

class MadeUp : public Evaluator {
 public:
  explicit MadeUp(std::vector<double> ns) : ns_(std::move(ns)) {}
  std::vector<double> round(const std::vector<int>& ids) override {
    std::vector<double> out;
    for (const int id : ids) out.push_back(ns_[static_cast<size_t>(id)] + (rounds++ % 2));
    return out;
  }
  int rounds = 0;

 private:
  std::vector<double> ns_;
};

TEST(Rounds, TheClearlySlowerAreGivenUpButNeverThePlainOne) {
  std::vector<Trial> trials = three();
  MadeUp evaluator({100, 300, 900});
  RoundOptions options;
  options.max_rounds = 6;
  measure(trials, evaluator, options);
  EXPECT_EQ(best(trials).id, 0);
  EXPECT_TRUE(trials[1].given_up);
  EXPECT_EQ(trials[1].rounds_ns.size(), 2u);
  EXPECT_FALSE(trials[2].given_up);
  EXPECT_EQ(trials[2].rounds_ns.size(), 6u);
}

TEST(Rounds, AWrongTrialPushesNobodyOut) {
  std::vector<Trial> trials = three();
  MadeUp evaluator({10, 100, 300});
  RoundOptions options;
  options.max_rounds = 6;
  options.note_wrong = [](std::vector<Trial>& known) { known[0].check = "WRONG: bits of w"; };
  measure(trials, evaluator, options);
  EXPECT_EQ(best(trials).id, 1);
  EXPECT_FALSE(trials[1].given_up);
  EXPECT_EQ(trials[0].rounds_ns.size(), 2u) << "what is wrong is measured no further";
}

TEST(Rounds, PlainWinsWhereItIsFastest) {
  std::vector<Trial> trials = three();
  MadeUp evaluator({200, 300, 100});
  measure(trials, evaluator, {});
  EXPECT_TRUE(best(trials).plain);
  EXPECT_NE(explain(trials)[0].find("plain"), std::string::npos);
}

TEST(Rounds, JudgementOfTheModel) {
  std::vector<Trial> trials = three();
  for (Trial& trial : trials) trial.rounds_ns = {trial.prediction.total_ns * 2};
  EXPECT_DOUBLE_EQ(judge(trials).rank_correlation, 1);
  EXPECT_DOUBLE_EQ(judge(trials).regret, 0);
  trials[0].rounds_ns = {440};  // the model's choice is twice as slow as the best
  EXPECT_LT(judge(trials).rank_correlation, 0);
  EXPECT_DOUBLE_EQ(judge(trials).regret, 1);
}

TEST(Rounds, MedianAndSpread) {
  Trial trial;
  trial.rounds_ns = {1, 2, 3, 4, 5};
  EXPECT_DOUBLE_EQ(trial.median_ns(), 3);
  EXPECT_DOUBLE_EQ(trial.spread(), 2.0 / 3);
}

topo::Machine simple_machine() {
  topo::Machine machine;
  const topo::BandwidthCurve gigabyte{{1, 1e12}, {1e9, 1e9}};
  machine.read = machine.write = machine.write_stream = machine.read_peer = machine.write_peer =
      machine.write_peer_stream = gigabyte;
  machine.launch_ns = 10;
  machine.step_ns = 1;
  machine.flops_per_s = 1e9;
  machine.cores = 2;
  return machine;
}

TEST(Cost, MemoryAndArithmeticOverlapLatenciesAdd) {
  plan::RankStats rank;
  rank.bytes_read_here = 1000;
  rank.bytes_written_here = 500;
  rank.flops = 700;
  rank.steps = 5;
  const Prediction p = predict({rank}, simple_machine(), {});
  EXPECT_DOUBLE_EQ(p.memory_ns, 1500);
  EXPECT_DOUBLE_EQ(p.compute_ns, 700);
  EXPECT_DOUBLE_EQ(p.total_ns, 1515);
  EXPECT_EQ(p.bound, "memory");
}

TEST(Cost, MoreRanksThanCoresTakeTurns) {
  plan::RankStats rank;
  rank.bytes_read_here = 1000;
  EXPECT_DOUBLE_EQ(predict({rank, rank, rank, rank}, simple_machine(), {}).total_ns,
                   2 * predict({rank, rank}, simple_machine(), {}).total_ns);
}

std::filesystem::path scratch(const char* name) { return std::filesystem::path(testing::TempDir()) / name; }

TuningEntry entry(int64_t elements) {
  return {"cpu | 2 cores", "p", "hash", 2, elements, "schedule 1 tuned of p\nsplit a\n", 10, 20};
}

TEST(TuningFile, EntriesAreKeptAndReplaced) {
  const auto path = scratch("tuning.toml");
  std::filesystem::remove(path);
  write_tuning(path, entry(100));
  write_tuning(path, entry(200));
  TuningEntry again = entry(100);
  again.median_ns = 5;
  write_tuning(path, again);
  const auto entries = read_tuning(path);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].elements, 200);
  EXPECT_EQ(entries[1].median_ns, 5);
  EXPECT_EQ(entries[1].schedule, "schedule 1 tuned of p\nsplit a\n");
}

TEST(TuningFile, WritersAtOnceLoseNothing) {
  const auto folder = scratch("writers");
  std::filesystem::create_directories(folder);
  const auto path = folder / "tuning.toml";
  std::filesystem::remove(path);
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; w++)
    writers.emplace_back([&, w] {
      for (int i = 0; i < 10; i++) write_tuning(path, entry(100 * w + i));
    });
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(read_tuning(path).size(), 40u);
  std::filesystem::remove_all(folder);
}

TEST(TuningFile, BadFilesAreErrorsAndKept) {
  const auto path = scratch("bad-tuning.toml");
  for (const char* text : {"tuning = 2\n", "x = 1\n", "tuning = 1\n[[entry]]\nprogram = 'p'\n", "tuning = [\n"}) {
    write_file(path, text);
    EXPECT_THROW(read_tuning(path), Error) << text;
    EXPECT_THROW(write_tuning(path, entry(1)), Error) << text;
    EXPECT_EQ(read_file(path), text);
  }
}

TEST(TuningFile, NearestSizeOfThisMachine) {
  const ir::Program program = ir::parse("program 1 p\ndim N\nin x f32[N] local\na = all_reduce(sum, x)\nout a\n");
  std::vector<TuningEntry> entries = {entry(100), entry(1000)};
  for (TuningEntry& e : entries) e.program_hash = program_hash(program);
  EXPECT_EQ(find_tuning(entries, program, 2, 900, "cpu | 2 cores")->elements, 1000);
  EXPECT_FALSE(find_tuning(entries, program, 2, 1 << 20, "cpu | 2 cores"));
  EXPECT_FALSE(find_tuning(entries, program, 3, 900, "cpu | 2 cores"));
  entries.push_back(entries[0]);
  entries.back().machine = "another";  // beside one of this machine whose size is too far
  EXPECT_FALSE(find_tuning(entries, program, 2, 1 << 20, "cpu | 2 cores"));
  entries.pop_back();
  try {
    find_tuning(entries, program, 2, 900, "another");
    FAIL() << "another machine's entry was taken";
  } catch (const Error& error) { EXPECT_NE(std::string(error.what()).find("another machine"), std::string::npos); }
}

}  // namespace
}  // namespace weft::tune
