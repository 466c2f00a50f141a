// The cache of compiled kernels under everything that happens to caches: damage, crowds, dead holders, bad compilers.
#include "weft/codegen/cache.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/once.h"
#include "weft/codegen/prune.h"

using namespace weft;
using namespace weft::codegen;
namespace fs = std::filesystem;

namespace {

class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/weft-cache-test-XXXXXX";
    folder = mkdtemp(name);
    const std::optional<Compiler> found = find_compiler();
    if (!found) GTEST_SKIP() << "no C++ compiler here";
    compiler = *found;
  }
  void TearDown() override { fs::remove_all(folder); }

  // A compiler that first writes a line into `folder`/log and then does `then`.
  Compiler wrapped(const std::string& then) {
    const fs::path script = folder / "cxx";
    std::ofstream(script) << "#!/bin/sh\necho x >> " << (folder / "log").string() << "\n" << then << "\n";
    chmod(script.c_str(), 0700);
    Compiler c = compiler;
    c.command = {script.string()};
    return c;
  }
  std::string real() const { return "exec " + compiler.command[0] + " \"$@\""; }
  int64_t times_compiled() const {
    return fs::exists(folder / "log") ? static_cast<int64_t>(read_file(folder / "log").size()) / 2 : 0;
  }
  fs::path cache_folder() const { return folder / "kernels"; }

  fs::path folder;
  Compiler compiler;
};

Unit unit(int value) {
  return {"extern \"C\" int value() { return " + std::to_string(value) + "; }\n", "value " + std::to_string(value)};
}
int value_of(void* handle) { return reinterpret_cast<int (*)()>(dlsym(handle, "value"))(); }

}  // namespace

TEST_F(CacheTest, CompilesOnceAndFindsAgain) {
  const Compiler counted = wrapped(real());
  CacheReport report;
  Cache cache(cache_folder(), counted);
  const std::vector<Unit> units = {unit(3), unit(4), unit(3)};
  std::vector<void*> handles = cache.load(units, &report);
  EXPECT_EQ(value_of(handles[0]), 3);
  EXPECT_EQ(value_of(handles[1]), 4);
  EXPECT_EQ(value_of(handles[2]), 3);
  EXPECT_EQ(report.compiled, 2);
  handles = Cache(cache_folder(), counted).load(units, &report);
  EXPECT_EQ(report.compiled, 0);
  EXPECT_EQ(report.found, 3);
  EXPECT_EQ(times_compiled(), 2);
  EXPECT_EQ(read_file(cache.source_path(cache.hash(units[0]))), units[0].source);
  for (const auto& entry : fs::directory_iterator(cache_folder()))
    EXPECT_TRUE(entry.path().extension() == ".so" || entry.path().extension() == ".cpp")
        << "left behind: " << entry.path();
}

TEST_F(CacheTest, HashDependsOnSourceAndCompiler) {
  Compiler other = compiler;
  other.identity += "x";
  const Cache a(cache_folder(), compiler), b(cache_folder(), other);
  EXPECT_EQ(a.hash(unit(1)), a.hash(unit(1)));
  EXPECT_NE(a.hash(unit(1)), a.hash(unit(2)));
  EXPECT_NE(a.hash(unit(1)), b.hash(unit(1)));
  EXPECT_NE(compiler.identity.find(cpu_identity()), std::string::npos);
}

TEST_F(CacheTest, DamagedEntriesAreMadeAgain) {
  Cache cache(cache_folder(), compiler);
  for (int way = 0; way < 4; way++) {
    const Unit u = unit(100 + way);
    const fs::path object = cache.object_path(cache.hash(u));
    {  // made by another process, so that nothing is mapped here
      const pid_t child = fork();
      if (child == 0) {
        cache.load({u});
        _exit(0);
      }
      waitpid(child, nullptr, 0);
    }
    ASSERT_TRUE(intact(object));
    const auto size = fs::file_size(object);
    if (way == 0) fs::resize_file(object, size / 2);
    if (way == 1) fs::resize_file(object, 0);
    if (way == 2) fs::resize_file(object, size - 1);
    if (way == 3) {
      std::fstream file(object, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(size / 3));
      file.put('\x7f');
    }
    EXPECT_FALSE(intact(object)) << way;
    CacheReport report;
    EXPECT_EQ(value_of(cache.load({u}, &report)[0]), 100 + way);
    EXPECT_EQ(report.compiled, 1);
    EXPECT_TRUE(intact(object));
  }
}

TEST_F(CacheTest, ThreadsAndProcessesCompileOnce) {
  const Compiler counted = wrapped("sleep 0.1; " + real());
  const std::vector<Unit> units = {unit(1), unit(2)}, reversed = {unit(2), unit(1)};
  std::vector<pid_t> children;
  for (int p = 0; p < 3; p++) {
    const pid_t child = fork();
    if (child == 0) {
      bool good = true;
      std::vector<std::thread> threads;
      for (int t = 0; t < 3; t++)
        threads.emplace_back([&, t] {
          const std::vector<void*> handles = Cache(cache_folder(), counted).load(t % 2 ? units : reversed);
          if (value_of(handles[0]) + value_of(handles[1]) != 3) good = false;
        });
      for (std::thread& thread : threads) thread.join();
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(times_compiled(), 2);
}

TEST_F(CacheTest, SurvivesAKilledHolder) {
  const Compiler slow =
      wrapped("case \"$*\" in *) if [ ! -e " + (folder / "go").string() + " ]; then sleep 3; fi;; esac; " + real());
  const pid_t child = fork();
  if (child == 0) {
    Cache(cache_folder(), slow).load({unit(5)});
    _exit(0);
  }
  const int64_t deadline = now_ns() + 10'000'000'000;
  while (times_compiled() == 0 && now_ns() < deadline) usleep(2000);
  ASSERT_EQ(times_compiled(), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  std::ofstream(folder / "go") << "go";
  const int64_t begin = now_ns();
  EXPECT_EQ(value_of(Cache(cache_folder(), slow).load({unit(5)})[0]), 5);
  EXPECT_LT(now_ns() - begin, 10'000'000'000);
  for (const auto& entry : fs::directory_iterator(cache_folder()))
    EXPECT_TRUE(entry.path().extension() == ".so" || entry.path().extension() == ".cpp")
        << "left behind: " << entry.path();
}

TEST_F(CacheTest, CompileErrorsSayCommandMessageAndRemedy) {
  const Unit broken{"int value( { return 0; }\n", "kernel broken"};
  try {
    Cache(cache_folder(), compiler).load({unit(6), broken});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    for (const std::string& part :
         {std::string("kernel broken"), compiler.command[0], std::string("-ffp-contract=off"), std::string("error")})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " not in " << error.what();
    EXPECT_NE(error.remedy().find("WEFT_NO_COMPILER"), std::string::npos);
  }
  EXPECT_EQ(value_of(Cache(cache_folder(), compiler).load({unit(6)})[0]), 6);
}

TEST_F(CacheTest, AnObjectThatCannotBeLoadedIsAnError) {
  const Unit unresolved{
      "extern \"C\" int nowhere_to_be_found(); extern \"C\" int value() { return nowhere_to_be_found(); }\n",
      "unresolved"};
  EXPECT_THROW(Cache(cache_folder(), compiler).load({unresolved}), Error);
}

TEST_F(CacheTest, AHungCompilerIsEnded) {
  const Compiler hung = wrapped("sleep 100");
  fs::create_directories(cache_folder());
  write_file(folder / "a.cpp", unit(1).source);
  std::vector<CompileJob> jobs = {{folder / "a.cpp", folder / "a.so", folder / "a.log", "", "", false}};
  const int64_t begin = now_ns();
  compile(hung, jobs, 1, 0.2);
  EXPECT_NE(jobs[0].error.find("in time"), std::string::npos) << jobs[0].error;
  EXPECT_LT(now_ns() - begin, 5'000'000'000);
}

TEST_F(CacheTest, CompilersRunSideBySide) {
  const Compiler slow = wrapped("sleep 0.3; touch \"$TARGET\"; for a; do case $p in -o) touch $a;; esac; p=$a; done");
  std::vector<CompileJob> jobs;
  for (int i = 0; i < 4; i++)
    jobs.push_back(
        {folder / "a.cpp", folder / (std::to_string(i) + ".so"), folder / (std::to_string(i) + ".log"), "", "", false});
  const int64_t begin = now_ns();
  compile(slow, jobs, 4);
  const int64_t together = now_ns() - begin;
  for (const CompileJob& job : jobs) EXPECT_EQ(job.error, "");
  EXPECT_LT(together, 1'100'000'000);
}

TEST_F(CacheTest, CompilerIsFoundByEnvironment) {
  setenv("WEFT_CXX", "/nowhere/c++", 1);
  EXPECT_THROW(find_compiler(), Error);
  setenv("WEFT_CXX", (compiler.command[0] + " -DX=1").c_str(), 1);
  const std::optional<Compiler> found = find_compiler();
  unsetenv("WEFT_CXX");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->command.size(), 2u);
  EXPECT_NE(found->identity, compiler.identity);
}

TEST_F(CacheTest, UnwritableFolderIsAnError) {
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(Cache(folder / "file" / "kernels", compiler), Error);
}

// ---- compilers that misbehave
namespace {

bool runs(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string id, name, state;
  return stat >> id >> name >> state && state != "Z" && state != "X";
}

std::string error_of_load(const fs::path& folder, const Compiler& compiler, const Unit& unit, bool& refused) {
  CacheReport report;
  try {
    Cache(folder, compiler).load({unit}, &report);
  } catch (const Error& error) {
    refused = report.refused;
    return error.what();
  }
  return "";
}

}  // namespace

TEST_F(CacheTest, AHungCompilerIsEndedWithWhatItStarted) {
  const Compiler hung = wrapped("sleep 100 & echo $! > " + (folder / "pid").string() + "; wait");
  std::vector<CompileJob> jobs = {{folder / "a.cpp", folder / "a.so", folder / "a.log", "", "", false}};
  compile(hung, jobs, 1, 0.3);
  EXPECT_NE(jobs[0].error.find("did not end in time"), std::string::npos) << jobs[0].error;
  EXPECT_FALSE(jobs[0].refused);
  const pid_t sleeper = std::stoi(read_file(folder / "pid"));
  for (int i = 0; i < 1000 && runs(sleeper); i++) usleep(1000);
  EXPECT_FALSE(runs(sleeper));
}

TEST_F(CacheTest, HalfTheTimeoutBoundsACompiler) {
  setenv("WEFT_TIMEOUT_S", "1", 1);
  std::vector<CompileJob> jobs = {{folder / "a.cpp", folder / "a.so", folder / "a.log", "", "", false}};
  const int64_t begin = now_ns();
  compile(wrapped("sleep 100"), jobs);
  unsetenv("WEFT_TIMEOUT_S");
  EXPECT_NE(jobs[0].error.find("in time (500 ms)"), std::string::npos) << jobs[0].error;
  EXPECT_LT(now_ns() - begin, 5'000'000'000);
}

TEST_F(CacheTest, ACompilerDiesWithItsCaller) {
  const Compiler hung = wrapped("sleep 100 & echo $! > " + (folder / "pid").string() + "; wait");
  const pid_t caller = fork();
  if (caller == 0) {
    Cache(cache_folder(), hung).load({unit(7)});
    _exit(0);
  }
  for (int i = 0; i < 10000 && (!fs::exists(folder / "pid") || fs::file_size(folder / "pid") == 0); i++) usleep(1000);
  const pid_t sleeper = std::stoi(read_file(folder / "pid"));
  EXPECT_TRUE(runs(sleeper));
  kill(caller, SIGKILL);
  waitpid(caller, nullptr, 0);
  for (int i = 0; i < 2000 && runs(sleeper); i++) usleep(1000);
  EXPECT_FALSE(runs(sleeper));
}

// A compiler writes its own temporary files beside the object; killed with its caller it leaves them, and the next
// compilation, whatever of, takes them away.
TEST_F(CacheTest, WhatAKilledCompilerLeavesGoesWithTheNextOne) {
  const fs::path there = folder / "elsewhere";
  fs::create_directory(there);
  setenv("TMPDIR", there.c_str(), 1);
  const Compiler hung = wrapped("echo half > $TMPDIR/ccHALF.o; sleep 100");
  const pid_t caller = fork();
  if (caller == 0) {
    Cache(cache_folder(), hung).load({unit(7)});
    _exit(0);
  }
  const auto left = [&] {
    int count = 0;
    if (fs::exists(cache_folder()))
      for (const auto& entry : fs::recursive_directory_iterator(cache_folder()))
        count += entry.path().filename() == "ccHALF.o";
    return count;
  };
  for (int i = 0; i < 10000 && left() == 0; i++) usleep(1000);
  kill(caller, SIGKILL);
  waitpid(caller, nullptr, 0);
  EXPECT_EQ(left(), 1);
  EXPECT_EQ(value_of(Cache(cache_folder(), compiler).load({unit(8)})[0]), 8);
  unsetenv("TMPDIR");
  EXPECT_TRUE(fs::is_empty(there));
  for (const auto& entry : fs::directory_iterator(cache_folder()))
    EXPECT_TRUE(entry.path().extension() == ".so" || entry.path().extension() == ".cpp")
        << "left behind: " << entry.path();
}

TEST_F(CacheTest, ALongCompilationIsSaidOnceByAllProcesses) {
  const fs::path said = folder / "said";
  const Compiler slow = wrapped("sleep 0.3; for a; do case $p in -o) touch $a;; esac; p=$a; done");
  compiling_said().forget();
  const auto compile_one = [&](int i) {
    const std::string name = std::to_string(i);
    std::vector<CompileJob> jobs = {
        {folder / "a.cpp", folder / (name + ".so"), folder / (name + ".log"), "", "", false}};
    compile(slow, jobs, 1, 60, 0.05);
  };
  std::vector<pid_t> children;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; i++) {
    const pid_t child = fork();
    if (child == 0) compile_one(i), _exit(0);
    children.push_back(child);
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("compiling 1 kernels"), std::string::npos) << text;
  EXPECT_EQ(text.find("compiling 1 kernels"), text.rfind("compiling 1 kernels")) << text;
}

TEST_F(CacheTest, GarbageIsNotKept) {
  const Compiler writer = wrapped("for a; do case $p in -o) echo garbage > $a;; esac; p=$a; done");
  bool refused = false;
  const std::string error = error_of_load(cache_folder(), writer, unit(8), refused);
  EXPECT_NE(error.find("cannot be loaded"), std::string::npos) << error;
  EXPECT_TRUE(refused);
  for (const auto& entry : fs::directory_iterator(cache_folder())) EXPECT_EQ(entry.path().extension(), ".cpp");
  EXPECT_EQ(value_of(Cache(cache_folder(), compiler).load({unit(8)})[0]), 8);
}

TEST_F(CacheTest, WhyACompilationFailedIsToldApart) {
  const struct {
    const char* then;
    const char* error;
    bool refused;
  } ways[] = {{"echo bad text >&2; exit 1", "bad text", true},
              {"echo 'No space left on device' >&2; exit 1", "No space left", false},
              {"exit 0", "made no object", true},
              {"kill -SEGV $$", "signal 11", false}};
  int value = 20;
  for (const auto& way : ways) {
    bool refused = !way.refused;
    const std::string error = error_of_load(cache_folder(), wrapped(way.then), unit(value++), refused);
    EXPECT_NE(error.find(way.error), std::string::npos) << error;
    EXPECT_EQ(refused, way.refused) << way.then;
  }
  Compiler none = compiler;
  std::ofstream(folder / "text") << "no program";
  none.command = {(folder / "text").string()};
  bool refused = true;
  const std::string error = error_of_load(cache_folder(), none, unit(30), refused);
  EXPECT_NE(error.find("cannot be started"), std::string::npos) << error;
  EXPECT_FALSE(refused);
}

TEST_F(CacheTest, WaitingForAnotherOnesCompilerIsBounded) {
  setenv("WEFT_TIMEOUT_S", "1", 1);
  Cache cache(cache_folder(), compiler);
  const int held = open((cache_folder() / (cache.hash(unit(9)) + ".lock")).c_str(), O_RDWR | O_CREAT, 0600);
  flock(held, LOCK_EX);
  bool refused = true;
  const std::string error = error_of_load(cache_folder(), compiler, unit(9), refused);
  unsetenv("WEFT_TIMEOUT_S");
  close(held);
  EXPECT_NE(error.find("another process has been compiling"), std::string::npos) << error;
  EXPECT_FALSE(refused);
}

// ---- the limit
namespace {

std::string entry_of(const fs::path& folder, int number, int64_t age_s, size_t bytes = 100'000) {
  const std::string hash = std::string(30, 'a') + std::to_string(10 + number);
  for (const char* extension : {".so", ".cpp"}) {
    std::ofstream(folder / (hash + extension)) << std::string(bytes / 2, 'x');
    const timespec then[2] = {{time(nullptr) - age_s, 0}, {time(nullptr) - age_s, 0}};
    utimensat(AT_FDCWD, (folder / (hash + extension)).c_str(), then, 0);
  }
  return hash;
}

}  // namespace

TEST_F(CacheTest, TheLongestUnusedEntriesGoFirst) {
  std::vector<std::string> hashes;
  for (int i = 0; i < 8; i++) hashes.push_back(entry_of(folder, i, 10'000 - 100 * (i ^ 1)));
  std::ofstream(folder / "README") << std::string(1 << 20, 'x');  // not ours
  EXPECT_EQ(prune(folder, 0), 0) << "0 is no limit";
  EXPECT_EQ(prune(folder, 900'000), 0) << "below the limit";
  EXPECT_EQ(prune(folder, 600'000), 4);  // to 450,000: four of about 106,496
  for (int i = 0; i < 8; i++) EXPECT_EQ(fs::exists(folder / (hashes[static_cast<size_t>(i)] + ".so")), i >= 4) << i;
  EXPECT_TRUE(fs::exists(folder / "README"));
}

TEST_F(CacheTest, EntriesInUseStayWhateverTheLimit) {
  const std::string young = entry_of(folder, 0, 60), locked = entry_of(folder, 1, 9000),
                    old = entry_of(folder, 2, 8000);
  std::ofstream(folder / (locked + ".lock")) << "";
  const timespec then[2] = {{time(nullptr) - 9000, 0}, {time(nullptr) - 9000, 0}};
  utimensat(AT_FDCWD, (folder / (locked + ".lock")).c_str(), then, 0);
  EXPECT_EQ(prune(folder, 1), 1);
  EXPECT_TRUE(fs::exists(folder / (young + ".so")));
  EXPECT_TRUE(fs::exists(folder / (locked + ".so")));
  EXPECT_FALSE(fs::exists(folder / (old + ".so")) || fs::exists(folder / (old + ".cpp")));
}

TEST_F(CacheTest, AHitMakesAnEntryYoungAgain) {
  Cache cache(cache_folder(), compiler);
  cache.load({unit(40)});
  const fs::path object = cache.object_path(cache.hash(unit(40)));
  const timespec then[2] = {{time(nullptr) - 90'000, 0}, {time(nullptr) - 90'000, 0}};
  utimensat(AT_FDCWD, object.c_str(), then, 0);
  cache.load({unit(40)});
  struct stat info {};
  stat(object.c_str(), &info);
  EXPECT_LT(time(nullptr) - info.st_mtim.tv_sec, 3600);
}

TEST_F(CacheTest, ProcessesThatCompileAndPruneDoNotDisturbEachOther) {
  const auto work = [&](int seed) {
    for (int i = 0; i < 12; i++) {
      const int value = 50 + (seed + i) % 3;
      if (value_of(Cache(cache_folder(), compiler).load({unit(value)})[0]) != value) _exit(1);
      prune(cache_folder(), 1, 0);
    }
    _exit(0);
  };
  std::vector<pid_t> children;
  for (int p = 0; p < 2; p++) {
    children.push_back(fork());
    if (children.back() == 0) work(p);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}
