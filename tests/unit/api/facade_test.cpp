// What a C++ user does: prepare, fill, launch, save and load states, own buffers, several programs, tune now.
//
// Values are small integers in floats, so sums are exact in any order and every comparison is for equality.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "weft/api/weft.h"

namespace weft {
namespace {

constexpr int64_t elements = 131;

const char* const dense_text =
    "program 1 step\ndim N\nscalar lr f64\nin g f32[N] local\nstate w f32[N] replicated\na = all_reduce(sum, g)\n"
    "w1 = w - lr * a\nupdate w = w1\nout w1\n";
// Nobody gets m whole, so it is stored in parts.
const char* const sums_text =
    "program 1 sums\ndim N\nin g f32[N] local\nstate m f32[N] replicated\na = all_reduce(sum, g)\nm1 = m + a\n"
    "update m = m1\n";
const char* const list_text =
    "program 1 steps\ntensors P\nscalar lr f64\nin g f32[P] local\nstate w f32[P] replicated\na = all_reduce(sum, g)\n"
    "w1 = w - lr * a\nupdate w = w1\nout w1\n";

float gradient(int rank, int64_t i, int launch) { return static_cast<float>((rank + 1) * (i % 7) + launch); }
float weight(int64_t i) { return static_cast<float>(i % 11) - 3; }
float sum_of_gradients(int ranks, int64_t i, int launch) {
  float sum = 0;
  for (int rank = 0; rank < ranks; rank++) sum += gradient(rank, i, launch);
  return sum;
}

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> out(values.size() * sizeof(float));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<float> weights() {
  std::vector<float> out;
  for (int64_t i = 0; i < elements; i++) out.push_back(weight(i));
  return out;
}

// Ranks may be processes, where a failed EXPECT would be lost: what is wrong is thrown.
void require_equal(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  if (got.size() != want.size()) fail(ErrorKind::internal, "{}: {} values, not {}", what, got.size(), want.size());
  for (size_t i = 0; i < got.size(); i++)
    if (got[i] != want[i]) fail(ErrorKind::internal, "{}: [{}] is {}, not {}", what, i, got[i], want[i]);
}

PrepareOptions options_for(const std::string& schedule) {
  PrepareOptions options;
  options.sizes.dims["N"] = elements;
  options.schedule = schedule;
  return options;
}

class Facade : public testing::TestWithParam<bool> {  // processes, threads
 protected:
  void run(int ranks, const std::function<void(Rank&)>& body) const {
    RunOptions options;
    options.threads = GetParam();
    weft::run(ranks, body, options);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Facade, testing::Bool(),
                         [](const auto& info) { return info.param ? "threads" : "processes"; });

void launch_and_check(Rank& rank, Executable& step, std::vector<float>& w, int launch) {
  const auto g = step.data<float>("g");
  for (int64_t i = 0; i < elements; i++) g[static_cast<size_t>(i)] = gradient(rank.rank(), i, launch);
  step.launch({{"lr", 0.5}});
  for (int64_t i = 0; i < elements; i++) w[static_cast<size_t>(i)] -= 0.5f * sum_of_gradients(rank.size(), i, launch);
  const auto w1 = step.data<float>("w1");
  require_equal({w1.begin(), w1.end()}, w, fmt::format("w1 of rank {} after launch {}", rank.rank(), launch));
}

TEST_P(Facade, LaunchesAgainAndAgain) {
  const ir::Program program = ir::parse(dense_text);
  for (const char* schedule : {"plain", "fused", "s1"})
    run(3, [&](Rank& rank) {
      Executable step = rank.prepare(program, options_for(schedule));
      std::vector<float> w = weights();
      step.write_state("w", bytes_of(w));
      for (int launch = 1; launch <= 4; launch++) launch_and_check(rank, step, w, launch);
      require_equal(floats_of(step.read_state("w")), w, "w");
    });
}

void add_gradients(Rank& rank, Executable& step, std::vector<float>& m, int launch) {
  const auto g = step.data<float>("g");
  for (int64_t i = 0; i < elements; i++) g[static_cast<size_t>(i)] = gradient(rank.rank(), i, launch);
  step.launch();
  for (int64_t i = 0; i < elements; i++) m[static_cast<size_t>(i)] += sum_of_gradients(rank.size(), i, launch);
}

// Saved by 4 ranks that store slices, loaded by 3 that store slices, and by 2 that store all.
TEST_P(Facade, StatesAreReshapedToOtherRankCounts) {
  const ir::Program program = ir::parse(sums_text);
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / fmt::format("weft-state-{}-{}", getpid(), GetParam());
  std::vector<float> want = weights();
  for (int64_t i = 0; i < elements; i++) want[static_cast<size_t>(i)] += sum_of_gradients(4, i, 1);
  run(4, [&](Rank& rank) {
    Executable step = rank.prepare(program, options_for("fused"));
    if (step.bytes("m") >= elements * 4) fail(ErrorKind::internal, "m is not stored sliced");
    std::vector<float> m = weights();
    step.write_state("m", bytes_of(m));
    add_gradients(rank, step, m, 1);
    const std::vector<std::byte> saved = step.read_state("m");
    require_equal(floats_of(saved), want, "what 4 ranks save");
    if (rank.rank() == 0) write_file(file, {reinterpret_cast<const char*>(saved.data()), saved.size()});
  });
  const std::string text = read_file(file);
  std::filesystem::remove(file);
  for (const auto& [ranks, schedule] :
       std::vector<std::pair<int, const char*>>{{3, "fused"}, {2, "plain"}, {1, "fused"}}) {
    const std::string choice = schedule;
    run(ranks, [&](Rank& rank) {
      Executable step = rank.prepare(program, options_for(choice));
      step.write_state("m", std::as_bytes(std::span(text)));
      require_equal(floats_of(step.read_state("m")), want, "what is loaded again");
      std::vector<float> m = want;
      add_gradients(rank, step, m, 2);
      require_equal(floats_of(step.read_state("m")), m, "m after a launch");
    });
  }
}

TEST_P(Facade, StatesOfListsOfTensors) {
  const ir::Program program = ir::parse(list_text);
  const std::vector<std::vector<int64_t>> shapes = {{7, 3}, {}, {100}, {9}, {0}};  // 21 + 1 + 100 + 9 + 0
  for (const char* schedule : {"plain", "fused"})
    run(2, [&](Rank& rank) {
      PrepareOptions options;
      options.sizes.tensors["P"] = shapes;
      options.schedule = schedule;
      Executable step = rank.prepare(program, options);
      std::vector<float> w = weights();
      step.write_state("w", bytes_of(w));
      const std::vector<int64_t> lengths = ir::tensors_lengths(options.sizes, "P");
      const std::vector<void*> g = step.tensors("g");
      int64_t position = 0;
      for (size_t t = 0; t < lengths.size(); t++)
        for (int64_t i = 0; i < lengths[t]; i++) static_cast<float*>(g.at(t))[i] = gradient(rank.rank(), position++, 1);
      step.launch({{"lr", 0.5}});
      for (int64_t i = 0; i < elements; i++) w[static_cast<size_t>(i)] -= 0.5f * sum_of_gradients(2, i, 1);
      require_equal(floats_of(step.read_state("w")), w, "w");
    });
}

// Private memory of the caller, canaries behind it.
TEST_P(Facade, OwnBuffers) {
  const ir::Program program = ir::parse(dense_text);
  for (const char* schedule : {"plain", "fused"})
    run(3, [&](Rank& rank) {
      PrepareOptions options = options_for(schedule);
      options.own_buffers = true;
      Executable step = rank.prepare(program, options);
      constexpr float canary = 12345;
      std::vector<float> g(elements + 1, canary), w1(elements + 1, canary), want = weights();
      step.bind("g", std::span(g).first(elements));
      step.bind("w1", std::span(w1).first(elements));  // the state w as well: its new value lies in its memory
      step.write_state("w", bytes_of(want));
      for (int launch = 1; launch <= 3; launch++) {
        for (int64_t i = 0; i < elements; i++) g[static_cast<size_t>(i)] = gradient(rank.rank(), i, launch);
        step.launch({{"lr", 0.5}});
        for (int64_t i = 0; i < elements; i++) want[static_cast<size_t>(i)] -= 0.5f * sum_of_gradients(3, i, launch);
        require_equal({w1.begin(), w1.end() - 1}, want, "w1");
      }
      require_equal(floats_of(step.read_state("w")), want, "w");
      if (g.back() != canary || w1.back() != canary) fail(ErrorKind::internal, "a canary was overwritten");
      std::vector<float> other = want;  // bound anew between launches
      step.bind("w1", std::span(other));
      step.launch({{"lr", 0.0}});
      require_equal(other, want, "w1 bound elsewhere");
      step.bind("w", std::span(other));  // the same place under its other name
      step.launch({{"lr", 0.0}});
      step.bind("w", std::span(w1).first(elements));
      try {
        step.launch({{"lr", 0.0}});
        fail(ErrorKind::internal, "one value lies in two places");
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::user || error.message().find("two places") == std::string::npos) throw;
      }
    });
}

TEST_P(Facade, SeveralExecutablesTakeTurns) {
  const ir::Program program = ir::parse(dense_text);
  const ir::Program largest = ir::parse("program 1 most\ndim M\nin x i32[M] local\ny = all_reduce(max, x)\nout y\n");
  run(2, [&](Rank& rank) {
    Executable plain = rank.prepare(program, options_for("plain"));
    PrepareOptions options;
    options.sizes.dims["M"] = 5;
    options.schedule = "plain";
    std::vector<Executable> others;
    others.push_back(rank.prepare(largest, options));
    Executable fused = rank.prepare(program, options_for("fused"));
    std::vector<float> a = weights(), b = weights();
    plain.write_state("w", bytes_of(a));
    fused.write_state("w", bytes_of(b));
    for (int launch = 1; launch <= 3; launch++) {
      launch_and_check(rank, plain, a, launch);
      const auto x = others[0].data<int32_t>("x");
      for (int i = 0; i < 5; i++) x[static_cast<size_t>(i)] = i * (rank.rank() + launch);
      others[0].launch();
      const auto y = others[0].data<int32_t>("y");
      for (int i = 0; i < 5; i++)
        if (y[static_cast<size_t>(i)] != i * (1 + launch)) fail(ErrorKind::internal, "y[{}]", i);
      launch_and_check(rank, fused, b, launch);
    }
  });
}

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

// Ranks measure together and take the same schedule; the file then serves "tuned", also in pinned processes.
TEST_P(Facade, TunesNow) {
  const ir::Program program = ir::parse(dense_text);
  const std::string file =
      (std::filesystem::path(testing::TempDir()) / fmt::format("weft-tune-{}-{}", getpid(), GetParam())).string();
  std::filesystem::remove(file);
  const Variable named("WEFT_TUNING", file);
  for (const char* schedule : {"tune", "tuned"}) {
    run(2, [&](Rank& rank) {
      PrepareOptions options = options_for(schedule);
      options.tune.limit = 4;
      options.tune.seconds = 0.5;
      Executable step = rank.prepare(program, options);
      if (step.schedule().name != "tuned") fail(ErrorKind::internal, "schedule {}", step.schedule().name);
      std::vector<float> w = weights();
      step.write_state("w", bytes_of(w));
      for (int launch = 1; launch <= 2; launch++) launch_and_check(rank, step, w, launch);
    });
    EXPECT_NE(read_file(file).find("schedule 1 tuned of step"), std::string::npos);
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace weft
