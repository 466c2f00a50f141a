// Machine files: what is written reads back, what is wrong is named.
#include "weft/topo/machine.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft::topo {
namespace {

std::filesystem::path scratch_file(const char* name) { return std::filesystem::path(testing::TempDir()) / name; }

std::string error_of(const std::string& text) {
  const auto path = scratch_file("bad.toml");
  write_file(path, text);
  try {
    read_machine(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "accepted";
}

TEST(Machine, DetectionFindsCoresAndMemory) {
  const Machine machine = detect();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_bytes, 1 << 20);
  EXPECT_EQ(static_cast<int>(allowed_cores().size()), machine.cores);
}

TEST(Machine, FileReadsBack) {
  Machine machine = detect();
  machine.hop_ns = 61.25;
  machine.read = {{4096, 65536, 1 << 20}, {4e10, 2e10, 1e10}};
  const auto path = scratch_file("machine.toml");
  write_machine(path, machine);
  const Machine again = read_machine(path);
  EXPECT_EQ(again.hop_ns, 61.25);
  EXPECT_EQ(again.read.bytes, machine.read.bytes);
  EXPECT_EQ(again.read.bytes_per_s, machine.read.bytes_per_s);
  EXPECT_EQ(fingerprint(again), fingerprint(machine));
}

TEST(Machine, CurveInterpolatesInLogarithm) {
  const BandwidthCurve curve{{1024, 4096}, {10, 30}};
  EXPECT_EQ(curve.at(1), 10);
  EXPECT_EQ(curve.at(2048), 20);
  EXPECT_EQ(curve.at(1e12), 30);
}

TEST(Machine, BadFilesAreNamed) {
  EXPECT_NE(error_of("name = 'x'\n").find("no machine file"), std::string::npos);
  EXPECT_NE(error_of("machine = 9\n").find("machine form 9, this build reads 1"), std::string::npos);
  EXPECT_NE(error_of("machine = 1\nhop_ns = -3\n").find("hop_ns must be positive"), std::string::npos);
  for (const char* line : {"hop_ns = 'soon'", "hop_ns = inf", "hop_ns = nan"})
    EXPECT_NE(error_of(fmt::format("machine = 1\n{}\n", line)).find("hop_ns must be positive"), std::string::npos)
        << line;
  EXPECT_NE(error_of("machine = 1\ncores = 0\n").find("cores must be an integer of at least 1"), std::string::npos);
  EXPECT_NE(error_of("machine = 1\nl2_bytes = 2.5\n").find("l2_bytes must be an integer"), std::string::npos);
  EXPECT_NE(error_of("machine = 1\n").find("section [read] is missing"), std::string::npos);
  EXPECT_NE(error_of("machine = 1\n[read\n").find("line 2"), std::string::npos);
  EXPECT_NE(error_of("machine = 1\n[read]\nbytes=[2,1]\nbytes_per_s=[1,1]\n").find("ascend"), std::string::npos);
}

}  // namespace
}  // namespace weft::topo
