// What tuning does when something is wrong: wrong candidates, too little memory, dead ranks, damaged calibrations.
#include "weft/api/tuning.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/errors.h"
#include "weft/api/calibrate.h"
#include "weft/api/environment.h"
#include "weft/api/need.h"
#include "weft/api/trial_runner.h"
#include "weft/api/weft.h"
#include "weft/base/file.h"
#include "weft/tune/file.h"

using namespace weft;

namespace {

constexpr const char* adam =
    "program 1 step\ndim N\nin g f32[N] local\nstate w f32[N] replicated\na = all_reduce(avg, g)\nw1 = w - 0.1 * a\n"
    "update w = w1\nout w1\n";
constexpr const char* product =
    "program 1 product\ndim B K H\nin x f32[B, K] sliced(1)\nin w f32[K, H] sliced(0)\ny = all_reduce(sum, matmul(x, "
    "w))\nout y\n";

std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / fmt::format("weft-tuning-{}-{}", getpid(), name);
}

tune::Trial measured(const std::string& label, double ns, const std::string& check) {
  tune::Trial trial;
  trial.label = label;
  trial.plain = label == "plain";
  trial.rounds_ns = {ns, ns};
  trial.prediction.total_ns = ns;
  trial.check = check;
  return trial;
}

api::TuneRequest request_of(const char* text, int64_t elements) {
  api::TuneRequest request;
  request.program = ir::parse(text);
  request.sizes.ranks = 2;
  for (const std::string& dim : ir::dims(request.program)) request.sizes.dims[dim] = elements;
  request.machine = topo::detect();
  request.transport = "threads";
  request.search.limit = 3;
  request.search.samples = 0;
  request.rounds.max_rounds = request.rounds.min_rounds = 3;
  return request;
}

TEST(WrongTrials, AreListedAndNeverChosen) {
  api::TuneReport report;
  report.space.trials = {measured("fast and wrong", 10, "WRONG: w1 after launch 1 is off by 3.0e-01"),
                         measured("right", 20, "bits, 1.0e-07"), measured("plain", 30, "1.0e-07")};
  api::settle(report);
  EXPECT_EQ(tune::best(report.space.trials).label, "right");
  EXPECT_EQ(report.space.trials.back().label, "fast and wrong");
  EXPECT_EQ(api::wrong_trials(report), "fast and wrong: WRONG: w1 after launch 1 is off by 3.0e-01");
}

TEST(WrongTrials, WhereAllAreWrongThatIsSaid) {
  const std::filesystem::path file = scratch("none.toml");
  api::TuneRequest request = request_of(adam, 100);
  request.tolerance = -1;  // nothing is that exact
  const api::TuneReport report = api::tune_program(request);
  EXPECT_FALSE(tune::any_right(report.space.trials));
  ASSERT_EQ(report.explanation.size(), 1u);
  EXPECT_TRUE(has(report.explanation[0], "no schedule that was measured gives right results"));
  for (const tune::Trial& trial : report.space.trials) {
    EXPECT_TRUE(trial.wrong()) << trial.label;
    EXPECT_TRUE(has(api::wrong_trials(report), trial.label + ": WRONG: ")) << api::wrong_trials(report);
    EXPECT_TRUE(has(trial.check, "(tolerance -1.0e+00)")) << trial.check;
  }
  api::store_best(report, request.program, request.sizes, file);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Need, MemoryIsAskedForBeforeAnythingIsTaken) {
  api::TuneRequest request = request_of(product, 100'000);
  request.sizes.dims["B"] = 1 << 20;
  const Error tuning = error_of([&] { api::tune_program(request); });
  EXPECT_EQ(tuning.kind(), ErrorKind::io);
  EXPECT_TRUE(has(tuning.what(), "not enough memory for the buffers of 2 ranks")) << tuning.what();
  EXPECT_TRUE(has(tuning.what(), "needed") && has(tuning.what(), "free")) << tuning.what();
  EXPECT_FALSE(tuning.remedy().empty());
  std::vector<tune::Trial> trials;
  const Error check = error_of([&] { api::check_trials(trials, request.program, request.sizes, "threads", {}, 1e-5); });
  EXPECT_TRUE(has(check.what(), "not enough memory for checking product")) << check.what();
  EXPECT_GT(api::reference_bytes(request.program, request.sizes, 2), 8e9);
}

TEST(Need, EveryValueIsScaledBelowTheBound) {
  const ir::Program program = ir::parse(product);
  for (const auto& [b, k, h] : {std::array<int64_t, 3>{1, 100'000, 100'000}, {1 << 20, 3, 1 << 20}, {7, 7, 7}}) {
    ir::Sizes sizes;
    sizes.ranks = 2;
    sizes.dims = {{"B", b}, {"K", k}, {"H", h}};
    const ir::Sizes small = api::scaled(program, sizes, 1 << 12);
    for (const auto& [name, type] : ir::infer(program)) {
      int64_t elements = 1;
      for (const int64_t extent : ir::shape_of(type.shape, small)) elements *= extent;
      EXPECT_LE(elements, 1 << 12) << name;
      EXPECT_GE(elements, std::min<int64_t>(b * k * h, 1)) << name;
    }
    if (b * k * h < 1 << 12) { EXPECT_EQ(small.dims, sizes.dims); }
  }
}

TEST(Need, ListsOfTensorsAreScaledAlongTheirLongestDimension) {
  const ir::Program program = ir::parse("program 1 p\ntensors P\nin g f32[P] local\na = all_reduce(sum, g)\nout a\n");
  ir::Sizes sizes;
  sizes.ranks = 2;
  sizes.tensors["P"] = {{1, 1 << 20}, {1 << 10, 1 << 10}, {3}};
  const ir::Sizes small = api::scaled(program, sizes, 1 << 14);
  EXPECT_LE(ir::tensors_total(small, "P"), 1 << 14);
  EXPECT_EQ(small.tensors.at("P").size(), 3u);
}

std::vector<pid_t> children() {
  std::vector<pid_t> list;
  std::ifstream file(fmt::format("/proc/self/task/{}/children", getpid()));
  for (pid_t child = 0; file >> child;) list.push_back(child);
  return list;
}

// Between two launches nobody waits in a step: the error names rank, signal, schedule and launch all the same.
TEST(Deaths, BetweenLaunchesNameRankSignalAndLaunch) {
  const api::TuneRequest request = request_of(adam, 100);
  tune::SearchOptions search = request.search;
  search.ranks = 2;
  search.sizes = request.sizes;
  const std::vector<tune::Trial> trials = tune::make_trials(request.program, request.machine, search).trials;
  const int64_t begin = now_ns();
  const Error error = error_of([&] {
    api::TrialRunner runner({request.program, request.sizes, {}, trials, true, 0, -1, nullptr}, "processes", false);
    runner.round({0});
    ASSERT_EQ(children().size(), 2u);
    kill(children()[1], SIGKILL);
    runner.round({0});
  });
  EXPECT_LT(now_ns() - begin, 8'000'000'000);
  EXPECT_EQ(error.kind(), ErrorKind::peer) << error.what();
  for (const std::string piece : {"was killed by signal 9", "being timed, after ", " launches)"})
    EXPECT_TRUE(has(error.what(), piece)) << error.what();
  EXPECT_TRUE(has(error.what(), "rank 0 ") || has(error.what(), "rank 1 ")) << error.what();
  EXPECT_TRUE(has(error.what(), "schedule \"" + trials[0].label + "\"")) << error.what();
  EXPECT_TRUE(children().empty());
}

TEST(Calibration, ADamagedFileIsPutAsideAndMeasuredAgain) {
  const std::filesystem::path folder = scratch("cache");
  setenv("WEFT_CACHE_DIR", folder.c_str(), 1);
  const std::filesystem::path path = topo::calibration_path(2);
  for (const std::string& damage : {std::string("machine = 1\nhop_ns = 'fast'\n"), std::string("\0\1\2", 3)}) {
    write_file(path, damage);
    testing::internal::CaptureStderr();
    const topo::Machine machine = api::machine_for(2, "threads");
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(has(said, path.string()) && has(said, "measured again")) << said;
    EXPECT_FALSE(machine.read.bytes.empty());
    EXPECT_EQ(read_file(path.string() + ".damaged"), damage);
    EXPECT_EQ(topo::print_machine(topo::read_machine(path)), topo::print_machine(machine));
  }
  unsetenv("WEFT_CACHE_DIR");
  std::filesystem::remove_all(folder);
}

// Ranks that share no memory: algorithms over links, priced by what messages cost there, right all the same, and stored
// apart from what is fastest in shared memory.
TEST(Transports, AreTunedOverAndStoredApart) {
  const std::filesystem::path folder = scratch("wire");
  setenv("WEFT_CACHE_DIR", folder.c_str(), 1);
  const std::string paced = "threads+paced:alpha=3ms,bw=1GB/s";
  api::TuneRequest request = request_of(adam, 1000);
  request.transport = paced;
  request.machine = api::machine_for(2, paced);
  EXPECT_GE(request.machine.wire_ns, 3e6);
  EXPECT_GT(request.machine.wire_bytes_per_s, 0);
  EXPECT_EQ(topo::read_machine(topo::calibration_path(2)).wire_ns, 0) << "the stored one is of shared memory";
  const api::TuneReport report = api::tune_program(request);
  const tune::Trial& best = tune::best(report.space.trials);
  EXPECT_FALSE(best.wrong());
  EXPECT_GE(best.median_ns(), 3e6);
  EXPECT_GE(best.prediction.total_ns, 3e6);
  const std::filesystem::path file = folder / "tuning.toml";
  api::store_best(report, request.program, request.sizes, file, paced);
  setenv("WEFT_TUNING", file.c_str(), 1);
  const auto found = [&](std::string_view transport) {
    return resolve_schedule(request.program, "tuned", request.sizes, transport).name;
  };
  EXPECT_EQ(found("paced:alpha=3ms,bw=1GB/s"), "tuned");
  testing::internal::CaptureStderr();  // says that there is none
  EXPECT_NE(found("processes"), "tuned");
  EXPECT_NE(found("paced:alpha=4ms,bw=1GB/s"), "tuned");
  EXPECT_TRUE(has(testing::internal::GetCapturedStderr(), "no tuning entry"));
  unsetenv("WEFT_TUNING");
  unsetenv("WEFT_CACHE_DIR");
  std::filesystem::remove_all(folder);
}

// What a program requires of its sizes holds of the smaller ones that it is checked at.
TEST(Scaled, KeepsWhatTheProgramRequires) {
  const ir::Program program = ir::parse(
      "program 1 p\ndim N M\nrequire N % 1000 == 0\nrequire N % (4 * ranks) == 0\nrequire M > 2\nin x f32[N, M] local\n"
      "a = all_reduce(sum, x)\nout a\n");
  for (const int ranks : {1, 2, 3, 7}) {
    ir::Sizes sizes;
    sizes.ranks = ranks;
    sizes.dims = {{"N", 84'000'000}, {"M", 3}};
    const ir::Sizes small = api::scaled(program, sizes, 1 << 20);
    EXPECT_NO_THROW(ir::check_requirements(program, small)) << ranks;
    EXPECT_LE(small.dims.at("N") * small.dims.at("M"), 1 << 20);
    EXPECT_GT(small.dims.at("N"), 100'000);
  }
  const ir::Program odd = ir::parse("program 1 p\ndim N\nrequire N == 3000000\nin x f32[N] local\nout x\n");
  ir::Sizes only;
  only.dims = {{"N", 3'000'000}};
  EXPECT_EQ(api::scaled(odd, only, 1 << 20).dims.at("N"), 3'000'000) << "no other size will do";
}

TEST(Environment, NamesOfAlgorithmsAndProtocolsAreChecked) {
  EXPECT_NO_THROW(api::check_environment());
  for (const char* name : {"WEFT_ALGO", "NCCL_ALGO", "WEFT_PROTO", "NCCL_PROTO"}) {
    setenv(name, "all_reduce:^nosuch", 1);
    const Error error = error_of([] { api::check_environment(); });
    unsetenv(name);
    EXPECT_EQ(error.kind(), ErrorKind::user);
    EXPECT_TRUE(has(error.what(), fmt::format("{}=all_reduce:^nosuch", name)) && has(error.what(), "there are "))
        << error.what();
  }
}

}  // namespace
