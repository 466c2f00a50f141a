// The generated library as its users see it: readable text, fallback without a compiler, one compilation for many.
#include "weft/codegen/library.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/unit/codegen/steps.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/once.h"
#include "weft/codegen/compiler.h"
#include "weft/codegen/emit.h"

using namespace weft;
using namespace weft::kernel;
using namespace weft::test;
namespace fs = std::filesystem;

namespace {

class Library : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/weft-library-XXXXXX";
    folder = mkdtemp(name);
    setenv("WEFT_CACHE_DIR", folder.c_str(), 1);
    if (!codegen::find_compiler()) GTEST_SKIP() << "no C++ compiler here";
  }
  void TearDown() override {
    for (const char* name : {"WEFT_CACHE_DIR", "WEFT_NO_COMPILER", "WEFT_CXX"}) unsetenv(name);
    fs::remove_all(folder);
  }
  int64_t objects() const {
    int64_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder / "kernels")) count += entry.path().extension() == ".so";
    return count;
  }
  fs::path folder;
};

StepShape sum_shape(Dtype dtype) {
  StepShape s;
  s.reduced = many(2, dtype);
  s.reduced_dtype = dtype;
  s.targets = {{dtype}};
  return s;
}

StepShape minimum(Dtype dtype) {
  StepShape s = sum_shape(dtype);
  s.reduction = Reduction::min;
  return s;
}

}  // namespace

TEST_F(Library, TextReadsLikeTheProgram) {
  const std::string text = codegen::source_of(adam_shape(Store::stream));
  for (const char* part :
       {"kernel adam(lr, step): a, m, v, w -> m1, v1, w1, w1, w1", "float m1 = ", "float v1 = ", "wm::sqrt(",
        "1 - 0.9 ^ step", "// One element.", "extern \"C\"", "stream<128>(to_w1_2", "stream_end();"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  EXPECT_EQ(text.find("pow"), std::string::npos) << "a launch constant stands in the loop\n" << text;
}

TEST_F(Library, TextIsTheSameForEqualShapes) {
  EXPECT_EQ(codegen::source_of(adam_shape()), codegen::source_of(adam_shape()));
  EXPECT_NE(codegen::source_of(adam_shape()), codegen::source_of(adam_shape(Store::stream)));
}

TEST_F(Library, WithoutACompilerTheEvaluatorRuns) {
  setenv("WEFT_NO_COMPILER", "1", 1);
  evaluating_said().forget();
  testing::internal::CaptureStderr();
  for (int rank = 0; rank < 3; rank++) {
    const pid_t child = fork();  // ranks are forked before they ask for kernels
    if (child == 0) codegen::generated_library(), _exit(0);
    waitpid(child, nullptr, 0);
  }
  const auto library = codegen::generated_library(), second = codegen::generated_library();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(library->name(), "evaluator");
  EXPECT_NE(said.find("evaluated"), std::string::npos) << said;
  EXPECT_EQ(said.find("evaluated"), said.rfind("evaluated")) << "said more than once: " << said;
  const StepShape shape = sum_shape(Dtype::f32);
  const StepCode code = library->find({shape})[0];
  EXPECT_TRUE(guards_whole(shape, run_step(shape, code, 20, 1, 3, false), 20, 1));
  EXPECT_FALSE(fs::exists(folder / "kernels"));
}

TEST_F(Library, AWrongCompilerIsTheUsersError) {
  setenv("WEFT_CXX", "no-such-compiler", 1);
  EXPECT_THROW(codegen::generated_library(), Error);
  setenv("WEFT_CXX", "false", 1);
  StepShape shape = sum_shape(Dtype::u16);
  shape.targets.push_back({Dtype::u32});
  try {
    codegen::generated_library()->find({shape});
    FAIL() << "compiled by `false`";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_NE(std::string(error.what()).find("weft_sum"), std::string::npos) << error.what();
  }
}

// What the machine refuses is evaluated, with a warning that says why; what the text deserves stays an error.
TEST_F(Library, WhereTheMachineRefusesKernelsAreEvaluated) {
  const auto check = [&](const StepShape& shape, const char* reason) {
    evaluating_said().forget();
    testing::internal::CaptureStderr();
    const auto library = codegen::generated_library(), second = codegen::generated_library();
    const StepCode code = library->find({shape})[0], again = second->find({shape})[0];
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(reason), std::string::npos) << said;
    EXPECT_EQ(said.find("evaluated"), said.rfind("evaluated")) << "said more than once: " << said;
    EXPECT_TRUE(guards_whole(shape, run_step(shape, code, 20, 1, 3, false), 20, 1));
    EXPECT_TRUE(guards_whole(shape, run_step(shape, again, 20, 1, 3, false), 20, 1));
  };
  const fs::path script = folder / "cxx";
  const auto compiler = [&](const char* then) {
    std::ofstream(script) << "#!/bin/sh\n" << then << "\n";
    chmod(script.c_str(), 0700);
    setenv("WEFT_CXX", script.c_str(), 1);
  };
  StepShape shape = sum_shape(Dtype::i8);
  compiler("echo 'cc1plus: fatal error: No space left on device' >&2; exit 1");
  check(shape, "No space left");
  compiler("kill -KILL $$");
  check(shape, "signal 9");
  setenv("WEFT_TIMEOUT_S", "1", 1);
  compiler("sleep 100");
  check(shape, "did not end in time");
  unsetenv("WEFT_TIMEOUT_S");
  unsetenv("WEFT_CXX");
  std::ofstream(folder / "file") << "x";
  setenv("WEFT_CACHE_DIR", (folder / "file" / "cache").c_str(), 1);
  check(shape, "cache directory");
}

TEST_F(Library, WrongShapesAreRefusedBeforeCompiling) {
  StepShape shape = sum_shape(Dtype::f32);
  shape.reduction = Reduction::bit_and;
  EXPECT_THROW(codegen::generated_library()->find({shape}), Error);
  EXPECT_THROW(codegen::source_of(shape), Error);
}

TEST_F(Library, EqualShapesAreOneObject) {
  const auto library = codegen::generated_library();
  const std::vector<StepCode> codes = library->find({minimum(Dtype::i16), minimum(Dtype::i32), minimum(Dtype::i16)});
  EXPECT_EQ(codes[0].run, codes[2].run);
  EXPECT_NE(codes[0].run, codes[1].run);
  EXPECT_EQ(objects(), 2);
  EXPECT_EQ(codegen::generated_library()->find({minimum(Dtype::i16)})[0].run, codes[0].run);
}

TEST_F(Library, ThreadsFindTogether) {
  StepShape a = sum_shape(Dtype::i64), b = sum_shape(Dtype::u64);  // asked for by no other test of this program
  a.reduction = b.reduction = Reduction::max;
  std::vector<std::thread> ranks;
  std::vector<std::vector<StepCode>> codes(6);
  for (size_t r = 0; r < codes.size(); r++)
    ranks.emplace_back([&, r] {
      codes[r] =
          codegen::generated_library()->find(r % 2 ? std::vector<StepShape>{a, b} : std::vector<StepShape>{b, a});
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(objects(), 2);
  for (size_t r = 1; r < codes.size(); r++) {
    EXPECT_EQ(codes[r][r % 2].run, codes[0][0].run);
    EXPECT_EQ(codes[r][1 - r % 2].run, codes[0][1].run);
  }
}

TEST_F(Library, FoundAgainInMilliseconds) {
  codegen::generated_library()->find({adam_shape(), sum_shape(Dtype::f32)});
  int64_t best = INT64_MAX;
  for (int round = 0; round < 5; round++) {
    const int64_t begin = now_ns();
    codegen::generated_library()->find({adam_shape(), sum_shape(Dtype::f32)});
    best = std::min(best, now_ns() - begin);
  }
  EXPECT_LT(best, 5'000'000);
}

TEST_F(Library, NamesAreSafe) {
  expr::Body body;
  body.inputs = {
      {"a.s", Dtype::f32}, {"double", Dtype::f32}, {"h12", Dtype::f32}, {"a__b", Dtype::f32}, {"pos", Dtype::f32}};
  body.assignments = {{"a.s", expr::parse("a.s + double", expr::Syntax::program), Dtype::f32},
                      {"a_s", expr::parse("a.s * a.s", expr::Syntax::program), Dtype::f32}};
  body.outputs = {"a.s", "a_s", "double"};
  const expr::Body safe = codegen::with_c_names(body);
  std::set<std::string> names;
  for (const expr::Value& v : safe.inputs) names.insert(v.name);
  for (const expr::Assignment& v : safe.assignments) names.insert(v.name);
  EXPECT_EQ(names.size(), 7u);
  for (const char* taken : {"double", "pos", "h12", "a__b", "a.s"}) EXPECT_FALSE(names.count(taken)) << taken;
  EXPECT_EQ(safe.outputs[1], safe.assignments[1].name);
  EXPECT_EQ(expr::print(safe.assignments[1].value, expr::Syntax::program), safe.outputs[0] + " * " + safe.outputs[0]);
}

TEST_F(Library, ParenthesesAreKeptWhereTheyHold) {
  EXPECT_EQ(codegen::without_parentheses("(a + b)"), "a + b");
  EXPECT_EQ(codegen::without_parentheses("(a) + (b)"), "(a) + (b)");
  EXPECT_EQ(codegen::without_parentheses("f(a)"), "f(a)");
}
