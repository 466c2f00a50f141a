// What a C++ user can get wrong: every mistake is an Error(user) that names the thing and says what to do.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "weft/api/weft.h"
#include "weft/topo/machine.h"
#include "weft/tune/file.h"

namespace weft {
namespace {

const char* const text =
    "program 1 step\ndim N\nscalar lr f64\nscalar k i64\nin g f16[N] local\nstate w f32[N] replicated\n"
    "a = all_reduce(sum, g)\nw1 = w - lr * k * f32(a)\nupdate w = w1\nout w1\n";

PrepareOptions options_for(const std::string& schedule) {
  PrepareOptions options;
  options.sizes.dims["N"] = 10;
  options.schedule = schedule;
  return options;
}

// What act says on one rank, by thread so that the message comes back.
std::string message(const std::function<void(Rank&)>& act, ErrorKind kind = ErrorKind::user) {
  std::string what = "no error";
  RunOptions options;
  options.threads = true;
  run(
      1,
      [&](Rank& rank) {
        try {
          act(rank);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), kind) << error.what();
          what = error.what();
        }
      },
      options);
  return what;
}

std::string with_step(const std::function<void(Executable&)>& act, bool own_buffers = false) {
  return message([&](Rank& rank) {
    PrepareOptions options = options_for("plain");
    options.own_buffers = own_buffers;
    Executable step = rank.prepare(ir::parse(text), options);
    act(step);
  });
}

#define EXPECT_SAYS(what, part) EXPECT_NE((what).find(part), std::string::npos) << (what)

TEST(Errors, Names) {
  const std::string what = with_step([](Executable& step) { step.data("x"); });
  EXPECT_SAYS(what, "step has no input, output or state named x");
  EXPECT_SAYS(what, "g, w");
  EXPECT_SAYS(with_step([](Executable& step) { step.bind("a", &step); }), "named a");
  EXPECT_SAYS(with_step([](Executable& step) { step.read_state("v"); }), "named v");
  EXPECT_SAYS(with_step([](Executable& step) { step.bytes(""); }), "named ");
  EXPECT_SAYS(with_step([](Executable& step) { step.read_state("g"); }), "g is no state of step");
}

TEST(Errors, Dtypes) {
  const std::string what = with_step([](Executable& step) { step.data<float>("g"); });
  EXPECT_SAYS(what, "g has elements of dtype f16");
  EXPECT_SAYS(what, "uint16_t");
  EXPECT_SAYS(with_step([](Executable& step) { step.data<double>("w"); }), "dtype f32");
  EXPECT_EQ(with_step([](Executable& step) {
              EXPECT_EQ(step.data<uint16_t>("g").size(), 10u);
              EXPECT_EQ(step.data<float>("w").size(), 10u);
              EXPECT_EQ(step.data<std::byte>("w").size(), 40u);
              EXPECT_EQ(step.data<int32_t>("w").size(), 10u);
            }),
            "no error");
}

TEST(Errors, Sizes) {
  std::vector<float> nine(9);
  EXPECT_SAYS(with_step([&](Executable& step) { step.bind("w", std::span(nine)); }, true),
              "w takes 40 bytes on rank 0, 36 were given");
  EXPECT_SAYS(with_step([&](Executable& step) { step.write_state("w", std::as_bytes(std::span(nine))); }),
              "state w has 40 bytes, 36 were given");
  EXPECT_SAYS(with_step([&](Executable& step) { step.bind("w", nullptr); }, true), "w is bound to null");
  EXPECT_SAYS(with_step(
                  [&](Executable& step) {
                    step.bind("w", std::vector<void*>{&nine, &nine});
                  },
                  true),
              "w is one piece of memory, 2 addresses were given");
  EXPECT_SAYS(message([](Rank& rank) { rank.prepare(ir::parse(text), {}); }), "N");
}

TEST(Errors, BuffersThatNobodyBound) {
  EXPECT_SAYS(with_step([](Executable& step) { step.data("w"); }, true), "w has no memory yet");
  const std::string what = with_step([](Executable& step) { step.launch({{"lr", 1}, {"k", 1}}); }, true);
  EXPECT_NE(what, "no error");
  EXPECT_SAYS(with_step([](Executable& step) { step.read_state("w"); }, true), "w has no memory yet");
}

TEST(Errors, Scalars) {
  EXPECT_SAYS(with_step([](Executable& step) { step.launch({{"lr", 1}}); }), "needs k");
  EXPECT_SAYS(with_step([](Executable& step) {
                step.launch({{"lr", 1}, {"k", 1}, {"rate", 1}});
              }),
              "no scalar named rate");
  EXPECT_SAYS(with_step([](Executable& step) {
                step.launch({{"lr", 1}, {"k", 0.5}});
              }),
              "scalar k is an integer, 0.5 was given");
}

TEST(Errors, ListsOfTensors) {
  const char* list = "program 1 p\ntensors P\nin x f32[P] local\ny = all_reduce(sum, x)\nout y\n";
  const auto with_list = [&](const std::function<void(Executable&)>& act) {
    return message([&](Rank& rank) {
      PrepareOptions options;
      options.sizes.tensors["P"] = {{3}, {4}};
      options.schedule = "plain";
      options.own_buffers = true;
      Executable step = rank.prepare(ir::parse(list), options);
      act(step);
    });
  };
  float memory[8] = {};
  EXPECT_SAYS(with_list([&](Executable& step) { step.bind("x", memory); }), "bind a vector of addresses");
  EXPECT_SAYS(with_list([&](Executable& step) { step.bind("x", std::vector<void*>{memory}); }),
              "x is a list of 2 tensors, 1 addresses were given");
  EXPECT_SAYS(with_list([&](Executable& step) {
                step.bind("x", std::vector<void*>{memory, nullptr});
              }),
              "tensor 1 of x is bound to null");
}

std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / fmt::format("weft-{}-{}", getpid(), name);
}

std::string choice_says(const std::string& choice) {
  ir::Sizes sizes;
  sizes.ranks = 2;
  sizes.dims["N"] = 10;
  try {
    return schedule::print(resolve_schedule(ir::parse(text), choice, sizes));
  } catch (const Error& error) { return error.what(); }
}

TEST(Schedules, ByNameFileOrText) {
  EXPECT_SAYS(choice_says("plain"), "schedule 1");
  EXPECT_SAYS(choice_says("fused"), "schedule 1 fused of step");
  EXPECT_SAYS(choice_says("schedule 1 mine of step\nsplit a\n"), "split a");
  const std::filesystem::path file = scratch("no-suffix");
  write_file(file, "schedule 1 mine of step\nsplit a\n");
  EXPECT_SAYS(choice_says(file.string()), "split a");
  const auto folder = std::filesystem::current_path();
  std::filesystem::current_path(file.parent_path());
  EXPECT_SAYS(choice_says(file.filename().string()), "split a");  // a bare name that is a file
  std::filesystem::current_path(folder);
  write_file(file, "schedule 1 mine of step\nspill a\n");
  EXPECT_SAYS(choice_says(file.string()), "schedule file " + file.string() + ": 2:");
  std::filesystem::remove(file);
  EXPECT_SAYS(choice_says("nope"), "step has no schedule named nope, and there is no file nope");
  EXPECT_SAYS(choice_says("tune"), "running ranks");
}

struct Tuning {  // WEFT_TUNING names a file with one entry of this machine
  std::filesystem::path path = scratch("tuning.toml");
  explicit Tuning(const std::string& schedule, std::string machine = topo::fingerprint(topo::detect())) {
    setenv("WEFT_TUNING", path.c_str(), 1);
    std::filesystem::remove(path);
    tune::TuningEntry entry;
    entry.machine = std::move(machine);
    entry.program = "step";
    entry.program_hash = tune::program_hash(ir::parse(text));
    entry.ranks = 2;
    entry.elements = 20;
    entry.schedule = schedule;
    tune::write_tuning(path, entry);
  }
  ~Tuning() {
    std::filesystem::remove(path);
    unsetenv("WEFT_TUNING");
  }
};

TEST(Schedules, OfATuningFile) {
  {
    const Tuning good("schedule 1 tuned of step\nsplit a\n");
    EXPECT_SAYS(choice_says("tuned"), "split a");
  }
  {
    const Tuning broken("schedule 1 tuned of step\nspill a\n");
    EXPECT_SAYS(choice_says("tuned"), broken.path.string());
    EXPECT_SAYS(choice_says("tuned"), "spill");
  }
  {
    const Tuning illegal("schedule 1 tuned of step\nsplit w1\n");
    EXPECT_SAYS(choice_says("tuned"), illegal.path.string());
    EXPECT_SAYS(choice_says("tuned"), "P1");
  }
  {
    const Tuning foreign("schedule 1 tuned of step\nsplit a\n", "an abacus");
    EXPECT_SAYS(choice_says("tuned"), "another machine: file has 'an abacus'");
    std::filesystem::remove(foreign.path);
    EXPECT_SAYS(choice_says("tuned"), "there is no tuning file " + foreign.path.string());
    EXPECT_FALSE(std::filesystem::exists(foreign.path));
    write_file(foreign.path, "tuning = 7\n");
    EXPECT_SAYS(choice_says("tuned"), "tuning form 7, this build reads form 1");
    EXPECT_EQ(read_file(foreign.path), "tuning = 7\n");
  }
}

}  // namespace
}  // namespace weft
