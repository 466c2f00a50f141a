// Cluster files: those that are shipped, and what is wrong with others.
#include "weft/topo/cluster.h"

#include <gtest/gtest.h>

#include <regex>

#include "tests/support/source_dir.h"
#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft::topo {
namespace {

std::filesystem::path shipped() { return std::filesystem::path(checkout_dir()) / "machines"; }

TEST(Cluster, ShippedFilesReadAndNameTheirSources) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shipped())) {
    const Cluster c = read_cluster(entry.path());
    EXPECT_FALSE(c.name.empty());
    EXPECT_FALSE(c.source.empty());
    EXPECT_LE(c.intra.channel_gb_per_s * c.intra.channels, 1.2 * c.intra.gb_per_s) << entry.path();
    const std::string text = read_file(entry.path());  // every number of the machine has its source beside it
    const std::regex figure("^(memory_gb|tflops|launch|send|receive|gap|latency|gb_per|channel)[^\n]*$",
                            std::regex::multiline);
    for (auto it = std::sregex_iterator(text.begin(), text.end(), figure); it != std::sregex_iterator(); ++it)
      EXPECT_NE((*it)[0].str().find("  # "), std::string::npos) << entry.path() << ": " << (*it)[0];
    ++files;
  }
  EXPECT_GE(files, 8);
}

std::string why(const std::string& text) {
  try {
    parse_cluster(text, "c.toml");
  } catch (const Error& error) { return error.what(); }
  return "nothing was wrong";
}

TEST(Cluster, WhatIsWrongIsNamed) {
  const std::string good = read_file(shipped() / "dgx_h100.toml");
  EXPECT_EQ(why(good), "nothing was wrong");
  const auto with = [&](const char* from, const char* to) {
    return why(std::regex_replace(good, std::regex(from), to));
  };
  EXPECT_NE(with("cluster = 1", "cluster = 7").find("version 7"), std::string::npos);
  EXPECT_NE(with("nodes = 1", "nodes = 0").find("line 4: nodes"), std::string::npos);
  EXPECT_NE(with("nodes = 1", "").find("`nodes` is missing"), std::string::npos);
  EXPECT_NE(with("hopper", "blackberry").find("one of ampere, cpu, hopper, volta"), std::string::npos);
  EXPECT_NE(with("tflops = 66.9", "tflops = -1").find("tflops"), std::string::npos);
  EXPECT_NE(with("tflops", "teraflops").find("`tflops` is missing"), std::string::npos);
  EXPECT_NE(why(good + "\nextra = 3\n").find("`extra` is unknown"), std::string::npos);
  EXPECT_NE(with("\\[intra\\]", "[inside]").find("[intra] is missing"), std::string::npos);
  EXPECT_NE(why("cluster = 1\nname = \n").find("line 2"), std::string::npos);
  const std::string l40s = read_file(shipped() / "l40s_pcie.toml");
  EXPECT_NE(why(std::regex_replace(l40s, std::regex("\nnodes = 1"), "\nnodes = 2")).find("none"), std::string::npos);
}

}  // namespace
}  // namespace weft::topo
