// What CoCoNet's repository gets wrong (docs/schedules.md), each as a test that Weft does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "tests/unit/schedule/meaning.h"
#include "tests/unit/schedule/programs.h"
#include "weft/base/error.h"
#include "weft/schedule/form.h"

namespace weft::schedule {
namespace {

using test::after;
using test::program;

std::string rule_of(const ir::Program& p, const std::string& sentence) {
  try {
    after(p, sentence);
  } catch (const Error& e) { return e.rule(); }
  return "accepted";
}

// It fuses a collective with a computation two steps on and leaves out the one between.
TEST(CoCoNet, CyclicFusionIsRefused) {
  ir::Program q = after(program("adam"), "split a; reorder m1 v1 u w1; store m v w");
  EXPECT_EQ(rule_of(q, "fuse f a.s m1.s w1.s w1"), "K2");
  EXPECT_EQ(rule_of(q, "fuse f a.s w1.s"), "K2");
  EXPECT_EQ(rule_of(q, "fuse f a.s m1.s v1.s u.s w1.s w1"), "accepted");
}

// Its LAMB reads w[i] where the rank's slice begins at r*n/k: a replicated operand beside a sliced one. Here an operand
// that has the cut factor is read in its part, whatever the user stored; every rank count must agree.
TEST(CoCoNet, ReplicatedOperandsAreReadInTheirPart) {
  ir::Program naive = program("lamb");
  for (const std::string& sentences : std::vector<std::string>{
           "split a; reorder m1 v1 u w1", "split a; reorder m1 v1 u; cut nw 0; reorder nu w1; store m v w"})
    for (int ranks : {2, 3, 5, 8}) {
      test::World world = test::world(ranks, 13);
      EXPECT_LE(test::difference(test::meaning(naive, world), test::meaning(after(naive, sentences), world)), 1e-9)
          << sentences;
    }
}

// Its norms keep the layout of their operand, so a rank's share passes for the norm. Here it is pending, and finished.
TEST(CoCoNet, NormsOfSlicesAreFinished) {
  ir::Program q = after(program("lamb"), "split a; reorder m1 v1 u; cut nw 0; reorder nu w1; store m v w");
  ir::Types types = ir::infer(q);
  for (const std::string name : {"nw", "nu"}) {
    EXPECT_TRUE(std::holds_alternative<ir::Partial>(types.at(name + ".p").layout));
    EXPECT_TRUE(std::holds_alternative<ir::Replicated>(types.at(name).layout));
  }
  std::string text = ir::print(q);
  text.replace(text.find("sqrt(nw)"), 8, "sqrt(nw.p)");
  EXPECT_THROW(ir::infer(ir::parse(text)), Error) << "L7: a root is not linear in a pending sum";
}

// Its compiler crashes on its own running example (the end of Megatron's attention): split, reorder, fuse.
TEST(CoCoNet, RunningExample) {
  ir::Program naive = program("attention_end");
  ir::Program q = after(naive, "split s; reorder d y; fuse f s.s d.s y.s y");
  EXPECT_EQ(ir::units(q).size(), 2u);
  for (int ranks : {1, 2, 4, 7}) {
    test::World world = test::world(ranks, 13);
    EXPECT_LE(test::difference(test::meaning(naive, world), test::meaning(q, world)), 1e-9);
  }
}

// It slices the bias and reads it out of bounds: b has the last dimension only.
TEST(CoCoNet, BiasIsCutOnlyWhereItHasTheDimension) {
  ir::Program naive = program("attention_end");
  for (const std::string& split : std::vector<std::string>{"split s 0", "split s 1", "split s 2"}) {
    ir::Program q = after(naive, split + "; reorder d y");
    EXPECT_EQ(ir::print(*ir::find_op(q, "d.s")), "d.s = select(rand(seed, 1) < 0.1, 0, (s.s + b) / (1 - 0.1))");
    for (int ranks : {1, 2, 3, 8}) {
      test::World world = test::world(ranks, 13);
      EXPECT_LE(test::difference(test::meaning(naive, world), test::meaning(q, world)), 1e-9)
          << split << " on " << ranks;
    }
  }
}

// Its dropout gives a thread one random number and never rescales: here the mask is a matter of the element alone.
TEST(CoCoNet, MasksDoNotDependOnSlicesOrRanks) {
  ir::Program naive =
      test::small("a = all_reduce(sum, x)\nd = select(rand(k, 1) < 0.5, 0, (a - a + 1.0) / (1 - 0.5))\nout d\n");
  test::Meaning one = test::meaning(naive, test::world(1, 13));
  for (int ranks : {2, 3, 6}) {
    test::World world = test::world(ranks, 13);
    EXPECT_EQ(test::difference(one, test::meaning(after(naive, "split a 1; reorder d"), world)), 0);
  }
  double sum = 0;
  for (double x : one.at("out:d")[0].f) {
    EXPECT_TRUE(x == 0 || x == 2);
    sum += x;
  }
  EXPECT_GT(sum, 0);
}

// Its "Adam" has no square root, no epsilon and no bias correction. Three steps' worth by hand, on two ranks.
TEST(CoCoNet, AdamIsAdam) {
  ir::Program naive = program("adam");
  ir::Program q = after(naive, "split a; reorder m1 v1 u w1; store m v w; fuse f a.s m1.s v1.s u.s w1.s w1");
  test::World world = test::world(2, 7);
  ir::Program read = ir::parse(
      "program 1 read\ndim N\nin g f32[N] local\nstate m f32[N] replicated\nstate v f32[N] replicated\n"
      "state w f32[N] replicated\na = all_reduce(avg, g)\nm1 = 1.0 * m\nv1 = 1.0 * v\nw1 = 1.0 * w\nout a\nout m1\nout "
      "v1\nout w1\n");
  test::Meaning in = test::meaning(read, world), out = test::meaning(q, world);
  for (size_t i = 0; i < 7; ++i) {
    double g = in.at("out:a")[0].f[i], m = 0.9 * in.at("out:m1")[0].f[i] + 0.1 * g,
           v = 0.999 * in.at("out:v1")[0].f[i] + 0.001 * g * g;
    double w =
        in.at("out:w1")[0].f[i] - 0.1 * (m / (1 - std::pow(0.9, 3))) / (std::sqrt(v / (1 - std::pow(0.999, 3))) + 1e-8);
    EXPECT_NEAR(out.at("out:w1")[0].f[i], w, 1e-12 * std::max(1.0, std::abs(w)));
    EXPECT_NEAR(out.at("state:v")[0].f[i], v, 1e-12);
  }
}

// It moves computations over a gather although what lies between is left out; it names neither rule nor remedy.
TEST(CoCoNet, LeftOutOperationsAreNamed) {
  try {
    after(program("adam"), "split a; reorder w1");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.rule(), "R3");
    EXPECT_STREQ(e.what(),
                 "w1: R3: no operand of w1 comes from a gather\n    reorder what lies between first, or divide it all "
                 "the same: `cut w1 0`");
  }
}

// Live-outs get a gather each: three, and one when the states are stored in parts.
TEST(CoCoNet, GathersOfLiveOuts) {
  auto gathers = [](const ir::Program& p) {
    int n = 0;
    for (const ir::Op& op : p.ops) n += is_gather(op);
    return n;
  };
  EXPECT_EQ(gathers(after(program("adam"), "split a; reorder m1 v1 u w1")), 3);
  EXPECT_EQ(gathers(after(program("adam"), "split a; reorder m1 v1 u w1; store m v w")), 1);
}

// The schedules of the paper by name, each among those that are enumerated; names of groups are nobody's concern. What
// its overlaps add (ol) is counted, and not generated.
TEST(CoCoNet, SchedulesByName) {
  struct Named {
    const char *name, *program, *sentences;
  };
  const Named all[] = {
      {"AR-C", "adam", "fuse k m1 v1 u w1"},
      {"RS-C-AG", "adam", "split a; reorder m1 v1 u w1; store m v; fuse k m1.s v1.s u.s w1.s"},
      {"fuse(RS-C-AG)", "adam", "split a; reorder m1 v1 u w1; store m v; fuse f a.s m1.s v1.s u.s w1.s w1"},
      {"MM-AR-C", "attention_end", "fuse k d y"},
      {"MM-RS-C-AG", "attention_end", "split s; reorder d y; fuse k d.s y.s"},
      {"MM-fuse(RS-C-AG)", "attention_end", "split s; reorder d y; fuse f s.s d.s y.s y"},
      {"AR-P2P-C", "pipeline", "fuse k d y"},
      {"RS-P2P-C-AG", "pipeline", "split s; reorder d y x; fuse f s.s d.s y.s x.s"},
  };
  const auto shape = [](const ir::Program& p) {
    return std::regex_replace(ir::print(p), std::regex("fuse \\w+:"), "fuse:");
  };
  for (const Named& named : all) {
    const ir::Program naive = program(named.program);
    const std::string wanted = shape(after(naive, named.sentences));
    const Space space = enumerate(naive);
    EXPECT_TRUE(std::any_of(space.candidates.begin(), space.candidates.end(),
                            [&](const Candidate& candidate) { return shape(candidate.program) == wanted; }))
        << named.name << "\n"
        << wanted;
  }
}

}  // namespace
}  // namespace weft::schedule
