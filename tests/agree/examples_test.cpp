// Every example, schedule and launch configuration gives what the program means: CPU ranks against the reference
// evaluator, two launches, patterned data, on 1 to 8 ranks, sizes 0 to 130 and odd ones around boundaries.
//
// Dominated schedules must be right too. The normal suite takes a sample by a seed that is printed (WEFT_SEED repeats it);
// WEFT_SLOW=1 takes every size up to 130 on two numbers of ranks (others in each example, so that all meet all somewhere)
// and the boundaries on all eight, each with the plain schedule and some others: these rotate through the whole unpruned
// space until every schedule was met. (All schedules at all sizes would take days, this about an hour on two quiet cores.)
// Algorithms and configurations are drawn.
//
// Integers are compared exactly; floats to the tolerance of api::tolerance_of, relative to the value's own scale (f64 1e-12,
// f32 2e-5, f16 4e-3, bf16 3e-2, fp8 0.3; docs/tuning.md). What promises rank order must give the same bits in two runs, and
// the plain schedule's bits where its rewrites keep them.
//
// Kernels are evaluated, not compiled, so that thousands of small cases are cheap (codegen's tests show that compiled
// kernels give the same bits); a few cases at the end compile.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <random>

#include "tests/support/source_dir.h"
#include "weft/api/reference.h"
#include "weft/api/trial_runner.h"
#include "weft/api/tuning.h"
#include "weft/api/weft.h"
#include "weft/tune/configure.h"

namespace weft {
namespace {

bool slow() { return std::getenv("WEFT_SLOW") != nullptr; }

unsigned seed() {
  const char* given = std::getenv("WEFT_SEED");
  const unsigned value = given ? static_cast<unsigned>(std::atoi(given)) : 20261130u;
  std::printf("seed %u (WEFT_SEED repeats it)\n", value);
  return value;
}

class NoCompiler {
 public:
  NoCompiler() { setenv("WEFT_NO_COMPILER", "1", 1); }
  ~NoCompiler() { unsetenv("WEFT_NO_COMPILER"); }
};

std::string source(const std::string& name) { return read_file(checkout_dir() + "/" + name); }

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
    // Of several dimensions one is as long as that, and the others short, so that each meets the boundaries.
    if (const auto* dims = std::get_if<ir::DimDecl>(&decl); dims && dims->names.size() > 1 && elements > 100) {
      for (const std::string& name : dims->names) sizes.dims[name] = 1 + static_cast<int64_t>(random() % 3);
      sizes.dims[dims->names[random() % dims->names.size()]] = elements;
    }
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
                                                 "tests/cases/program/sgd_int.weft",
                                                 "tests/cases/program/flags.weft"};
  return names;
}

// The plain one first. Everything, or what dominance keeps and a few dozen of what it drops.
std::vector<schedule::Candidate> schedules_of(const ir::Program& program, std::mt19937& random) {
  schedule::EnumerateOptions options;
  options.prune = !slow();
  options.sample_dropped = slow() ? 0 : 30;
  options.sample_dropped_seed = random();
  return schedule::enumerate(program, options).candidates;
}

// A schedule with one of the algorithms that can carry it, and a step or two away from the default configuration. Nothing
// where no lowering takes the schedule, and says so.
std::optional<tune::Trial> configured(const ir::Program& program, const schedule::Candidate& candidate,
                                      const tune::SearchOptions& options, std::mt19937& random) {
  const auto starts = tune::algorithm_configurations(candidate.program, options);
  const size_t first = random();
  const auto trial = [&](const schedule::LaunchConfig& config) {
    return tune::make_trial(program, tune::with_configuration(candidate.schedule, config), topo::detect(), options);
  };
  for (size_t attempt = 0; attempt < starts.size(); attempt++) try {
      schedule::LaunchConfig config = starts[(attempt + first) % starts.size()];
      tune::Trial made = trial(config);
      for (unsigned steps = random() % 3; steps > 0; steps--) {
        const auto next = tune::steps_from(config, !made.lowered.plan.families.empty(), 1 << 20);
        config = next[random() % next.size()];
        made = trial(config);
      }
      made.plain = candidate.plain;
      return made;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
    }
  return {};
}

bool in_rank_order(const tune::Trial& trial) {
  return trial.lowered.plan.order == plan::Order::rank && trial.lowered.plan.round == plan::Round::once;
}

void expect_same(api::TrialRunner& runner, const tune::Trial& trial, int with, const std::string& what) {
  for (const std::string& answer : runner.ask(fmt::format("bits {} {}", trial.id, with), trial.id))
    EXPECT_EQ(answer, "same") << what << ": " << trial.label << "\n" << schedule::print(trial.schedule);
}

// trials[0] is plain. Reports each that is wrong.
void check(const ir::Program& program, const ir::Sizes& sizes, bool mapped, std::vector<tune::Trial> trials) {
  for (size_t i = 0; i < trials.size(); i++) trials[i].id = static_cast<int>(i);
  const double tolerance = api::tolerance_of(program);
  const std::vector<ir::Values> expected = api::reference_results(program, sizes, 2, {});
  api::TrialRunner runner({program, sizes, {}, trials, mapped, 0, -1, &expected}, "threads", false);
  for (const tune::Trial& trial : trials) {
    const std::string where = fmt::format("{} n={}", program.name, sizes.ranks);
    for (const std::string& answer : runner.ask(fmt::format("reference {}", trial.id), trial.id))
      EXPECT_LE(std::stod(answer), tolerance) << where << " " << answer << " " << trial.label << "\n"
                                              << schedule::print(trial.schedule) << ir::print(program);
    if (in_rank_order(trial)) expect_same(runner, trial, trial.id, where + " two runs");
    if (api::comparable_bits(trial) && api::comparable_bits(trials[0])) expect_same(runner, trial, 0, where + " plain");
    if (testing::Test::HasFailure()) break;
  }
  runner.finish();
}

// Numbers below `size`, one after the other from where the last call ended: in the end all of them.
class Turn {
 public:
  std::vector<size_t> take(size_t count, size_t size) {
    std::vector<size_t> taken;
    while (taken.size() < std::min(count, size)) taken.push_back(next_++ % size);
    return taken;
  }

 private:
  size_t next_ = 0;
};

std::vector<size_t> drawn(size_t count, size_t size, std::mt19937& random) {
  std::vector<size_t> list;
  while (list.size() < count) list.push_back(random() % size);
  return list;
}

// The plain schedule and these others at one size.
void check_some(const ir::Program& program, const std::vector<schedule::Candidate>& space, const ir::Sizes& sizes,
                const std::vector<size_t>& others, std::mt19937& random) {
  tune::SearchOptions options;
  options.ranks = sizes.ranks;
  options.sizes = sizes;
  options.mapped = random() % 3 != 0;
  options.any_order = true;
  std::vector<tune::Trial> trials;
  const auto add = [&](const schedule::Candidate& candidate) {
    if (auto made = configured(program, candidate, options, random)) trials.push_back(std::move(*made));
  };
  add(space[0]);
  ASSERT_EQ(trials.size(), 1u) << "the plain schedule has no lowering";
  for (const size_t other : others) add(space[other]);
  check(program, sizes, options.mapped, std::move(trials));
}

std::string name_of(const std::string& file) { return std::filesystem::path(file).stem().string(); }

class Examples : public testing::TestWithParam<std::string> {};

TEST_P(Examples, EveryScheduleGivesTheMeaning) {
  const NoCompiler evaluated;
  std::mt19937 random(seed());
  const ir::Program program = ir::parse(source(GetParam()));
  const auto space = schedules_of(program, random);
  const std::vector<int64_t> boundaries = {127, 129, 255, 257, 1023, 1025, 4095, 4097};
  const auto& names = examples();
  const auto shift = std::find(names.begin(), names.end(), GetParam()) - names.begin();
  const size_t each = std::max<size_t>(2, space.size() / 300 + 1);  // 8 * (33 + 8) calls
  Turn turn;
  // A sample takes every other number of ranks, so that two examples meet all of them.
  const int first = slow() ? 1 : 1 + static_cast<int>(GetParam().size() % 2);
  for (int ranks = first; ranks <= 8; ranks += slow() ? 1 : 2) {
    std::vector<int64_t> sizes = {random() % 2 ? static_cast<int64_t>(random() % 131)
                                               : boundaries[random() % boundaries.size()]};
    if (slow()) {
      sizes = boundaries;
      for (int64_t elements = (ranks + shift) % 4; elements <= 130; elements += 4) sizes.push_back(elements);
    }
    for (const int64_t elements : sizes) {
      check_some(program, space, sizes_for(program, elements, ranks, random),
                 slow() ? turn.take(each, space.size()) : drawn(2, space.size(), random), random);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Examples, testing::ValuesIn(examples()),
                         [](const auto& info) { return name_of(info.param); });

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// The same programs in other dtypes, substituted in their text: integers exactly, floats to the stated tolerance. (adamw
// and lamb fold, so that a narrow dtype in their text meets the f32 of the fold, D4 and D1; truths are in flags.weft.)
struct Substitution {
  std::string file, from;
  std::vector<std::string> to;
};
const std::vector<Substitution>& substitutions() {
  static const std::vector<std::string> integers = {"i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"};
  static const std::vector<Substitution> list = {
      {"tests/cases/program/sgd_int.weft", "i64", integers},
      {"examples/sgd.weft", "f32", {"f64", "f16", "bf16", "f8e4m3", "f8e5m2"}},
      {"examples/adam.weft", "f32", {"f64", "f16", "bf16", "f8e4m3", "f8e5m2"}},
      {"examples/adamw.weft", "f32", {"f64"}},
      {"examples/lamb.weft", "f32", {"f64"}},
      {"examples/adam_mixed.weft", "f16", {"bf16", "f8e4m3", "f8e5m2"}},
      {"examples/attention_end.weft", "f16", {"f64", "f32", "bf16", "f8e4m3", "f8e5m2"}}};
  return list;
}

// Numbers of ranks and sizes: one drawn, or, slow, each number of ranks with nothing, 1 and the sizes around boundaries
// (26 programs x 8 x 6 calls of three schedules: some minutes). Schedules come in turn.
std::vector<std::pair<int, int64_t>> cells(std::mt19937& random) {
  if (!slow()) return {{1 + static_cast<int>(random() % 8), static_cast<int64_t>(random() % 300)}};
  std::vector<std::pair<int, int64_t>> all;
  for (int ranks = 1; ranks <= 8; ranks++)
    for (const int64_t elements : {0, 1, 127, 129, 255, 257}) all.push_back({ranks, elements});
  return all;
}

class Dtypes : public testing::TestWithParam<Substitution> {};

TEST_P(Dtypes, SubstitutedInTheText) {
  const NoCompiler evaluated;
  std::mt19937 random(seed());
  const Substitution& s = GetParam();
  for (const std::string& dtype : s.to) {
    // Declarations and casts: "f32[P]", "f32(a)".
    std::string text = replaced(replaced(source(s.file), s.from + "[", dtype + "["), s.from + "(", dtype + "(");
    const ir::Program program = ir::parse(text);
    const auto space = schedules_of(program, random);
    Turn turn;
    for (const auto& [ranks, elements] : cells(random)) {
      check_some(program, space, sizes_for(program, elements, ranks, random),
                 slow() ? turn.take(2, space.size()) : drawn(2, space.size(), random), random);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Dtypes, testing::ValuesIn(substitutions()),
                         [](const auto& info) { return name_of(info.param.file); });

// A product with nothing in it: no rows, no columns, or an empty sum (which is 0, so y = r where dropout keeps it).
TEST(AttentionEnd, DimsOfNothing) {
  const NoCompiler evaluated;
  std::mt19937 random(seed());
  const ir::Program program = ir::parse(source("examples/attention_end.weft"));
  const auto space = schedules_of(program, random);
  for (const char* empty : {"B", "S", "K", "H", "all"})
    for (const int ranks : {1, 2, 3, 8}) {
      ir::Sizes sizes;
      sizes.ranks = ranks;
      for (const char* name : {"B", "S", "K", "H"}) {
        const bool none = std::string(empty) == name || std::string(empty) == "all";
        sizes.dims[name] = none ? 0 : 1 + static_cast<int64_t>(random() % 5);
      }
      check_some(program, space, sizes, drawn(slow() ? 20 : 2, space.size(), random), random);
      if (HasFailure()) return;
    }
}

// Statements that no example has, bound and run as programs are: one rank's value to all, inputs that are pending, folds
// over a leading dimension, a value per tensor that is an output, extremes of unsigned integers, indices of two dimensions,
// an input that goes out, folds of products, states that swap, a part of a whole operand.
TEST(Statements, OfNoExample) {
  const NoCompiler evaluated;
  std::mt19937 random(seed());
  const char* texts[] = {
      "in g i32[N, H] local\na = broadcast(g, 0)\nb = a + 1\nout a\nout b\n",
      "in g f32[N, H] partial(sum)\nb = all_reduce(sum, g)\nc = b + 1.0\nout c\n",
      "in g i32[N, H] partial(max)\nb = all_reduce(max, g)\nout b\n",
      "in x i32[N, H] local\nd = sum(x, 0)\na = all_reduce(sum, d)\nout a\n",
      "in x i32[N, H] sliced(0)\nr = all_reduce(sum, sum(x, 0))\nout r\n",
      "in g i32[P] local\na = all_reduce(sum, g)\nt = sum(a by P)\nb = a * i32(t)\nout t\nout b\n",
      "in g u8[P] local\na = all_reduce(sum, g)\nt = amax(a by P)\nl = amin(t)\nb = a * l\nout t\nout b\n",
      "in g f32[N, H] local\na = all_reduce(sum, g)\nb = a * index(1) + index(0)\nout b\nout g\n",
      "in x i32[N, H] sliced(0)\nin w i32[H, N] replicated\nstate s i32[N] replicated\nstate t i32[N] replicated\n"
      "h = matmul(x, w)\ny = all_gather(h)\nm = amax(y, 1)\nd = y - m\nupdate s = t\nupdate t = s\nout d\n",
      "in x i32[N, 2, H] sliced(0)\nin w i32[N, H, 3] replicated\nh = matmul(x, w)\nout h\n"};
  for (const char* text : texts) {
    const bool list = std::string(text).find("by P") != std::string::npos;
    const ir::Program program =
        ir::parse(std::string("program 1 kinds\n") + (list ? "tensors P\n" : "dim N H\n") + text);
    for (const int ranks : slow() ? std::vector<int>{1, 2, 3, 5, 8} : std::vector<int>{3, random() % 2 ? 2 : 8}) {
      ir::Sizes sizes;
      sizes.ranks = ranks;
      if (list)
        sizes.tensors["P"] = {{5}, {3, 7}, {1}};
      else
        sizes.dims = {{"N", 1 + static_cast<int64_t>(random() % 40)}, {"H", 1 + static_cast<int64_t>(random() % 7)}};
      const auto space = schedules_of(program, random);
      check_some(program, space, sizes, drawn(2, space.size(), random), random);
      if (HasFailure()) return;
    }
  }
}

class Compiled : public testing::TestWithParam<std::string> {};

// The same through compiled kernels and processes, once per example: plain and most fused.
TEST_P(Compiled, OnProcesses) {
  std::mt19937 random(7);
  const ir::Program program = ir::parse(source(GetParam()));
  const ir::Sizes sizes = sizes_for(program, 1025, 3, random);
  tune::SearchOptions options;
  options.ranks = 3;
  options.sizes = sizes;
  std::vector<tune::Trial> trials;
  for (const char* choice : {"plain", "fused"}) {
    trials.push_back(tune::make_trial(program, resolve_schedule(program, choice, sizes), topo::detect(), options));
    trials.back().id = static_cast<int>(trials.size()) - 1;
  }
  api::check_trials(trials, program, sizes, "processes", {}, api::tolerance_of(program));
  for (const tune::Trial& trial : trials)
    EXPECT_NE(trial.check.rfind("WRONG", 0), 0u) << trial.label << ": " << trial.check;
}

INSTANTIATE_TEST_SUITE_P(All, Compiled, testing::ValuesIn(examples()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace weft
