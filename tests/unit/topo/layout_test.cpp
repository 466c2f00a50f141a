// Layouts: of cluster files, of this machine, and of NCCL's topology files, whose faults have a line.
#include "weft/topo/layout.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/sanitizers.h"
#include "tests/support/source_dir.h"
#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft::topo {
namespace {

std::filesystem::path written(const std::string& text) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "weft_layout_test.xml";
  write_file(file, text);
  return file;
}

std::string refused(const std::string& text) {
  try {
    read_nccl_topology(written(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.message().substr(error.message().rfind(".xml:") + 5);
  }
  return "accepted";
}

int count(const Part& part, const std::string& kind) {
  int n = part.kind == kind ? part.count : 0;
  for (const Part& inner : part.parts) n += part.count * count(inner, kind);
  return n;
}

TEST(Layout, OfClusterFiles) {
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(checkout_dir()) / "machines")) {
    const Cluster c = read_cluster(entry.path());
    const Layout layout = layout_of(c);
    EXPECT_EQ(count(layout.root, "gpu"), std::min(c.nodes, 2) * c.gpus_per_node) << entry.path();
    EXPECT_NE(print(layout).find(c.name), std::string::npos);
    EXPECT_EQ(dot(layout).find("\n}\n") == std::string::npos, false);
  }
}

TEST(Layout, OfThisMachine) {
  if (address_sanitizer)
    GTEST_SKIP() << "what looks at buses keeps some bytes of its own, in libraries that are unloaded";
  const Layout layout = layout_here();
  EXPECT_FALSE(layout.root.parts.empty());
  EXPECT_NE(print(layout).find("this machine"), std::string::npos);
}

TEST(Layout, PathsOfAnNcclTopology) {
  const Layout layout = read_nccl_topology(std::filesystem::path(checkout_dir()) / "tests/cases/topo/pair.xml");
  EXPECT_EQ(count(layout.root, "gpu"), 4);
  EXPECT_EQ(count(layout.root, "net"), 1);
  const std::string text = print(layout);
  EXPECT_NE(text.find("  GPU0     X   PIX   NV4   SYS"), std::string::npos) << text;
  EXPECT_NE(text.find("  GPU2   NV4   SYS     X   PHB"), std::string::npos) << text;
}

// A file that is given to NCCL instead of written by it says only where devices are.
TEST(Layout, DevicesByTheirClass) {
  const Layout layout = read_nccl_topology(
      written("<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"a\" class=\"0x060400\"><pci busid=\"b\" "
              "class=\"0x030200\"/>"
              "<pci busid=\"c\" class=\"0x020700\"/><pci busid=\"d\" class=\"0x030200\"/></pci></cpu></system>"));
  EXPECT_EQ(count(layout.root, "gpu"), 2);
  EXPECT_EQ(layout.notes[0], "2 GPUs, 1 network interface");
}

TEST(Layout, FaultsHaveALine) {
  const auto system = [](const std::string& inside) { return "<system version=\"1\">\n" + inside + "\n</system>"; };
  EXPECT_EQ(refused(""), "1: no XML: No document element found");
  EXPECT_EQ(refused("<system version=\"1\">\n<cpu numaid=\"0\">"), "2: no XML: Start-end tags mismatch");
  EXPECT_EQ(refused("<graphs version=\"1\"/>"), "1: the element <system> is missing");
  EXPECT_EQ(refused("<system version=\"2\"/>"), "1: version 2, this build reads 1");
  EXPECT_EQ(refused("<system/>"), "1: <system> without version");
  EXPECT_EQ(refused(system("<gpu/>")), "2: <gpu> inside of <system>");
  EXPECT_EQ(refused(system("<cpu numaid=\"x\"/>")), "2: numaid=\"x\" of <cpu>: a whole number from -1 to 1048576");
  EXPECT_EQ(refused(system("<cpu numaid=\"0\">\n<pci/></cpu>")), "3: <pci> without busid");
  EXPECT_EQ(refused(system("<cpu numaid=\"0\"><pci busid=\"a\"/>\n<pci busid=\"a\"/></cpu>")),
            "3: bus id a is there twice");
  EXPECT_EQ(refused(system("<cpu numaid=\"0\"><pci busid=\"a\"><gpu dev=\"0\" sm=\"80\">\n<nvlink target=\"b\" "
                           "count=\"1\" tclass=\"0x0302\"/></gpu></pci></cpu>")),
            "3: an NVLink to b, which is no device here");
  EXPECT_EQ(refused(system("<cpu numaid=\"0\"><nic><net name=\"m\" speed=\"0\"/></nic></cpu>")),
            "2: speed=\"0\" of <net>: a whole number from 1 to 1099511627776");
  std::string deep, end;
  for (int i = 0; i < 100; ++i) deep += "<pci busid=\"" + std::to_string(i) + "\">", end += "</pci>";
  EXPECT_EQ(refused(system("<cpu numaid=\"0\">" + deep + end + "</cpu>")),
            "2: more than 16 PCI devices inside of each other");
}

}  // namespace
}  // namespace weft::topo
