// Every example, schedule and launch configuration gives what the program means: CPU ranks against the reference
// evaluator, two launches, patterned data. A sample by a printed seed; everything under WEFT_SLOW=1.
//
// Kernels are evaluated, not compiled, so that thousands of small cases are cheap (codegen's tests show that compiled
// kernels give the same bits); a few cases at the end compile.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "weft/api/tuning.h"
#include "weft/api/weft.h"

namespace weft {
namespace {

bool slow() { return std::getenv("WEFT_SLOW") != nullptr; }

ir::Program example(const std::string& name) { return ir::parse(read_file(std::string(WEFT_SOURCE_DIR) + "/" + name)); }

// Sizes of every dim and tensor list: about `elements` in the largest tensor, never even where odd is possible.
ir::Sizes sizes_for(const ir::Program& program, int64_t elements, int ranks, std::mt19937& random) {
  ir::Sizes sizes;
  sizes.ranks = ranks;
  for (const ir::HeaderDecl& decl : program.header) {
    if (const auto* list = std::get_if<ir::TensorsDecl>(&decl)) {
      for (int64_t left = elements; left > 0;) {
        const int64_t take = std::min<int64_t>(left, 1 + static_cast<int64_t>(random() % 40));
        sizes.tensors[list->name].push_back({take});
        left -= take;
      }
      if (elements == 0) sizes.tensors[list->name] = {{0}};
    }
    if (const auto* dims = std::get_if<ir::DimDecl>(&decl))
      for (const std::string& name : dims->names)
        sizes.dims[name] = dims->names.size() == 1 ? elements
                           : elements == 0         ? 0
                                                   : static_cast<int64_t>(random() % 9) + (elements > 60 ? 3 : 1);
  }
  return sizes;
}

const std::vector<std::string>& examples() {
  static const std::vector<std::string> names = {"examples/adam.weft",
                                                 "examples/adamw.weft",
                                                 "examples/lamb.weft",
                                                 "examples/sgd.weft",
                                                 "examples/adam_mixed.weft",
                                                 "examples/attention_end.weft",
                                                 "tests/cases/program/sgd_int.weft"};
  return names;
}

// Checks a batch of trials of one program at one size and reports each that is wrong.
void check_all(const ir::Program& program, const ir::Sizes& sizes, bool mapped, int most, std::mt19937& random) {
  tune::SearchOptions options;
  options.ranks = sizes.ranks;
  options.sizes = sizes;
  options.mapped = mapped;
  options.any_order = true;
  options.limit = 100000;
  options.samples = 3;
  options.sample_seed = random();
  std::vector<tune::Trial> trials = tune::make_trials(program, topo::Machine{topo::detect()}, options).trials;
  std::shuffle(trials.begin(), trials.end(), random);
  if (static_cast<int>(trials.size()) > most) trials.resize(static_cast<size_t>(most));
  for (size_t i = 0; i < trials.size(); i++) trials[i].id = static_cast<int>(i);
  ASSERT_FALSE(trials.empty());
  api::check_trials(trials, program, sizes, true, {}, api::tolerance_of(program));
  for (const tune::Trial& trial : trials) {
    EXPECT_FALSE(trial.check.empty()) << trial.label;
    EXPECT_NE(trial.check.rfind("WRONG", 0), 0u)
        << program.name << " n=" << sizes.ranks << " " << trial.label << ": " << trial.check << "\n"
        << schedule::print(trial.schedule);
  }
}

class Examples : public testing::TestWithParam<std::string> {};

TEST_P(Examples, EveryScheduleGivesTheMeaning) {
  setenv("WEFT_NO_COMPILER", "1", 1);
  const char* given = std::getenv("WEFT_SEED");
  const unsigned seed = given ? static_cast<unsigned>(std::atoi(given)) : 20261130u;
  std::printf("seed %u (WEFT_SEED repeats it)\n", seed);
  std::mt19937 random(seed);
  const ir::Program program = example(GetParam());
  const std::vector<int64_t> boundaries = {127, 128, 129, 1023, 1025, 4097};
  for (int ranks = 1; ranks <= 8; ranks++) {
    const int sizes_tried = slow() ? 131 : 2;
    for (int i = 0; i < sizes_tried; i++) {
      const int64_t elements = slow()   ? i
                               : i == 0 ? static_cast<int64_t>(random() % 131)
                                        : boundaries[random() % boundaries.size()];
      check_all(program, sizes_for(program, elements, ranks, random), random() % 3 != 0, slow() ? 1000 : 3, random);
      if (HasFatalFailure()) return;
    }
  }
  unsetenv("WEFT_NO_COMPILER");
}

INSTANTIATE_TEST_SUITE_P(All, Examples, testing::ValuesIn(examples()), [](const auto& info) {
  const std::string stem = std::filesystem::path(info.param).stem().string();
  return stem;
});

// The same through compiled kernels and processes, once per example: plain and most fused.
TEST_P(Examples, CompiledOnProcesses) {
  std::mt19937 random(7);
  const ir::Program program = example(GetParam());
  const ir::Sizes sizes = sizes_for(program, 1025, 3, random);
  tune::SearchOptions options;
  options.ranks = 3;
  options.sizes = sizes;
  std::vector<tune::Trial> trials;
  for (const char* choice : {"plain", "fused"}) {
    trials.push_back(tune::make_trial(program, resolve_schedule(program, choice, sizes), topo::detect(), options));
    trials.back().id = static_cast<int>(trials.size()) - 1;
  }
  api::check_trials(trials, program, sizes, false, {}, api::tolerance_of(program));
  for (const tune::Trial& trial : trials)
    EXPECT_NE(trial.check.rfind("WRONG", 0), 0u) << trial.label << ": " << trial.check;
}

}  // namespace
}  // namespace weft
