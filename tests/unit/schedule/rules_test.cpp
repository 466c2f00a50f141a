// Every precondition of every rewrite: accepted where it holds, refused by its number where it does not.
#include <gtest/gtest.h>

#include "tests/unit/schedule/programs.h"
#include "weft/base/error.h"
#include "weft/ir/ops.h"

namespace weft::schedule {
namespace {

using test::after;
using test::program;
using test::small;

// Refused by `rule`; the refusal names the operation and the tensors, and the program is as it was.
void refused(const ir::Program& p, const std::string& sentence, const std::string& rule,
             const std::string& message = "", const std::string& remedy = "") {
  std::string before = ir::print(p);
  std::vector<std::string> w = words(sentence);
  const Rewrite* rewrite = find_rewrite(w[0]);
  ASSERT_NE(rewrite, nullptr) << sentence;
  Args args{{w.begin() + 1, w.end()}};
  std::optional<Refusal> refusal = rewrite->check(p, args);
  ASSERT_TRUE(refusal.has_value()) << "accepted: " << sentence << "\n" << before;
  EXPECT_EQ(refusal->rule, rule) << sentence << ": " << refusal->message;
  EXPECT_FALSE(refusal->op.empty());
  EXPECT_NE(refusal->message.find(message), std::string::npos) << refusal->message;
  EXPECT_NE(refusal->remedy.find(remedy), std::string::npos) << refusal->remedy;
  try {
    apply(p, w[0], args);
    FAIL() << "applied: " << sentence;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::user);
    EXPECT_EQ(e.rule(), rule);
    EXPECT_NE(std::string(e.what()).find(rule + ": "), std::string::npos);
  }
  EXPECT_EQ(ir::print(p), before);
}

// Accepted; the result is a program that erases to the one it came from.
ir::Program accepted(const ir::Program& p, const std::string& sentence) {
  std::vector<std::string> w = words(sentence);
  ir::Program q = apply(p, w[0], Args{{w.begin() + 1, w.end()}});
  EXPECT_EQ(ir::print(ir::parse(ir::print(q))), ir::print(q)) << sentence;
  return q;
}

std::string statement(const ir::Program& p, const std::string& name) {
  const ir::Op* op = ir::find_op(p, name);
  return op == nullptr ? "" : ir::print(*op);
}

TEST(Split, ByDimensionAndRoot) {
  ir::Program p = small("a = all_reduce(max, x)\ny = a + r\nout y\n");
  ir::Program q = accepted(p, "split a 1");
  EXPECT_EQ(statement(q, "a.s"), "a.s = reduce_scatter(max, x, 1)");
  EXPECT_EQ(statement(q, "a"), "a = all_gather(a.s)");
  q = accepted(p, "split a root 0");
  EXPECT_EQ(statement(q, "a.s"), "a.s = reduce(max, x, 0)");
  EXPECT_EQ(statement(q, "a"), "a = broadcast(a.s)");
  EXPECT_EQ(ir::print(accepted(p, "split a 0")), ir::print(accepted(p, "split a")));
}

TEST(Split, P1TakesAnAllReduce) {
  refused(program("adam"), "split m1", "P1", "m1 is map");
  refused(program("adam"), "split nothing", "P1", "no statement nothing");
  ir::Program q = after(program("lamb"), "cut nw 0");
  refused(q, "split nw", "P1", "finishes the pending nw.p", "leave nw whole");
  accepted(program("adam"), "split a");
}
TEST(Split, P2NeedsTheDimension) {
  refused(program("adam"), "split a 1", "P2", "no dimension 1", "root 0");
  ir::Program p = small("s = sum(x, -1)\na = all_reduce(sum, s)\nout a\n");
  refused(p, "split a 1", "P2");
  accepted(p, "split a 0");
}
TEST(Split, P3NotInABlock) {
  ir::Program p = small("s = sum(x)\na = all_reduce(sum, s)\nt = a * a\nout t\n");
  refused(after(p, "fuse f s a t"), "split a root 0", "P3", "block f", "before fusing");
  accepted(p, "split a root 0");
}

TEST(Merge, UndoesSplitByteForByte) {
  for (const std::string& name : test::program_names()) {
    ir::Program p = canonical(program(name));
    for (const ir::Op& op : p.ops)
      for (const std::string where : {"", " root 0"})
        if (op.def->name == "all_reduce") {
          EXPECT_EQ(ir::print(after(p, "split " + op.name + where + "; merge " + op.name)), ir::print(p));
        }
  }
}
TEST(Merge, M1TakesTheGatherOfAScatter) {
  refused(program("adam"), "merge a", "M1");
  refused(after(program("adam"), "split a; reorder m1"), "merge m1", "M1");
  refused(after(program("adam"), "split a; reorder m1 v1 u w1; fuse f a.s m1.s"), "merge a", "M1");
  accepted(after(program("adam"), "split a"), "merge a");
}
TEST(Merge, M2NobodyElseReadsTheSlice) {
  ir::Program p = small("a = all_reduce(sum, g)\ny = a * 2.0\nout a\nout y\n");
  refused(after(p, "split a; reorder y"), "merge a", "M2", "read by y.s");
  ir::Program q = small("a = all_reduce(sum, g)\nupdate w = a\nout a\n");
  refused(after(q, "split a; store w"), "merge a", "M2", "stored");
  accepted(after(q, "split a"), "merge a");
}

TEST(Reorder, MovesBeforeTheGather) {
  ir::Program q = accepted(after(program("adam"), "split a"), "reorder m1");
  EXPECT_EQ(statement(q, "m1.s"), "m1.s = b1 * m + (1 - b1) * a.s");
  EXPECT_EQ(statement(q, "m1"), "m1 = all_gather(m1.s)");
}
TEST(Reorder, FoldOverTheCutStaysPending) {
  ir::Program q = accepted(after(program("adamw_clip"), "split a"), "reorder q");
  EXPECT_EQ(statement(q, "q.p"), "q.p = sum(a.s * a.s)");
  EXPECT_EQ(statement(q, "q"), "q = all_reduce(sum, q.p)");
}
TEST(Reorder, SendCarriesTheSlice) {
  ir::Program q = after(program("pipeline"), "split s 1; reorder d y x");
  EXPECT_EQ(statement(q, "x.s"), "x.s = send(y.s, 1)");
  EXPECT_EQ(statement(q, "x"), "x = all_gather(x.s)");
}
TEST(Reorder, OnTheRoot) {
  ir::Program q = after(program("adam"), "split a root 0; reorder m1 v1 u w1; store m v w");
  EXPECT_EQ(statement(q, "w1"), "w1 = broadcast(w1.s)");
  EXPECT_EQ(ir::find_tensor(q, "m")->type.layout, ir::Layout(ir::Root{"0"}));
}
TEST(Reorder, R1ComputationsNotYetCutInNoBlock) {
  refused(program("adam"), "reorder a", "R1", "all_reduce");
  refused(program("adam"), "reorder nothing", "R1", "no statement");
  refused(after(program("adam"), "split a; reorder m1"), "reorder m1.s", "R1", "cut already");
  refused(after(program("adam"), "split a; fuse k m1 v1"), "reorder m1", "R1", "block k", "before fusing");
  refused(small("y = r cut 0\nz1 = all_gather(y)\nout z1\n"), "cut y 1", "R1", "says `cut 0` itself");
  accepted(after(program("adam"), "split a"), "reorder m1");
  accepted(small("y = r * 2.0\nout y\n"), "cut y 1");
}
TEST(Reorder, R2OnlyWhatIsReplicated) {
  refused(program("mlp"), "reorder a", "R2", "sliced(2)");
  refused(small("y = x * 2.0\nout y\n"), "cut y 0", "R2", "local");
  accepted(small("y = r * 2.0\nout y\n"), "cut y 0");
}
TEST(Reorder, R3NeedsAGather) {
  refused(after(program("adam"), "split a"), "reorder w1", "R3", "no operand of w1 comes from a gather", "`cut w1 0`");
  accepted(after(program("adam"), "split a"), "cut w1 0");
}
TEST(Reorder, R4IsInference) {
  ir::Program two = small("a = all_reduce(sum, x)\nc = all_reduce(max, x)\ny = a + c\nout y\n");
  refused(after(two, "split a 0; split c 1"), "reorder y", "R4", "L9");
  accepted(after(two, "split a 0; split c 1"), "cut y 0");
  accepted(after(two, "split a 1; split c 1"), "reorder y");
  refused(program("adam"), "cut m1 1", "R4", "L1");
}
TEST(Reorder, R5SomethingIsDivided) {
  ir::Program p = small("a = all_reduce(sum, x)\ny = b * 2.0\nout y\nout a\n");
  refused(after(p, "split a"), "reorder y", "R3");
  ir::Program q = accepted(p, "cut y 0");
  EXPECT_EQ(statement(q, "y.s"), "y.s = b * 2.0 cut 0");
}
TEST(Cut, OnlyComputations) { refused(program("pipeline"), "cut x 0", "R1", "only a computation"); }
TEST(Cut, N3NotWrittenWhereAnOperandSaysIt) {
  ir::Program q = after(program("adam"), "cut m1 0");
  EXPECT_EQ(statement(q, "m1.s"), "m1.s = b1 * m + (1 - b1) * a cut 0");
  q = after(q, "split a");
  EXPECT_EQ(statement(q, "m1.s"), "m1.s = b1 * m + (1 - b1) * a.s");
}

TEST(Store, KeepsAPart) {
  ir::Program q = accepted(after(program("adam"), "split a; reorder m1 v1 u w1"), "store m v w");
  EXPECT_EQ(ir::find_tensor(q, "v")->type.layout, ir::Layout(ir::Sliced{0}));
  EXPECT_EQ(ir::find_op(q, "v1"), nullptr) << "nobody reads the gather of v1 any more";
  EXPECT_NE(ir::find_op(q, "w1"), nullptr) << "w1 is an output";
}
TEST(Store, T1AReplicatedState) {
  refused(program("adam"), "store g", "T1", "not a state");
  refused(after(program("adam"), "split a; reorder m1 v1 u w1; store m"), "store m", "T1", "already");
  accepted(after(program("adam"), "split a; reorder m1 v1 u w1"), "store m");
}
TEST(Store, T2UpdatedWithAGather) {
  refused(after(program("adam"), "split a"), "store m", "T2", "m is updated with m1", "reorder m1 first");
  refused(small("a = all_reduce(sum, g)\ny = a + w\nout y\n"), "store w", "T2", "nothing");
  accepted(after(program("adam"), "split a; reorder m1"), "store m");
}
TEST(Store, T3ReadersWorkOnSlices) {
  ir::Program q = after(program("lamb"), "split a; reorder m1 v1 u nu w1");
  refused(q, "store w", "T3", "nw reads all of w", "cut nw 0");
  accepted(after(q, "cut nw 0"), "store w");
  refused(small("a = all_reduce(sum, g)\nu = w cut 0\ny = all_gather(u)\nupdate w = a\nout y\n"), "store w", "T2");
  refused(after(small("a = all_reduce(sum, g)\nu = w cut 0\ny = all_gather(u)\nupdate w = a\nout y\n"), "split a"),
          "store w", "T3", "itself");
}
TEST(Store, T4OneCut) {
  ir::Program p = ir::parse(
      "program 1 t\ndim B H\nin x f32[B, H] local\nstate w f32[B, H] replicated\n"
      "a = all_reduce(sum, x)\nb = a + w\nc = w * 2.0\nupdate w = b\nout c\n");
  refused(after(p, "split a 0; reorder b; cut c 1"), "store w", "T4", "written sliced(0) and read sliced(1) by c.s");
  accepted(after(p, "split a 0; reorder b; cut c 0"), "store w");
}
TEST(Store, T5NoOutput) {
  ir::Program p = small("a = all_reduce(sum, g)\ny = a + w\nupdate w = y\nout w\n");
  refused(after(p, "split a; reorder y"), "store w", "T5", "output");
  p = small("a = all_reduce(sum, g)\ny = a + w\nupdate w = y\nout y\n");
  accepted(after(p, "split a; reorder y"), "store w");
}

TEST(Fuse, K1TwoMembersInNoOtherBlock) {
  ir::Program p = program("adam");
  refused(p, "fuse f m1", "K1", "two members");
  refused(p, "fuse f m1 nothing", "K1", "no statement nothing");
  refused(p, "fuse f m1 m1", "K1", "twice");
  refused(p, "fuse m1 m1 v1", "K1", "something else");
  refused(p, "fuse N m1 v1", "K1", "something else");
  refused(after(p, "fuse k m1 v1"), "fuse f v1 u", "K1", "already in k");
  EXPECT_EQ(accepted(p, "fuse k v1 m1").blocks[0].members, (std::vector<ir::Name>{"m1", "v1"}));
}
TEST(Fuse, K2Convex) {
  ir::Program q = after(program("adam"), "split a; reorder m1 v1 u w1");
  refused(q, "fuse f a.s m1.s w1.s w1", "K2", "v1.s needs a.s and feeds w1.s, but is not in the group", "add v1.s");
  accepted(q, "fuse f a.s m1.s v1.s u.s w1.s w1");
  ir::Program p = program("adam");  // two groups that wait for each other
  refused(after(p, "fuse k m1 u"), "fuse f v1 w1", "K2");
}
TEST(Fuse, K3OneCut) {
  refused(after(program("adam"), "split a; reorder m1"), "fuse f m1.s v1", "K3", "slices of dimension 0");
  ir::Program q = after(program("attention_end"), "split s 1; reorder d; cut y 0");
  refused(q, "fuse f d.s y.s", "K3");
  ir::Program sizes = small("y = b * 2.0\nv = w * 2.0\nout y\nout v\n");
  refused(sizes, "fuse f y v", "K3", "all of [H]");
  ir::Program groups = ir::parse(
      "program 1 t\ndim N\ngroup stage = world.split(2)\nin b f32[N] replicated\nin c f32[N] replicated on stage\n"
      "y = b * 2.0\nv = c * 2.0\nout y\nout v\n");
  refused(groups, "fuse f y v", "K3", "y lives on world, v on stage");
  ir::Program rows = small("y = b * 2.0\nv = r * y\nout v\n");
  accepted(rows, "fuse f y v");
}
TEST(Fuse, K4OneStartAndSmallSumsOnly) {
  refused(program("adam"), "fuse f a m1", "K4", "whole all_reduce", "split a first");
  ir::Program p = small("a = all_reduce(sum, x)\nc = all_reduce(max, x)\ny = a + c\nout y\n");
  refused(after(p, "split a; split c; reorder y"), "fuse f a.s c.s y.s", "K4", "two collectives");
  accepted(after(p, "split a; split c; reorder y"), "fuse f a.s y.s");
  accepted(after(program("adamw_clip"), "split a; reorder q d"), "fuse f a.s q.p q c d.s");
}
TEST(Fuse, K5NoReaderOfAGather) {
  refused(after(program("adam"), "split a"), "fuse f a.s a m1 v1", "K5", "m1 needs all of a", "reorder m1");
  accepted(after(program("adam"), "split a; reorder m1"), "fuse f a.s m1.s m1");
}
TEST(Fuse, K6NoMatmul) {
  refused(after(program("mlp"), "split s"), "fuse f z s.s", "K6", "z is matmul", "overlap");
  refused(program("moe"), "fuse f a y", "K6", "all_to_all");
  accepted(after(program("mlp"), "split s; reorder d y"), "fuse f s.s d.s y.s y");
}
TEST(Fuse, K7NoWholeReadOfAStateUpdatedInParts) {
  ir::Program q = after(program("lamb"), "split a; reorder m1 v1 u nu w1");
  refused(q, "fuse f a.s m1.s v1.s u.s nw nu.p nu t w1.s w1", "K7", "nw reads all of a state", "cut nw too");
  accepted(after(q, "cut nw 0"), "fuse f a.s m1.s v1.s u.s nw.p nw nu.p nu t w1.s w1");
}
TEST(Fuse, NormsInside) {
  ir::Program q = after(program("lamb"), "split a; reorder m1 v1 u; cut nw 0; reorder nu w1; store m v w");
  q = accepted(q, "fuse f a.s m1.s v1.s u.s nw.p nw nu.p nu t w1.s w1");
  EXPECT_EQ(ir::units(q).size(), 1u);
}

void checked(const ir::Program& p, const std::string& sentence) {
  std::vector<std::string> w = words(sentence);
  Args args{{w.begin() + 1, w.end()}};
  std::optional<Refusal> refusal = find_rewrite(w[0])->check(p, args);
  EXPECT_FALSE(refusal.has_value()) << refusal->rule << ": " << refusal->message;
  try {
    apply(p, w[0], args);
    FAIL() << "applied: " << sentence;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported);
    EXPECT_FALSE(e.remedy().empty());
  }
}

TEST(Overlap, CheckedAndUnsupported) {
  checked(program("attention_end"), "overlap o layer s");
  checked(after(program("attention_end"), "split s; reorder d y; fuse f s.s d.s y.s y"), "overlap o layer f");
  checked(after(program("pipeline"), "split s; reorder d y x; fuse p d.s y.s x.s"), "overlap o s.s p x");
}
TEST(Overlap, O1TwoMembers) {
  refused(program("attention_end"), "overlap o layer", "O1", "two or more");
  refused(program("attention_end"), "overlap o layer nothing", "O1", "nothing");
  refused(after(program("attention_end"), "split s; reorder d y; fuse f s.s d.s y.s y"), "overlap o layer s.s", "O1",
          "already in f", "name f");
}
TEST(Overlap, O2Acyclic) {
  refused(program("adam"), "overlap o m1 w1", "O2", "left out");
  checked(program("adam"), "overlap o m1 u");
}
TEST(Overlap, O3Linked) {
  refused(program("adam"), "overlap o m1 v1", "O3", "independent");
  checked(program("adam"), "overlap o a m1");
}
TEST(Overlap, O4InParts) {
  ir::Program p = ir::parse(
      "program 1 t\ndim B H F\nin x f32[B, H] sliced(0)\nin w f32[H, F] sliced(1)\n"
      "gw = all_gather(w)\nh = matmul(x, gw)\nout h\n");
  refused(p, "overlap o gw h", "O4", "every part of h reads all of gw", "other operand");
  ir::Program q = ir::parse(
      "program 1 t\ndim B H F\nin x f32[B, H] sliced(0)\nin w f32[H, F] replicated\n"
      "gx = all_gather(x)\nh = matmul(gx, w)\nn = sum(gx * gx)\nout h\nout n\n");
  checked(q, "overlap o gx h");
  refused(q, "overlap o gx n", "O4");
}

TEST(Commute, LinearBeforeTheSum) {
  ir::Program p = small("a = all_reduce(sum, x)\ny = 2.0 * a\nout y\n");
  ir::Program q = accepted(p, "commute y");
  EXPECT_EQ(statement(q, "y.p"), "y.p = 2.0 * x");
  EXPECT_EQ(statement(q, "y"), "y = all_reduce(sum, y.p)");
  EXPECT_EQ(ir::find_op(q, "a"), nullptr);
}
TEST(Commute, C1OneSum) {
  refused(small("a = all_reduce(max, x)\ny = 2.0 * a\nout y\n"), "commute y", "C1");
  refused(small("y = 2.0 * r\nout y\n"), "commute y", "C1");
  refused(small("a = all_reduce(sum, x)\nc = all_reduce(sum, x)\ny = a + c\nout y\n"), "commute y", "C1");
  accepted(small("a = all_reduce(avg, x)\ny = 2.0 * a\nout y\n"), "commute y");
}
TEST(Commute, C2Linear) {
  refused(small("a = all_reduce(sum, x)\ny = 2.0 * a + b\nout y\n"), "commute y", "C2", "not linear in a",
          "once per rank");
  refused(small("a = all_reduce(sum, x)\ny = tanh(a)\nout y\n"), "commute y", "C2");
  accepted(small("a = all_reduce(sum, x)\ny = -a / 4.0\nout y\n"), "commute y");
}
TEST(Commute, C3OthersReplicated) {
  accepted(small("a = all_reduce(sum, x)\ny = r * a\nout y\n"), "commute y");
  refused(small("a = all_reduce(sum, x)\ny = a * q\nv = all_gather(y)\nout v\n"), "commute y", "C3", "q is sliced(0)");
}

TEST(Narrow, G1_G2_AppliedAndRefused) {
  ir::Program q = after(program("adam"), "split a; reorder m1 v1 u w1");
  const std::string text = ir::print(accepted(q, "narrow w1 f16"));
  EXPECT_NE(text.find("w1.n.s = f16(w1.s)\nw1.n = all_gather(w1.n.s)\nw1 = f32(w1.n)\n"), std::string::npos) << text;
  EXPECT_EQ(find_rewrite("narrow")->bits(q, {{"w1", "f16"}}), Bits::numerics);
  refused(q, "narrow a.s f16", "G1");
  refused(q, "narrow w1 f64", "G2");
  refused(q, "narrow w1 i8", "G2");
}

TEST(Rewrites, WordsThatMakeNoDirective) {
  for (const std::string sentence : {"split", "split a b", "split a root", "merge", "merge a b", "reorder", "cut m1",
                                     "cut m1 x", "store", "fuse", "overlap", "commute", "narrow w1", "narrow w1 f17"})
    refused(program("adam"), sentence, "F5");
  try {
    apply(program("adam"), "shuffle", {});
    FAIL();
  } catch (const Error& e) { EXPECT_EQ(e.rule(), "F4"); }
}
TEST(Rewrites, ListsAreDoneOneByOneOrNotAtAll) {
  ir::Program q = after(program("adam"), "split a");
  refused(q, "reorder m1 w1", "R3");  // m1 alone would do, w1 needs u
  EXPECT_EQ(ir::print(accepted(q, "reorder m1 v1 u w1")),
            ir::print(after(q, "reorder m1; reorder v1; reorder u; reorder w1")));
}
TEST(Rewrites, NineAreRegistered) {
  std::vector<std::string_view> names;
  for (const Rewrite* rewrite : rewrites()) names.push_back(rewrite->name());
  EXPECT_EQ(names, (std::vector<std::string_view>{"split", "merge", "reorder", "cut", "store", "fuse", "overlap",
                                                  "commute", "narrow"}));
}

Bits bits_of(const ir::Program& p, const std::string& sentence) {
  std::vector<std::string> w = words(sentence);
  return find_rewrite(w[0])->bits(p, Args{{w.begin() + 1, w.end()}});
}
TEST(BitsOf, WhatTheSpecificationSays) {
  ir::Program adam = after(program("adam"), "split a"), lamb = after(program("lamb"), "split a; reorder m1 v1 u");
  EXPECT_EQ(bits_of(program("adam"), "split a"), Bits::order);
  EXPECT_EQ(bits_of(adam, "merge a"), Bits::order);
  EXPECT_EQ(bits_of(adam, "reorder m1 v1 u w1"), Bits::kept);
  EXPECT_EQ(bits_of(lamb, "reorder nu"), Bits::tolerance);
  EXPECT_EQ(bits_of(lamb, "cut nw 0"), Bits::tolerance);
  EXPECT_EQ(bits_of(after(program("sgd_int"), "split a; reorder m1 w1"), "reorder q"), Bits::kept)
      << "integers add exactly";
  EXPECT_EQ(bits_of(small("y = amax(r)\nout y\n"), "cut y 0"), Bits::kept);
  EXPECT_EQ(bits_of(small("y = sum(r, -1)\nout y\n"), "cut y 0"), Bits::kept) << "the fold is not over the cut";
  EXPECT_EQ(bits_of(small("y = sum(r, -1)\nout y\n"), "cut y 1"), Bits::tolerance);
  EXPECT_EQ(bits_of(after(adam, "reorder m1 v1 u w1"), "store m"), Bits::kept);
  EXPECT_EQ(bits_of(adam, "fuse k m1 v1"), Bits::kept);
  EXPECT_EQ(bits_of(small("a = all_reduce(sum, x)\ny = 2.0 * a\nout y\n"), "commute y"), Bits::tolerance);
}

}  // namespace
}  // namespace weft::schedule
