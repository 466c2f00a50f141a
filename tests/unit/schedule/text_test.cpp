// The text of schedules, and program -> schedule -> program.
#include <gtest/gtest.h>

#include "tests/unit/schedule/programs.h"
#include "weft/base/error.h"
#include "weft/schedule/form.h"
#include "weft/schedule/groups.h"
#include "weft/schedule/layouts.h"

namespace weft::schedule {
namespace {

const std::string fused_lamb =
    "schedule 1 fused of lamb\nsplit a\nreorder m1 v1 u\ncut nw 0\nreorder nu w1\nstore m v w\n"
    "fuse f: a.s m1.s v1.s u.s nw.p nw nu.p nu t w1.s w1\n"
    "launch f ring simple channels 8 chunk_bytes 2097152 order any round hops\n";

TEST(Text, CanonicalIsAFixedPoint) {
  EXPECT_EQ(print(parse_schedule(fused_lamb)), fused_lamb);
  Schedule s = parse_schedule(fused_lamb);
  EXPECT_EQ(s.name, "fused");
  EXPECT_EQ(s.program, "lamb");
  ASSERT_EQ(s.launches.size(), 1u);
  EXPECT_EQ(s.launches[0].algorithm, "ring");
  EXPECT_EQ(s.launches[0].chunk_bytes, 2097152);
  EXPECT_EQ(one_line(s),
            "split a; reorder m1 v1 u; cut nw 0; reorder nu w1; store m v w; fuse f: a.s m1.s v1.s u.s nw.p nw nu.p nu "
            "t w1.s w1");
  EXPECT_EQ(one_line(parse_schedule("schedule 1 x of adam\n")), "as written");
}

TEST(Text, PrintingSortsAndJoins) {
  EXPECT_EQ(print(parse_schedule("schedule 1 s of adam # why\nstore m\nsplit a 0\n\nstore v\nreorder m1\nreorder "
                                 "v1\nlaunch * channels 2 ll ring stream off\n")),
            "schedule 1 s of adam\nsplit a\nreorder m1 v1\nstore m v\nlaunch * ring ll channels 2 stream off\n");
  EXPECT_EQ(print(parse_schedule("schedule 1 s of adam\nsplit a root 0\nmerge a\nsplit a\n")),
            "schedule 1 s of adam\nsplit a root 0\nmerge a\nsplit a\n");
}

TEST(Text, LaunchWords) {
  for (const std::string line : {"launch *", "launch f direct", "launch a.s pairwise ll128",
                                 "launch * order rank round once", "launch f gather stream on",
                                 "launch f chain simple channels 1 chunk_bytes 65536 order fixed round hops stream off",
                                 "launch * hierarchical:16 ll channels 2"}) {
    std::string text = "schedule 1 s of adam\n" + line + "\n";
    EXPECT_EQ(print(parse_schedule(text)), text);
  }
  EXPECT_EQ(print(parse_schedule("schedule 1 s of adam\nlaunch f chunk_bytes 2Mi ring\n")),
            "schedule 1 s of adam\nlaunch f ring chunk_bytes 2097152\n");
}

void refused(const std::string& text, const std::string& rule, const std::string& place) {
  try {
    parse_schedule(text);
    FAIL() << "accepted: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::user);
    EXPECT_EQ(e.rule(), rule) << e.what();
    EXPECT_EQ(std::string(e.what()).substr(0, place.size()), place) << e.what();
  }
}

TEST(Text, ErrorsHaveALineAndARule) {
  const std::string head = "schedule 1 s of adam\n";
  refused("", "F1", "1:1: ");
  refused("split a\n", "F1", "1:1: ");
  refused("schedule 2 s of adam\n", "F0", "1:10: ");
  refused("schedule 1 s adam\n", "F1", "1:1: ");
  refused("schedule 1 s! of adam\n", "F1", "1:12: ");
  refused(head + "  split a\n", "F1", "2:");
  refused(head + "shuffle a\n", "F4", "2:1: ");
  refused(head + "split\n", "F5", "2:1: ");
  refused(head + "fuse f a b\n", "F1", "2:1: ");
  refused(head + "fuse f:\n", "F5", "2:1: ");
  refused(head + "fuse\n", "F1", "2:1: ");
  refused(head + "split a,b\n", "F1", "2:7: ");
  refused(head + "launch\n", "F1", "2:1: ");
  refused(head + "launch f ring tree\n", "F2", "2:15: ");
  refused(head + "launch f channels\n", "F5", "2:10: ");
  refused(head + "launch f channels 0\n", "F1", "2:19: ");
  refused(head + "launch f channels x\n", "F1", "2:19: ");
  refused(head + "launch f order backwards\n", "F4", "2:16: ");
  refused(head + "launch f round twice\n", "F4", "2:16: ");
  refused(head + "launch f stream maybe\n", "F4", "2:17: ");
  refused(head + "launch f\nsplit a\n", "F1", "3:1: ");
  refused(head + "launch f\nlaunch f ring\n", "F2", "f: ");
}

TEST(Replay, ChecksTheProgramAndTheTargets) {
  ir::Program lamb = test::program("lamb");
  EXPECT_NO_THROW(replay(lamb, parse_schedule(fused_lamb)));
  auto rule_of = [](const ir::Program& p, const std::string& text) {
    try {
      replay(p, parse_schedule(text));
    } catch (const Error& e) { return e.rule(); }
    return std::string();
  };
  EXPECT_EQ(rule_of(test::program("adam"), fused_lamb), "F3");
  EXPECT_EQ(rule_of(lamb, "schedule 1 s of lamb\nlaunch f ring\n"), "F3");
  EXPECT_EQ(rule_of(lamb, "schedule 1 s of lamb\nlaunch a ring\nlaunch * ll\n"), "");
  EXPECT_EQ(rule_of(lamb, "schedule 1 s of lamb\nreorder m1\n"), "R3");
  EXPECT_EQ(rule_of(lamb, "schedule 1 s of lamb\nsplit a\nfuse f: a.s m1\n"), "K3") << "m1 is whole";
}

TEST(Replay, ScheduleOfTheSpecification) {
  ir::Program q = replay(test::program("lamb"), parse_schedule(fused_lamb));
  Schedule derived = derive(test::program("lamb"), q, "fused");
  derived.launches = parse_schedule(fused_lamb).launches;
  EXPECT_EQ(print(derived), fused_lamb);
  EXPECT_EQ(bits(test::program("lamb"), derived), Bits::tolerance);
  EXPECT_EQ(
      bits(test::program("adam"), parse_schedule("schedule 1 s of adam\nsplit a\nreorder m1 v1 u w1\nstore m v w\n")),
      Bits::order);
  EXPECT_EQ(bits(test::program("adam"), parse_schedule("schedule 1 s of adam\nfuse k: m1 v1\n")), Bits::kept);
}

Schedule schedule_of(const LayoutNode& node, const Form& form) {
  Schedule s{"s", form.program.name, node.steps, {}};
  for (const ir::Block& block : form.program.blocks) {
    s.directives.push_back({"fuse", {block.name}});
    s.directives.back().words.insert(s.directives.back().words.end(), block.members.begin(), block.members.end());
  }
  return parse_schedule(print(s));
}

// All enumerated forms: text of a program -> schedule -> text of the schedule -> program.
TEST(Derive, IdentityOverAllForms) {
  for (const std::string& name : test::program_names()) {
    ir::Program naive = test::program(name);
    Form plain = form_of(naive);
    canonicalize(plain);
    std::vector<LayoutNode> nodes = Layouts(plain, {}, 1000).nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes.size() > 150 && i % 4 != 1) continue;
      for (const Form& form : {nodes[i].form, grouped(nodes[i].form).front()}) {
        std::string text = print(schedule_of(nodes[i], form));
        EXPECT_EQ(print(derive(naive, ir::parse(ir::print(form.program)))), text) << ir::print(form.program);
        EXPECT_EQ(ir::print(replay(naive, parse_schedule(text))), ir::print(form.program)) << text;
      }
    }
  }
}

TEST(Derive, Roots) {
  ir::Program naive = test::program("adam");
  EXPECT_EQ(print(derive(naive, test::after(naive, "split a root 0; reorder m1 v1 u w1; store m v w"))),
            "schedule 1 s of adam\nsplit a root 0\nreorder m1 v1 u w1\nstore m v w\n");
}

TEST(Derive, RefusesWhatNoScheduleMakes) {
  ir::Program naive = test::program("adam");
  std::string text = ir::print(test::after(naive, "split a; reorder m1 v1 u w1"));
  std::string needless = text;
  needless.replace(needless.find("a.s * a.s"), 9, "a.s * a.s");
  EXPECT_NO_THROW(derive(naive, ir::parse(needless)));
  // A block that inference takes and the K rules do not.
  std::string cyclic = ir::print(test::after(naive, "split a"));
  size_t at = cyclic.find("a.s = ");
  size_t end = cyclic.find("u = ");
  std::string inner = cyclic.substr(at, end - at), indented;
  for (const std::string& line : split(inner, '\n'))
    if (!line.empty()) indented += "  " + line + "\n";
  try {
    derive(naive, ir::parse(cyclic.substr(0, at) + "fuse f:\n" + indented + cyclic.substr(end)));
    FAIL();
  } catch (const Error& e) { EXPECT_EQ(e.rule(), "K5") << e.what(); }
}

}  // namespace
}  // namespace weft::schedule
