// Errors, environment, hashes, files, logs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/support/sanitizers.h"
#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/base/log.h"

using namespace weft;
namespace fs = std::filesystem;

namespace {

struct Variable {  // sets an environment variable for one scope
  Variable(const char* name, const char* value) : name_(name) { value ? setenv(name, value, 1) : unsetenv(name); }
  ~Variable() { unsetenv(name_); }
  const char* name_;
};

fs::path scratch(const std::string& name) {
  const fs::path path = fs::temp_directory_path() / ("weft_base_test_" + std::to_string(getpid()) + "_" + name);
  fs::remove_all(path);
  return path;
}

}  // namespace

TEST(Error, KindsNamesAndExitCodes) {
  EXPECT_EQ(exit_code(ErrorKind::user), 1);
  EXPECT_EQ(exit_code(ErrorKind::plan), 1);
  EXPECT_EQ(exit_code(ErrorKind::unsupported), 1);
  for (ErrorKind k : {ErrorKind::agreement, ErrorKind::io, ErrorKind::timeout, ErrorKind::peer})
    EXPECT_EQ(exit_code(k), 2);
  EXPECT_EQ(exit_code(ErrorKind::internal), 3);
  EXPECT_EQ(name(ErrorKind::timeout), "timeout");
  EXPECT_STREQ(Error(ErrorKind::user, "m", "r", "L7").what(), "L7: m\n    r");
  EXPECT_STREQ(Error(ErrorKind::user, "m").what(), "m");
  try {
    WEFT_CHECK(1 == 2, "with {}", 5);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::internal);
    EXPECT_NE(e.message().find("1 == 2 does not hold: with 5"), std::string::npos);
  }
}

TEST(Env, TableDefaultsAndChecks) {
  Variable unset("WEFT_TIMEOUT_S", nullptr);
  EXPECT_EQ(env_int("WEFT_TIMEOUT_S"), 600);
  EXPECT_EQ(env_int("WEFT_SPIN_US"), 50);
  EXPECT_FALSE(env_flag("WEFT_VERIFY"));
  {
    Variable on("WEFT_VERIFY", "on"), wrong("WEFT_TIMEOUT_S", "soon"), odd("WEFT_NO_COMPILER", "maybe");
    EXPECT_TRUE(env_flag("WEFT_VERIFY"));
    EXPECT_THROW(env_int("WEFT_TIMEOUT_S"), Error);
    EXPECT_THROW(env_flag("WEFT_NO_COMPILER"), Error);
  }
  EXPECT_THROW(env("WEFT_NO_SUCH"), Error);
  for (const EnvVariable& v : env_variables()) EXPECT_FALSE(v.meaning.empty()) << v.name;
}

TEST(Env, NumbersOutsideTheirRangeAreRefusedWithTheRemedy) {
  const struct {
    const char *name, *value;
  } wrong[] = {{"WEFT_TIMEOUT_S", "0"},     {"WEFT_TIMEOUT_S", "-1"},   {"WEFT_TIMEOUT_S", "nan"},
               {"WEFT_TIMEOUT_S", "inf"},   {"WEFT_TIMEOUT_S", "1e3"},  {"WEFT_TIMEOUT_S", "2.5"},
               {"WEFT_TIMEOUT_S", ""},      {"WEFT_TIMEOUT_S", "60 s"}, {"WEFT_TIMEOUT_S", "99999999999999999999"},
               {"WEFT_TIMEOUT_S", " 5"},    {"WEFT_SPIN_US", "-50"},    {"WEFT_SPIN_US", "10000001"},
               {"WEFT_SPIN_US", "0x10"},    {"WEFT_CACHE_MB", "-1"},    {"WEFT_CACHE_MB", "1099511627776"},
               {"WEFT_NO_COMPILER", "yep"}, {"WEFT_VERIFY", "2"},       {"WEFT_ARENA", "-5"},
               {"WEFT_ARENA", "lots"},      {"WEFT_ARENA", "4Xi"},      {"WEFT_DEBUG", "loud"},
               {"WEFT_SOCKET_FAMILY", "5"}, {"WEFT_RANKS", "0"},        {"WEFT_RANK", "first"}};
  EXPECT_NO_THROW(check_environment());
  for (const auto& [name, value] : wrong) {
    const Variable set(name, value);
    try {
      check_environment();
      ADD_FAILURE() << name << "=" << value << " is accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user);
      EXPECT_NE(error.message().find(std::string(name) + "=" + value), std::string::npos) << error.what();
      EXPECT_FALSE(error.remedy().empty()) << error.what();
    }
  }
}

TEST(Env, EveryNumberHasARangeThatHoldsItsDefault) {
  for (const EnvVariable& v : env_variables()) {
    if (v.form != EnvVariable::Form::integer) continue;
    const std::string name(v.name);
    const Variable unset(name.c_str(), nullptr);
    if (!v.fallback.empty()) { EXPECT_GE(env_int(name), v.least) << name; }
    for (const int64_t edge : {v.least, v.most}) {
      const Variable set(name.c_str(), std::to_string(edge).c_str());
      EXPECT_EQ(env_int(name), edge);
    }
  }
}

TEST(Hash, DistinguishesAndRepeats) {
  EXPECT_EQ(hash64("weft"), hash64("weft"));
  EXPECT_NE(hash64("weft"), hash64("weft", 1));
  EXPECT_NE(hash64("weft"), hash64("wefu"));
  EXPECT_EQ(hash_hex("").size(), 32u);
  EXPECT_EQ(hash_hex(""), "99aa06d3014798d86001c324468d497f");  // XXH3-128 of nothing, from its specification
}

TEST(File, WritesWholeAndReadsBack) {
  const fs::path path = scratch("file");
  const std::string bytes("a\0b\n", 4);
  write_file(path, "old");
  write_file(path, bytes);
  EXPECT_EQ(read_file(path), bytes);
  fs::remove(path);
  EXPECT_THROW(read_file(path), Error);
  EXPECT_THROW(write_file(path / "none" / "x", "y"), Error);
}

TEST(File, DevicesAndLinksAreWrittenToNotReplaced) {
  const fs::path pipe = scratch("pipe"), file = scratch("behind"), link = scratch("link");
  fs::remove(pipe), fs::remove(file), fs::remove(link);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_file(pipe, "through");
  char got[16] = {};
  EXPECT_EQ(read(reader, got, sizeof got), 7);
  EXPECT_TRUE(fs::is_fifo(pipe));
  close(reader);
  write_file(file, "old");
  fs::create_symlink(file, link);
  write_file(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(file), "new");
  fs::remove(pipe), fs::remove(file), fs::remove(link);
}

TEST(File, MessagesSayWhyAndWhatToDo) {
  const auto message = [](const auto& act) -> std::string {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::io);
      EXPECT_FALSE(error.remedy().empty());
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message([] { read_file("no such file"); }).find("cannot read no such file: No such file"),
            std::string::npos);
  EXPECT_NE(message([] { read_file("/"); }).find("Is a directory"), std::string::npos);
  EXPECT_NE(message([] { write_file("/no/such/folder/x", ""); }).find("make its folder first"), std::string::npos);
  EXPECT_NE(message([] { write_file(testing::TempDir(), ""); }).find("name a file, not a folder"), std::string::npos);
}

// A device without an end, a pipe without a writer and a file nobody can have meant are errors, quickly.
TEST(File, ReadsAreBounded) {
  const auto message = [](const fs::path& path) -> std::string {
    try {
      read_file(path);
    } catch (const Error& error) { return error.kind() == ErrorKind::io ? error.what() : "another kind"; }
    return "no error";
  };
  for (const char* endless : {"/dev/zero", "/dev/urandom"})
    EXPECT_NE(message(endless).find(fmt::format("cannot read {}: it does not end, at most 67.1 MB are read", endless)),
              std::string::npos)
        << message(endless);
  EXPECT_EQ(read_file("/dev/null"), "");
  const fs::path large = scratch("large");
  write_file(large, "x");
  fs::resize_file(large, int64_t{10} << 30);  // holes: takes no space
  EXPECT_NE(message(large).find("it has 10.7 GB, at most 67.1 MB"), std::string::npos) << message(large);
  fs::remove(large);
}

TEST(File, PipesAreReadWhole) {
  const fs::path pipe = scratch("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string bytes(300'000, 'p');
  std::thread writer([&] {
    usleep(20'000);
    std::ofstream(pipe) << bytes;
  });
  EXPECT_EQ(read_file(pipe), bytes);
  writer.join();
  fs::remove(pipe);
}

// What the process may still map bounds what is free, whatever the machine has.
TEST(File, FreeMemoryIsBoundedByTheAddressLimit) {
  if (address_sanitizer) GTEST_SKIP() << "the address sanitizer needs more addresses than the limit leaves";
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{int64_t{4} << 30, int64_t{4} << 30};
    setrlimit(RLIMIT_AS, &limit);
    const int64_t free = free_memory_bytes();
    _exit(free < (int64_t{4} << 30) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(File, CacheDirectoryIsPrivate) {
  const fs::path path = scratch("cache");
  Variable set("WEFT_CACHE_DIR", path.c_str());
  EXPECT_EQ(cache_directory(), path);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(cache_directory(), path);
  chmod(path.c_str(), 0755);
  EXPECT_THROW(cache_directory(), Error);
  fs::remove_all(path);
  write_file(path, "a file");
  EXPECT_THROW(cache_directory(), Error);
  fs::remove(path);
}

TEST(File, MemoryAndClock) {
  EXPECT_GT(free_memory_bytes(), 1 << 20);
  const int64_t before = now_ns();
  usleep(2000);
  EXPECT_GE(now_ns() - before, 2000000);
}

TEST(Env, RoomsThatLogAreKnown) {
  {
    Variable only("WEFT_DEBUG_SUBSYS", "plan, collectives,");
    EXPECT_NO_THROW(check_environment());
  }
  Variable only("WEFT_DEBUG_SUBSYS", "plan,zzz");
  try {
    check_environment();
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("there is no zzz"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("runtime"), std::string::npos) << error.what();
  }
}

TEST(Log, LevelsSubsystemsAndFile) {
  const fs::path path = scratch("log");
  {
    Variable level("WEFT_DEBUG", "info"), only("WEFT_DEBUG_SUBSYS", "plan, ir"),
        file("WEFT_DEBUG_FILE", (path.string() + "_%p").c_str());
    reload_log_settings();
  }
  EXPECT_TRUE(log_enabled(LogLevel::info, "plan"));
  EXPECT_TRUE(log_enabled(LogLevel::info, "ir"));
  EXPECT_FALSE(log_enabled(LogLevel::trace, "plan"));
  EXPECT_FALSE(log_enabled(LogLevel::info, "runtime"));
  EXPECT_TRUE(log_enabled(LogLevel::warn, "runtime"));
  set_log_rank(3);
  WEFT_LOG(info, "plan", "x = {}", 5);
  WEFT_LOG(info, "runtime", "not this");
  const fs::path written = path.string() + "_" + std::to_string(getpid());
  EXPECT_EQ(read_file(written), "weft INFO [3] plan: x = 5\n");
  set_log_rank(-1);
  fs::remove(written);
  reload_log_settings();
}
