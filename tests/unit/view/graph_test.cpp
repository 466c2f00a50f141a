// Pictures: the dot text names what a program or plan has, quotes what must be quoted, and graphviz makes well-formed
// SVG of it.
#include "weft/view/graph.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/source_dir.h"
#include "weft/base/file.h"
#include "weft/ir/program.h"
#include "weft/plan/plan.h"

namespace weft::view {
namespace {

std::string source(const std::string& path) { return read_file(checkout_dir() + "/" + path); }

int64_t count(const std::string& text, const std::string& part) {
  int64_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) found++;
  return found;
}

// Strings closed, braces balanced outside of them, no raw newline within: what dot's grammar asks of such text.
std::string fault_of_dot(const std::string& text) {
  bool quoted = false;
  int depth = 0;
  for (size_t i = 0; i < text.size(); i++) {
    if (quoted && text[i] == '\\') {
      i++;
      continue;
    }
    if (text[i] == '"') quoted = !quoted;
    if (quoted && text[i] == '\n') return "a newline in a string";
    if (quoted) continue;
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (depth < 0) return "a brace too many";
  }
  return quoted ? "an open string" : depth ? "an open brace" : "";
}

// XML: tags nest and close, attribute values are quoted, & begins an entity, < stands in no text.
std::string fault_of_xml(const std::string& text) {
  std::vector<std::string> open;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '&') {
      const size_t end = text.find(';', i);
      if (end == std::string::npos || end - i > 8) return "a bare & at " + text.substr(i, 20);
      continue;
    }
    if (text[i] != '<') continue;
    if (text.compare(i, 4, "<!--") == 0) {
      i = text.find("-->", i) + 2;
      continue;
    }
    const size_t end = text.find('>', i);
    if (end == std::string::npos) return "an open tag";
    const std::string tag = text.substr(i + 1, end - i - 1);
    if (count(tag, "\"") % 2) return "an open attribute in " + tag;
    const std::string name = tag.substr(0, tag.find_first_of(" \n/", 1));
    if (tag[0] == '/') {
      if (open.empty() || "/" + open.back() != tag) return "unexpected " + tag;
      open.pop_back();
    } else if (tag[0] != '?' && tag[0] != '!' && tag.back() != '/') {
      open.push_back(name);
    }
    i = end;
  }
  return open.empty() ? "" : "open at the end: " + open.back();
}

TEST(Dot, NamesEverythingOfAProgram) {
  const ir::Program program = ir::parse(source("examples/adam.weft"));
  const std::string text = dot(program);
  EXPECT_EQ(fault_of_dot(text), "");
  for (const ir::TensorDecl& tensor : program.tensors)
    EXPECT_EQ(count(text, "  \"" + tensor.name + "\" [label="), 1) << tensor.name;
  for (const ir::Op& op : program.ops) EXPECT_EQ(count(text, "  \"" + op.name + "\" [label="), 1) << op.name;
  EXPECT_EQ(count(text, "style=dashed, label=\"update\""), static_cast<int64_t>(program.updates.size()));
}

TEST(Dot, EveryExampleIsWellFormed) {
  for (const char* name : {"adam", "adamw", "lamb", "sgd", "adam_mixed", "attention_end"})
    EXPECT_EQ(fault_of_dot(dot(ir::parse(source(std::string("examples/") + name + ".weft")))), "") << name;
}

TEST(Dot, PlansShowLanesLinksAndBuffers) {
  const plan::Plan plan = plan::parse(source("tests/cases/plan/ring_all_reduce.plan"));
  const std::string text = dot(plan);
  EXPECT_EQ(fault_of_dot(text), "");
  for (const plan::Lane& lane : plan.lanes) EXPECT_EQ(count(text, "  \"lane " + lane.name + "\" [label="), 1);
  for (const plan::Buffer& buffer : plan.buffers) EXPECT_EQ(count(text, "  \"" + buffer.name + "\" [label="), 1);
  EXPECT_EQ(count(text, "\" -> \"") > 0, true);
}

bool have_dot() { return std::system("dot -V >/dev/null 2>&1") == 0; }

TEST(Svg, IsWellFormedAndEscapes) {
  if (!have_dot()) GTEST_SKIP() << "graphviz is not installed";
  for (const char* name : {"adam", "attention_end"}) {
    const std::string text = svg(dot(ir::parse(source(std::string("examples/") + name + ".weft"))));
    EXPECT_EQ(fault_of_xml(text), "") << name;
    EXPECT_NE(text.find("<svg"), std::string::npos);
  }
  // Steps have `->`, `<l`, `>r`: markup unless escaped.
  const std::string ring = svg(dot(plan::parse(source("tests/cases/plan/ring_all_reduce.plan"))));
  EXPECT_EQ(fault_of_xml(ring), "");
  EXPECT_NE(ring.find("&gt;"), std::string::npos);
  EXPECT_NE(ring.find("&lt;"), std::string::npos);
}

TEST(Svg, TheCheckerSeesFaults) {
  EXPECT_NE(fault_of_xml("<a><b></a>"), "");
  EXPECT_NE(fault_of_xml("<a>1 & 2</a>"), "");
  EXPECT_NE(fault_of_xml("<a b=\"c></a>"), "");
  EXPECT_EQ(fault_of_xml("<?xml?><a b=\"c\">&lt;<c/></a>"), "");
  EXPECT_NE(fault_of_dot("digraph { \"a }"), "");
  EXPECT_NE(fault_of_dot("digraph { }}"), "");
}

}  // namespace
}  // namespace weft::view
