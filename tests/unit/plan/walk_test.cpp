// Walks: what each rank, lane and channel does, and what does not exist for it.
#include "weft/plan/walk.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <numeric>
#include <set>

#include "tests/unit/plan/cases.h"

namespace weft::plan {
namespace {

std::string operand_text(const Instance& in, const FlatOperand& o) {
  const std::string peers =
      o.peer_count == 1 ? fmt::format("{}", o.peer_first) : fmt::format("{}+{}", o.peer_first, o.peer_count);
  if (o.kind == Operand::Kind::constant) return fmt::format("{}", o.value);
  if (o.kind == Operand::Kind::recv) return fmt::format("{}<{}", in.plan().families[o.name].name, peers);
  if (o.kind == Operand::Kind::send) return fmt::format("{}>{}", in.plan().families[o.name].name, peers);
  std::string parts;
  for (int64_t i = 0; i < o.part_count; ++i)
    parts += fmt::format("{}{}", i ? " " : "", part_at(o, i, in.parts(in.buffer_space(o.name))));
  return fmt::format("{}{}{}[{}]", o.accumulate ? "+" : "", in.plan().buffers[o.name].name, o.here ? "" : "@" + peers,
                     parts);
}

std::string step_text(const Instance& in, const FlatStep& s) {
  std::string out = s.label == FlatStep::no_label ? "" : in.label(s.label);
  for (const int64_t i : s.index) out += fmt::format("({})", i);
  out += ":";
  for (size_t i = 0; i < s.operands.size(); ++i) {
    if (i == s.reduced && s.others) out += " ;";
    if (i == size_t{s.reduced} + s.others) out += " ->";
    out += " " + operand_text(in, s.operands[i]);
  }
  for (const FlatAwait& a : s.after)
    out += fmt::format(" after {}.{}@{}+{}{{{}+{}}}-{}", in.plan().lanes[a.lane].name, in.label(a.label), a.peer_first,
                       a.peer_count, a.channel_first, a.channel_count, a.lag);
  return out;
}

// "loop s/2 | step | step || once | ..." of one walk.
std::string walk_text(const Instance& in, int rank, int lane, int channel) {
  std::string out;
  Walk walk(in, rank, lane, channel);
  FlatStep step;
  while (walk.next_block()) {
    out += walk.block().loop ? "loop" : "once";
    for (const uint16_t space : walk.block().spaces) out += " " + in.plan().spaces[space].name;
    if (walk.block().slices > 1) out += fmt::format("/{}", walk.block().slices);
    while (walk.next(step)) out += "\n  " + step_text(in, step);
    out += "\n";
  }
  return out;
}

std::vector<std::string> all_steps(const Instance& in, Walk& walk) {
  std::vector<std::string> steps;
  FlatStep step;
  while (walk.next(step)) steps.push_back(step_text(in, step));
  return steps;
}

TEST(Walk, RingOfThree) {
  const Instance in(cases::load("ring_all_reduce"), 3);
  EXPECT_EQ(walk_text(in, 1, 0, 0),
            "loop s/2\n"
            "  feed: ; x[0] -> main>2\n"
            "  red(2): main<0 x[2] -> main>2\n"
            "  fin: main<0 x[1] -> y[1] main>2\n"
            "  fwd(1): ; main<0 -> y[0] main>2\n"
            "  last: ; main<0 -> y[2]\n");
  EXPECT_EQ(walk_text(in, 1, 0, 0), walk_text(in, 1, 0, 1));
}

TEST(Walk, OneRankKeepsTheStepsThatDoSomething) {
  const Instance in(cases::load("ring_all_reduce"), 1);
  EXPECT_EQ(walk_text(in, 0, 0, 0), "loop s/2\n  feed:\n  fin: x[0] -> y[0]\n  last:\n");
}

TEST(Walk, ChainMiddleEndsAndRoot) {
  const Instance in(cases::load("chain_all_reduce"), 3);
  EXPECT_EQ(walk_text(in, 0, 0, 0), "loop s\n  red: x[0] -> up>1\n");
  EXPECT_EQ(walk_text(in, 1, 0, 0), "loop s\n  red: up<0 x[0] -> up>2\n");
  EXPECT_EQ(walk_text(in, 2, 0, 0), "loop s\n  fin: up<1 x[0] -> y[0] down>1\n");
  EXPECT_EQ(walk_text(in, 2, 1, 0), "");
  EXPECT_EQ(walk_text(in, 0, 1, 1), "loop s\n  fwd: ; down<1 -> y[0]\n");
}

TEST(Walk, RangesOfPeersStayRanges) {
  const Instance in(cases::load("pairwise_two_shot_all_reduce"), 4);
  const std::string text = walk_text(in, 0, 0, 0);
  EXPECT_NE(text.find("fin: x[0] main<1+3 -> y[0] ag>1+3\n"), std::string::npos) << text;
  EXPECT_NE(walk_text(in, 2, 0, 0).find("fin: main<0+2 x[2] main<3 -> y[2] ag>0+2 ag>3\n"), std::string::npos);
}

TEST(Walk, TargetsKeepTheirNumber) {
  const Instance in(cases::load("reduce_scatter_clip_sgd_all_gather"), 4);
  Walk walk(in, 0, 0, 0);
  FlatStep step;
  std::vector<uint16_t> slots;
  while (walk.next_block())
    while (walk.next(step))
      if (step.label != FlatStep::no_label && in.label(step.label) == "upd")
        slots.assign(step.target_slot.begin(), step.target_slot.end());
  EXPECT_EQ(slots, (std::vector<uint16_t>{0, 1, 3}));  // >0..r is empty on rank 0
}

TEST(Walk, AbsentSourcesOrTargetsMakeAnEmptyStep) {
  const Instance in(
      parse("plan 1 p\nlet q = none\nspace s parts n even\nbuffer x s f32 in mapped\nbuffer y s f32 out\nlink main "
            "simple slots 1\nkernel k: a, b -> c\n  c = a + b\nlane main:\n  loop s:\n"
            "    a: <q -> y[0]\n    b: x[0] -> >q\n    d: x@q[0] -> y[0]\n    e: sum(<q, x[0]) -> y[0], >q\n    f: "
            "x@0..0[0], <q -> k -> y[0]\n    g: x[q] -> y[0]\n    h: after a@q, a@0..0, a@0..n\n"),
      3);
  EXPECT_EQ(walk_text(in, 1, 0, 0),
            "loop s\n  a:\n  b:\n  d:\n  e: x[0] -> y[0]\n  f:\n  g:\n  h: after main.a@0+3{0+1}-0\n");
  Walk walk(in, 1, 0, 0);
  FlatStep step;
  walk.next_block();
  for (int i = 0; i < 5; ++i) walk.next(step);
  EXPECT_EQ(step.kernel, FlatStep::no_kernel);
  EXPECT_EQ(step.source_step, 4);
}

TEST(Walk, PeersAndPartsWrap) {
  const Instance in(parse("plan 1 p\nspace s parts 4 even\nbuffer x s f32 in mapped\nbuffer y s f32 out\nlane main:\n  "
                          "x@r-5[r-9] -> y[-1 : 3 by 2]\n  x@r+3[1 : 5 by 4 run 2] -> y[0 : 2]\n"),
                    3);
  EXPECT_EQ(walk_text(in, 1, 0, 0), "once\n  : ; x@2[0] -> y[3 1 3]\n  : ; x[1 2 1 2 1] -> y[0 1]\n");
}

TEST(Walk, BlocksWithoutStepsAreNoBlocks) {
  const char* text =
      "plan 1 p\nspace s parts n even\nbuffer x s f32 in\nbuffer y s f32 out\nlane main:\n  a: x[0] -> y[0]\n  when r "
      "== 0:\n    loop s:\n      b: x[0] -> y[0]\n  c: x[0] -> y[0]\n"
      "  loop s:\n    for j in 1..r:\n      when j == 7:\n        d: x[0] -> y[0]\n  e: x[0] -> y[0]\n";
  const Instance in(parse(text), 3);
  EXPECT_EQ(walk_text(in, 0, 0, 0),
            "once\n  a: ; x[0] -> y[0]\nloop s\n  b: ; x[0] -> y[0]\nonce\n  c: ; x[0] -> y[0]\n  e: ; x[0] -> y[0]\n");
  EXPECT_EQ(walk_text(in, 2, 0, 0), "once\n  a: ; x[0] -> y[0]\n  c: ; x[0] -> y[0]\n  e: ; x[0] -> y[0]\n");
}

TEST(Walk, LoopsInForAreBlocksOfTheirOwn) {
  const Instance in(
      parse("plan 1 p\nspace s parts n even\nbuffer x s f32 in\nlane main:\n  for i in 0..2:\n    a: x[i] -> x[i]\n    "
            "loop s:\n      for j in i..2:\n        b: x[j] -> x[i]\n  z: x[0] -> x[0]\n"),
      4);
  EXPECT_EQ(walk_text(in, 0, 0, 0),
            "once\n  a(0): ; x[0] -> x[0]\nloop s\n  b(0)(0): ; x[0] -> x[0]\n  b(0)(1): ; x[1] -> x[0]\nonce\n  a(1): "
            "; x[1] -> x[1]\nloop s\n  b(1)(1): ; x[1] -> x[1]\nonce\n  z: ; x[0] -> x[0]\n");
}

TEST(Walk, RewindGoesBackToTheBlock) {
  for (const char* name : {"fused_ring_lamb", "two_shot_private", "moe_dispatch_gemm_combine"}) {
    SCOPED_TRACE(name);
    const Instance in(cases::load(name), 4);
    Walk walk(in, 2, 0, 0);
    FlatStep step;
    int ordinal = 0;
    while (walk.next_block()) {
      EXPECT_EQ(walk.block().ordinal, ordinal++);
      const std::vector<std::string> first = all_steps(in, walk);
      EXPECT_FALSE(first.empty());
      walk.rewind_block();
      walk.next(step);
      walk.rewind_block();
      EXPECT_EQ(all_steps(in, walk), first);
      EXPECT_FALSE(walk.next(step));
    }
    EXPECT_FALSE(walk.next_block());
  }
}

TEST(Walk, BlocksMayBeLeftEarly) {
  const Instance in(cases::load("fused_ring_lamb"), 3);
  Walk walk(in, 0, 0, 0);
  FlatStep step;
  EXPECT_FALSE(walk.next(step));  // before the first block
  std::vector<bool> loops;
  while (walk.next_block()) {
    loops.push_back(walk.block().loop);
    ASSERT_TRUE(walk.next(step));
  }
  EXPECT_EQ(loops, (std::vector<bool>{false, true, false, true}));
}

TEST(Walk, TablesLetsAndParameters) {
  const char* text =
      "plan 1 p\nparam k = 2\ntable ring[k][n] = 0 2 1 3 ; 3 1 2 0\nlet a = ring[c][r]\nlet b = a+k\nchannels k\nspace "
      "s parts n even\nbuffer x s f32 in\nlane main:\n  x[a] -> x[b]\n";
  const Instance in(parse(text), 4);
  EXPECT_EQ(walk_text(in, 1, 0, 0), "once\n  : ; x[2] -> x[0]\n");
  EXPECT_EQ(walk_text(in, 3, 0, 1), "once\n  : ; x[0] -> x[2]\n");
  EXPECT_THROW(Instance(parse(text), 5), Error);  // the table is made for four
  EXPECT_THROW(Instance(parse(text), 4, {{"k", "3"}}), Error);
  EXPECT_THROW(Instance(parse(text), 4, {{"m", "3"}}), Error);
  EXPECT_THROW(Instance(parse(text), 4, {{"k", "f32"}}), Error);
}

TEST(Walk, ReductionsAndDtypesByParameter) {
  const Plan plan = parse(
      "plan 1 p\nparam T = f32\nparam op = max\nspace s parts 1 even\nbuffer x s T in mapped\nlink main simple slots 1 "
      "wire T\nlane main:\n  op(x@0..n[0]) -> x[0]\n");
  const Instance in(plan, 2), other(plan, 2, {{"T", "f16"}, {"op", "prod"}});
  FlatStep step;
  Walk walk(in, 0, 0, 0), walk_other(other, 0, 0, 0);
  walk.next_block();
  walk_other.next_block();
  ASSERT_TRUE(walk.next(step));
  EXPECT_EQ(step.reduction, kernel::Reduction::max);
  ASSERT_TRUE(walk_other.next(step));
  EXPECT_EQ(step.reduction, kernel::Reduction::prod);
  EXPECT_EQ(in.dtype(0), Dtype::f32);
  EXPECT_EQ(other.dtype(0), Dtype::f16);
  EXPECT_EQ(*other.wire(0), Dtype::f16);
}

TEST(Instance, RequirementIsTheReason) {
  try {
    Instance in(cases::load("reduce_scatter_send_all_gather"), 3);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::plan);
    EXPECT_NE(std::string(e.what()).find("require n % k == 0"), std::string::npos);
  }
  EXPECT_NO_THROW(Instance(cases::load("reduce_scatter_send_all_gather"), 3, {{"k", "3"}}));
}

TEST(Instance, Facts) {
  const Instance in(cases::load("fused_ring_lamb"), 4);
  EXPECT_EQ(in.ranks(), 4);
  EXPECT_EQ(in.channels(), 2);
  EXPECT_EQ(in.parts(0), 4);
  EXPECT_EQ(in.fixed_count(0), -1);
  EXPECT_EQ(in.fixed_count(1), -1);  // T: the launch says it
  const Instance clip(cases::load("reduce_scatter_clip_sgd_all_gather"), 4);
  EXPECT_EQ(clip.fixed_count(1), 1);
  EXPECT_EQ(in.own_part(find_buffer(in.plan(), "m"), 3), 3);
  EXPECT_EQ(in.own_part(find_buffer(in.plan(), "g"), 3), -1);
  EXPECT_EQ(in.dtype(find_buffer(in.plan(), "qw")), Dtype::f64);
  EXPECT_EQ(*in.wire(0), Dtype::f16);
  EXPECT_FALSE(in.wire(1).has_value());
  const Instance ring(cases::load("ring_all_reduce"), 4);
  EXPECT_EQ(ring.buffer_root(1), 0);
  EXPECT_EQ(ring.label_id("nobody"), -1);
  EXPECT_EQ(ring.label(ring.label_id("fin")), "fin");
  EXPECT_EQ(print(ring.step(0, 2)), "fin: sum(<prev, x[r]) -> y[r], >next");
}

TEST(Instance, OwnThroughLets) {
  const Instance in(parse("plan 1 p\nlet a = sel(r == 1, none, (r+1) % n)\nspace s parts n even\nbuffer x s f32 in own "
                          "a\nbuffer y s f32 in own r+2\nbuffer z s f32 in own 0\nlane main:\n  0 -> x[0]\n"),
                    3);
  EXPECT_EQ(in.own_part(0, 0), 1);
  EXPECT_EQ(in.own_part(0, 2), 0);
  EXPECT_EQ(in.own_part(1, 2), 1);
  EXPECT_EQ(in.own_part(2, 2), 0);
}

// Plans that are built, not read: names that lead nowhere are V1 here.
TEST(Instance, BuiltPlansAreChecked) {
  const Plan good = cases::load("ring_all_reduce");
  const auto refused = [&](const std::function<void(Plan&)>& spoil, const std::string& message) {
    Plan plan = good;
    spoil(plan);
    try {
      Instance in(plan, 2);
      ADD_FAILURE() << "accepted: " << message;
    } catch (const Error& e) {
      EXPECT_EQ(e.rule(), "V1");
      EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
    }
  };
  const auto step = [](Plan& p) -> Step& { return std::get<Step>(std::get<Loop>(p.lanes[0].body[0]).body[0]); };
  refused([&](Plan& p) { step(p).others[0].name = "z"; }, "names buffer z");
  refused([&](Plan& p) { step(p).targets[0].name = "z"; }, "names link z");
  refused([&](Plan& p) { step(p).targets[0].peers.reset(); }, "without a peer");
  refused([&](Plan& p) { step(p).kernel.name = "z"; }, "names kernel z");
  refused([&](Plan& p) { step(p).others[0].parts.first = expr::name("z"); }, "z");
  refused([&](Plan& p) { p.buffers[0].space = "z"; }, "space z");
  refused([&](Plan& p) { p.buffers[0].dtype = "f31"; }, "f31");
  refused([&](Plan& p) { p.buffers[0].alias = "y"; }, "alias");
  refused([&](Plan& p) { p.spaces[0].parts = expr::integer(0); }, "0 parts");
  refused([&](Plan& p) { p.channels = expr::integer(0); }, "0 channels");
  refused([&](Plan& p) { p.families[0].slots = 0; }, "0 slots");
  refused([&](Plan& p) { std::get<Loop>(p.lanes[0].body[0]).body.push_back(Loop{{"s"}, 1, {}}); }, "loop in a loop");
  EXPECT_THROW(Instance(good, 0), Error);
}

// ---- message counts against the formulas of the literature

struct Traffic {
  std::vector<int64_t> sent, received;
};

Traffic messages(const Instance& in, int channel) {
  Traffic t{std::vector<int64_t>(static_cast<size_t>(in.ranks())),
            std::vector<int64_t>(static_cast<size_t>(in.ranks()))};
  FlatStep step;
  for (int rank = 0; rank < in.ranks(); ++rank)
    for (int lane = 0; lane < static_cast<int>(in.plan().lanes.size()); ++lane)
      for (Walk walk(in, rank, lane, channel); walk.next_block();)
        while (walk.next(step))
          for (const FlatOperand& o : step.operands) {
            if (o.kind == Operand::Kind::send) t.sent[static_cast<size_t>(rank)] += o.peer_count;
            if (o.kind == Operand::Kind::recv) t.received[static_cast<size_t>(rank)] += o.peer_count;
          }
  return t;
}

int64_t log2_ceil(int64_t n) {
  int64_t k = 0;
  while ((int64_t{1} << k) < n) ++k;
  return k;
}

TEST(Walk, MessagesPerRank) {
  struct Expected {
    const char* name;
    std::function<int64_t(int64_t n)> each;
  };
  const Expected table[] = {
      {"ring_all_reduce", [](int64_t n) { return 2 * (n - 1); }},
      {"fused_ring_adam", [](int64_t n) { return 2 * (n - 1); }},
      {"pairwise_two_shot_all_reduce", [](int64_t n) { return 2 * (n - 1); }},
      {"pairwise_all_to_all_v", [](int64_t n) { return n - 1; }},
      {"mesh_one_shot_all_reduce", [](int64_t n) { return n - 1; }},
      {"matmul_reduce_scatter", [](int64_t n) { return n - 1; }},
      {"all_gather_matmul", [](int64_t n) { return n - 1; }},
      {"pat_all_gather", log2_ceil},
      {"bruck_all_to_all", log2_ceil},
      {"barrier_dissemination", log2_ceil},
      {"one_shot_symmetric", [](int64_t) { return 0; }},
      {"two_shot_private", [](int64_t) { return 0; }},
  };
  for (const Expected& e : table)
    for (int n = 1; n <= 9; ++n) {
      SCOPED_TRACE(fmt::format("{} n={}", e.name, n));
      const Instance in(cases::load(e.name), n);
      for (int channel = 0; channel < in.channels(); ++channel) {
        const Traffic t = messages(in, channel);
        EXPECT_EQ(t.sent, std::vector<int64_t>(static_cast<size_t>(n), e.each(n)));
        EXPECT_EQ(t.received, t.sent);
      }
    }
}

TEST(Walk, TreesSendAlongEachEdgeTwice) {
  for (int n = 1; n <= 17; ++n)
    for (const char* name : {"double_tree_all_reduce", "chain_all_reduce"}) {
      const Instance in(cases::load(name), n);
      for (int channel = 0; channel < 2; ++channel) {
        const Traffic t = messages(in, channel);
        EXPECT_EQ(std::accumulate(t.sent.begin(), t.sent.end(), int64_t{0}), 2 * (n - 1)) << name << " " << n;
        EXPECT_EQ(t.sent, t.received);
      }
    }
}

// Each send of p to q has its receive, in the same channel, for every plan and every admitted n.
TEST(Walk, SendsMeetReceives) {
  for (const std::string& name : cases::names())
    for (int n = 1; n <= 8; ++n) {
      SCOPED_TRACE(fmt::format("{} n={}", name, n));
      std::unique_ptr<Instance> in;
      try {
        in = std::make_unique<Instance>(cases::load(name), n);
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("require"), std::string::npos);
        continue;
      }
      for (int channel = 0; channel < in->channels(); ++channel) {
        std::map<std::array<int, 3>, int64_t> open;
        FlatStep step;
        for (int rank = 0; rank < n; ++rank)
          for (int lane = 0; lane < static_cast<int>(in->plan().lanes.size()); ++lane)
            for (Walk walk(*in, rank, lane, channel); walk.next_block();)
              while (walk.next(step))
                for (const FlatOperand& o : step.operands)
                  for (int i = 0; i < o.peer_count; ++i) {
                    const int peer = (o.peer_first + i) % n;
                    EXPECT_TRUE(o.kind == Operand::Kind::slice || o.kind == Operand::Kind::constant || peer != rank);
                    if (o.kind == Operand::Kind::send) ++open[{o.name, rank, peer}];
                    if (o.kind == Operand::Kind::recv) --open[{o.name, peer, rank}];
                  }
        for (const auto& [link, count] : open) EXPECT_EQ(count, 0) << link[1] << " -> " << link[2];
      }
    }
}

TEST(Walk, BruckMovesEachBlockOncePerSetBit) {
  for (int n : {2, 3, 5, 8, 13}) {
    const Instance in(cases::load("bruck_all_to_all"), n);
    Walk walk(in, 1, 0, 0);
    FlatStep step;
    int64_t moved = 0, bits = 0;
    while (walk.next_block())
      while (walk.next(step)) {
        if (step.targets != 1 || step.operands.back().kind != Operand::Kind::send) continue;
        std::set<int64_t> parts;
        for (int64_t i = 0; i < step.operands[0].part_count; ++i) parts.insert(part_at(step.operands[0], i, n));
        EXPECT_EQ(static_cast<int64_t>(parts.size()), step.operands[0].part_count);
        for (const int64_t p : parts) EXPECT_TRUE(p >> step.index[0] & 1) << p;
        moved += step.operands[0].part_count;
      }
    for (int64_t i = 0; i < n; ++i) bits += __builtin_popcountll(static_cast<uint64_t>(i));
    EXPECT_EQ(moved, bits);
  }
}

TEST(Walk, IsFast) {
  const Instance in(cases::load("ring_all_reduce"), 512);
  FlatStep step;
  double best = 1e9;
  for (int attempt = 0; attempt < 5; ++attempt) {
    int64_t steps = 0;
    const int64_t begin = now_ns();
    for (int rank = 0; rank < 512; ++rank)
      for (Walk walk(in, rank, 0, 0); walk.next_block();)
        while (walk.next(step)) ++steps;
    best = std::min(best, static_cast<double>(now_ns() - begin) / static_cast<double>(steps));
  }
  RecordProperty("ns_per_step", fmt::format("{:.1f}", best));
  std::printf("walk: %.1f ns a step\n", best);
  EXPECT_LT(best, 2000);  // sanitizers and loaded machines included
}

}  // namespace
}  // namespace weft::plan
