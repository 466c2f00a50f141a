// Programs that already carry a schedule: what `show --as program` prints reads back, means the same, and takes further
// rewrites; what no schedule could have made is refused at the user's line.
#include <gtest/gtest.h>

#include "tests/unit/schedule/programs.h"
#include "weft/base/error.h"

namespace weft::schedule {
namespace {

using test::after;
using test::small;

TEST(Written, EveryCandidateReadsBackAndIsItsOwnPlain) {
  for (const std::string& name : test::example_names()) {
    const Space space = enumerate(test::example(name));
    for (size_t i = 0; i < space.candidates.size(); i += 3) {
      const std::string text = ir::print(space.candidates[i].program);
      const ir::Program read = ir::parse(text);
      EnumerateOptions few;
      few.max_candidates = 8;
      const Space again = enumerate(read, few);
      ASSERT_FALSE(again.candidates.empty()) << text;
      EXPECT_TRUE(again.candidates[0].plain);
      if (!read.blocks.empty()) {
        EXPECT_EQ(ir::print(again.candidates[0].program), text);
        EXPECT_TRUE(again.candidates[0].schedule.directives.empty()) << print(again.candidates[0].schedule);
      }
      for (const Candidate& candidate : again.candidates)
        EXPECT_EQ(ir::print(replay(read, candidate.schedule)), ir::print(candidate.program)) << text;
    }
  }
}

TEST(Written, FurtherRewritesComeOnTop) {
  const ir::Program half =
      ir::parse(ir::print(after(test::example("adam"), "split a; reorder m1 v1 u w1; fuse f a.s m1.s")));
  const Schedule schedule = parse_schedule("schedule 1 more of adam\nstore m v w\nfuse f2: v1.s u.s w1.s w1\n");
  const ir::Program whole = replay(half, schedule);
  EXPECT_NE(ir::print(whole).find("state m f32[P] sliced(0)"), std::string::npos);
  EXPECT_NO_THROW(check_scheduled(test::example("adam"), whole));
  const Schedule derived = derive(half, whole);
  EXPECT_EQ(print(derived), "schedule 1 s of adam\nstore m v w\nfuse f2: v1.s u.s w1.s w1\n");
}

TEST(Written, NamesAreTakenOnce) {
  const ir::Program p = ir::parse(ir::print(after(test::example("adam"), "split a; fuse f m1 v1")));
  for (const char* sentence : {"fuse f u w1", "fuse m1 u w1", "fuse P u w1", "fuse sum u w1"}) try {
      after(p, sentence);
      ADD_FAILURE() << sentence;
    } catch (const Error& error) { EXPECT_EQ(error.rule(), "K1") << error.what(); }
}

// What is wrong with a text of the user's own: rule and line.
void refused(const std::string& body, const std::string& rule, const std::string& where,
             ErrorKind kind = ErrorKind::user) {
  const ir::Program p = small(body);
  for (int way = 0; way < 2; ++way) try {
      if (way == 0)
        enumerate(p);
      else
        replay(p, {"s", "t", {}, {}});
      ADD_FAILURE() << "accepted: " << body;
    } catch (const Error& error) {
      EXPECT_EQ(error.rule(), rule) << error.what();
      EXPECT_EQ(error.kind(), kind);
      EXPECT_FALSE(error.remedy().empty());
      EXPECT_EQ(std::string(error.what()).substr(0, where.size()), where) << error.what();
      EXPECT_NE(std::string(error.what()).find("^"), std::string::npos) << error.what();
    }
}

TEST(Written, BlocksKeepTheRulesOfFuse) {
  refused("a = all_reduce(sum, x)\nfuse f:\n  y = r * 2.0\n  c = all_reduce(sum, g)\nout y\nout c\nout a\n", "K4",
          "15:3: K4");
  refused("fuse f:\n  y = g * 2.0\n  v = x * 2.0\nout y\nout v\n", "K3", "14:3: K3");
  refused("a = all_reduce(sum, x)\na.s = q * 2.0\nout a\nout a.s\n", "E3", "13:1: E3");
}
TEST(Written, AnOverlapIsReadAndNotApplied) {
  refused("overlap o:\n  s = q * 2.0\n  t = all_gather(s)\nout t\n", "O5", "13:3: O5", ErrorKind::unsupported);
}

}  // namespace
}  // namespace weft::schedule
