// Blocks and rows that change hands between all ranks: equal blocks, and rows whose number is known only at a launch, a
// rank that gets nothing and one that gets all among them. Against the reference evaluator, integers exactly.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <random>

#include "tests/support/errors.h"
#include "weft/api/tuning.h"
#include "weft/api/weft.h"
#include "weft/ir/builder.h"

namespace weft {
namespace {

std::string there_and_back(const std::string& dtype) {
  return "program 1 rows\ndim R H\nragged T by c\nin c i64[R] local\nin x " + dtype + "[T, H] local\nin b " + dtype +
         "[H] replicated\ne = all_to_all(x)\nz = e * 2 + b\ny = all_to_all(z)\nout y\nout z\n";
}
std::string expert(const std::string& dtype) {
  return "program 1 expert\ndim R H F\nragged T by c\nin c i64[R] local\nin x " + dtype + "[T, H] local\nin w " +
         dtype + "[H, F] local\ne = all_to_all(x)\nh = matmul(e, w)\na = h * 3\nout a\nout h\n";
}
std::string blocks(const std::string& dtype) {
  return "program 1 blocks\ndim A H\nin x " + dtype +
         "[A, H] local\nv = x + 1\ne = all_to_all(v)\ny = e * 3\nout y\n"
         "out e\n";
}

using Counts = std::vector<std::vector<int64_t>>;

// Nothing for some, all for one, and what chance gives.
Counts routed(int kind, int ranks, int64_t rows, std::mt19937& random) {
  Counts counts(static_cast<size_t>(ranks), std::vector<int64_t>(static_cast<size_t>(ranks), 0));
  for (int from = 0; from < ranks; ++from)
    for (int64_t row = 0; row < rows; ++row) {
      const int to = kind == 0 ? ranks / 2 : kind == 1 ? (from + 1) % ranks : static_cast<int>(random() % ranks);
      if (kind < 3 || from != 0) ++counts[static_cast<size_t>(from)][static_cast<size_t>(to)];
    }
  return counts;
}

class Trials {
 public:
  Trials(const std::string& text, int ranks, ir::Sizes sizes) : program_(ir::parse(text)) {
    options_.ranks = sizes.ranks = ranks;
    options_.sizes = sizes;
    for (const char* launch : {"launch * pairwise\n", "launch * pairwise channels 3 chunk_bytes 64\n"}) {
      const auto schedule = schedule::parse_schedule(fmt::format("schedule 1 s of {}\n{}", program_.name, launch));
      trials_.push_back(tune::make_trial(program_, schedule, topo::detect(), options_));
      trials_.back().id = static_cast<int>(trials_.size()) - 1;
    }
  }
  void expect_right(const ir::Sizes& changed, const std::string& transport = "threads") {
    ir::Sizes sizes = changed;
    sizes.ranks = options_.ranks;
    api::check_trials(trials_, program_, sizes, transport, {}, api::tolerance_of(program_));
    for (tune::Trial& trial : trials_) {
      ASSERT_FALSE(trial.wrong()) << program_.name << " on " << sizes.ranks << ", " << trial.label << ": "
                                  << trial.check;
      trial.check.clear();
    }
  }

 private:
  ir::Program program_;
  tune::SearchOptions options_;
  std::vector<tune::Trial> trials_;
};

ir::Sizes rows(int ranks, int64_t most, int64_t width) {
  ir::Sizes sizes;
  sizes.dims = {{"R", ranks}, {"T", most}, {"H", width}, {"F", width + 2}};
  return sizes;
}

void expect_right_however_routed(const std::string& text, int64_t width) {
  std::mt19937 random(7);
  for (int ranks = 1; ranks <= 8; ++ranks) {
    Trials trials(text, ranks, rows(ranks, 33, width));
    for (const int64_t most : {0, 1, 2, 13, 33})
      for (int kind = 0; kind < 4; ++kind) {
        ir::Sizes sizes = rows(ranks, most, width);
        sizes.counts["T"] = routed(kind, ranks, most, random);
        trials.expect_right(sizes);
        if (testing::Test::HasFatalFailure()) return;
      }
  }
}

TEST(Ragged, RowsGoThereAndBack) {
  expect_right_however_routed(there_and_back("i64"), 3);
  expect_right_however_routed(there_and_back("i8"), 5);
}

TEST(Ragged, AnExpertTakesWhatComes) {
  expect_right_however_routed(expert("i32"), 4);
  expect_right_however_routed(expert("f32"), 7);
}

TEST(Ragged, OnProcesses) {
  std::mt19937 random(11);
  Trials trials(expert("i64"), 3, rows(3, 200, 16));
  ir::Sizes sizes = rows(3, 200, 16);
  sizes.counts["T"] = routed(2, 3, 200, random);
  trials.expect_right(sizes, "processes");
}

// Without counts of the caller's the pattern is lopsided: the last rank gets nothing.
TEST(Ragged, ThePatternIsLopsided) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (const int64_t most : {0, 1, 5, 100}) {
      ir::Sizes sizes = rows(ranks, most, 1);
      sizes.ranks = ranks;
      for (const std::vector<int64_t>& row : ir::row_counts(sizes, "T")) {
        EXPECT_EQ(std::accumulate(row.begin(), row.end(), int64_t{0}), most);
        EXPECT_TRUE(ranks == 1 || row.back() == 0);
      }
    }
}

TEST(Blocks, EqualOnes) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (const char* dtype : {"i64", "bf16"}) {
      ir::Sizes sizes;
      sizes.dims = {{"A", 24 * ranks}, {"H", 3}};
      Trials trials(blocks(dtype), ranks, sizes);
      for (const int64_t each : {0, 1, 2, 17}) {
        sizes.dims["A"] = each * ranks;
        trials.expect_right(sizes);
        if (HasFatalFailure()) return;
      }
    }
}

TEST(Blocks, ThatAreNotEqualAreRefused) {
  ir::Sizes sizes;
  sizes.dims = {{"A", 7}, {"H", 3}};
  const std::string text = blocks("i64");
  const Error error = error_of([&] { Trials(text, 3, sizes).expect_right(sizes); });
  EXPECT_EQ(error.kind(), ErrorKind::user);
  EXPECT_TRUE(has(error.what(), "7 rows") || has(error.what(), "equal")) << error.what();
}

// A post says a value where it is: what depends on its place is not exchanged yet, and says so.
TEST(Ragged, WhatDependsOnItsPlaceIsRefused) {
  for (const char* middle :
       {"z = matmul(e, w)\n", "z = select(rand(1, 1) < 0.5, e, 0)\n", "z = matmul(e, w)\nu = z * 2\n"}) {
    const std::string text = fmt::format(
        "program 1 p\ndim R H\nragged T by c\nin c i64[R] local\nin x f32[T, H] local\nin w f32[H, H] local\n"
        "e = all_to_all(x)\n{}y = all_to_all({})\nout y\n",
        middle, std::string(middle).find("u =") == std::string::npos ? "z" : "u");
    const Error error = error_of([&] { Trials(text, 3, rows(3, 5, 4)); });
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << middle;
    EXPECT_TRUE(has(error.what(), "z depends on where its elements lie")) << error.what();
  }
}

// Counts are read before the launch, so they are what is handed in, each rank's own.
TEST(Ragged, CountsOfAnotherKindAreRefused) {
  const Error error = error_of([] {
    Trials(
        "program 1 p\ndim R H\nragged T by c\nstate c i64[R] local\nin x f32[T, H] local\ne = all_to_all(x)\nout e\n",
        3, rows(3, 5, 4));
  });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
  EXPECT_TRUE(has(error.what(), "T: counts that the program computes, c")) << error.what();
}

// ---- as a user has it: counts change from launch to launch
ir::Program program_in_cpp() {
  ir::Builder p("rows");
  const ir::Size R = p.dim("R"), H = p.dim("H"), T = p.ragged("T", "c");
  p.in("c", Dtype::i64, {R}, ir::local);
  const ir::Term x = p.in("x", Dtype::f32, {T, H}, ir::local);
  const ir::Term e = p("e", ir::all_to_all(x)), z = p("z", e * 2.0), y = p("y", ir::all_to_all(z));
  p.out(y);
  return p.build();
}

PrepareOptions prepared_for(int ranks, int64_t most) {
  PrepareOptions options;
  options.sizes = rows(ranks, most, 2);
  options.sizes.dims.erase("F");
  options.schedule = "plain";
  return options;
}

TEST(Ragged, CountsChangeFromLaunchToLaunch) {
  for (const bool threads : {true, false})
    run(3,
        [](Rank& rank) {
          Executable rows = rank.prepare(program_in_cpp(), prepared_for(3, 40));
          auto* counts = static_cast<int64_t*>(rows.data("c"));
          auto *x = static_cast<float*>(rows.data("x")), *y = static_cast<float*>(rows.data("y"));
          std::mt19937 random(static_cast<unsigned>(rank.rank()));
          for (int launch = 0; launch < 20; ++launch) {
            const int64_t all = static_cast<int64_t>(random() % 41),
                          first = all ? static_cast<int64_t>(random()) % all : 0;
            counts[0] = launch % 3 == 0 ? all : first, counts[1] = 0, counts[2] = all - counts[0];
            for (int64_t i = 0; i < 2 * all; ++i) x[i] = static_cast<float>(1000 * rank.rank() + i), y[i] = -1;
            rows.launch();
            for (int64_t i = 0; i < 2 * all; ++i)
              if (y[i] != 2 * x[i]) fail(ErrorKind::internal, "launch {}: [{}] is {}", launch, i, y[i]);
          }
        },
        {.threads = threads});
}

TEST(Ragged, MoreRowsThanThereIsMemoryForAreRefusedOnAllRanks) {
  std::atomic<int> refused = 0;
  run(3,
      [&](Rank& rank) {
        Executable rows = rank.prepare(program_in_cpp(), prepared_for(3, 40));
        auto* counts = static_cast<int64_t*>(rows.data("c"));
        counts[0] = rank.rank() == 1 ? 41 : 0;
        try {
          rows.launch();
        } catch (const Error& error) {
          refused += error.kind() == ErrorKind::user &&
                     std::string(error.what()).find("rank 1 sends 41 rows, T is 40") != std::string::npos;
        }
        counts[0] = rank.rank() == 1 ? 40 : 0;
        rows.launch();  // nothing was half done
      },
      {.threads = true});
  EXPECT_EQ(refused, 3);
}

}  // namespace
}  // namespace weft
