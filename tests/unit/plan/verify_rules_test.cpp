// Every rule of the verifier, V1 to V16: a plan that keeps it and one that breaks it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/unit/plan/cases.h"
#include "weft/plan/verify.h"

namespace weft::plan {
namespace {

Verdict judge(const std::string& text, VerifyOptions options = {}) {
  options.cache = false;
  return verify(parse(text), options);
}

void accepts(const std::string& text, const VerifyOptions& options = {}) {
  const Verdict verdict = judge(text, options);
  for (const Finding& finding : verdict.findings) ADD_FAILURE() << print(finding) << "\n" << text;
  EXPECT_GT(verdict.steps, 0);
}

// What the parser sees already (V1) is rejected there.
void rejects(const std::string& text, const std::string& rule, const std::string& message,
             const VerifyOptions& options = {}) {
  Verdict verdict;
  try {
    verdict = judge(text, options);
  } catch (const Error& error) {
    EXPECT_EQ(rule, "V1") << error.what();
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    return;
  }
  ASSERT_FALSE(verdict.ok()) << "accepted, expected " << rule << "\n" << text;
  bool found = false;
  std::string all;
  for (const Finding& finding : verdict.findings) {
    found |= finding.rule == rule && print(finding).find(message) != std::string::npos;
    all += print(finding) + "\n";
  }
  EXPECT_TRUE(found) << "expected " << rule << " with \"" << message << "\", got\n" << all << text;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// A plan of one lane: declarations, then its body (indented by two).
std::string plan_of(const std::string& declarations, const std::string& body,
                    const std::string& head = "order rank\nround once\n") {
  return "plan 1 test\n" + head + declarations + "lane main:\n" + body;
}

const std::string copy_space = "space s parts n even\n";
const std::string copy_buffers = "buffer x s f32 in\nbuffer y s f32 out\n";
const std::string copy_post = "post y[p] = x[p]\n";
std::string copy_plan(const std::string& body) {
  return plan_of("channels 1\n" + copy_space + copy_buffers + copy_post, body);
}
const std::string copy_body = "  loop s:\n    x[0 : n] -> y[0 : n]\n";

// ---- V1 form
TEST(VerifyV1, AcceptsKernelsThatFit) {
  accepts(plan_of(
      "channels 1\n" + copy_space + copy_buffers + "post y[p] = twice(f)(x[p])\nkernel twice(f): x -> y\n  y = f * x\n",
      "  loop s:\n    x[0 : n] -> twice(f) -> y[0 : n]\n"));
}
TEST(VerifyV1, RejectsTwoValuesWithoutAKernel) {
  rejects(copy_plan("  loop s:\n    x[0 : n], x[0 : n] -> y[0 : n]\n"), "V1", "no kernel");
}
TEST(VerifyV1, RejectsAKernelWithTooFewValues) {
  rejects(plan_of("channels 1\n" + copy_space + copy_buffers + copy_post + "kernel add: a, b -> y\n  y = a + b\n",
                  "  loop s:\n    x[0 : n] -> add -> y[0 : n]\n"),
          "V1", "takes 2 values");
}
TEST(VerifyV1, RejectsMixedDtypes) {
  rejects(plan_of("channels 1\n" + copy_space + copy_buffers + "buffer h s f16 in\n" + copy_post +
                      "kernel add: a, b -> y\n  y = a + b\n",
                  "  loop s:\n    x[0 : n], h[0 : n] -> add -> y[0 : n]\n"),
          "V1", "meet");
}
TEST(VerifyV1, TakesAsManyChannelsAsALaunchHas) {
  const auto plan = [](int channels) {
    return plan_of(fmt::format("channels {}\n", channels) + copy_space + copy_buffers + copy_post, copy_body);
  };
  VerifyOptions options;
  options.ranks = {2};
  accepts(plan(64), options);
  rejects(plan(65), "V1", "65 channels", options);
}
TEST(VerifyV1, RejectsMoreOutputsThanTargets) {
  rejects(
      plan_of("channels 1\n" + copy_space + copy_buffers + copy_post + "kernel two: a -> y, z\n  y = a\n  z = a + 1\n",
              "  loop s:\n    x[0 : n] -> two -> y[0 : n]\n"),
      "V1", "2 values");
}
TEST(VerifyV1, RejectsAPostOfAResult) {
  rejects(with(copy_plan(copy_body), "post y[p] = x[p]", "post y[p] = y[p]"), "V1", "neither an input nor a state");
}

// ---- V2 extents
TEST(VerifyV2, AcceptsOtherPartsOfEqualSpaces) {
  accepts(plan_of("channels 2\nspace s parts n equal\n" + copy_buffers + "post y[p] = x[p+1]\n",
                  "  loop s:\n    for j in 0..n:\n      x[j+1] -> y[j]\n"));
}
TEST(VerifyV2, RejectsOtherPartsOfEvenSpaces) {
  rejects(plan_of("channels 2\n" + copy_space + copy_buffers + "post y[p] = x[p+1]\n",
                  "  loop s:\n    for j in 0..n:\n      x[j+1] -> y[j]\n"),
          "V2", "same sizes");
}
TEST(VerifyV2, RejectsLinksWithoutASlice) {
  rejects(plan_of("channels 1\nlet next = sel(n > 1, (r+1) % n, none)\nlet prev = sel(n > 1, (r+n-1) % n, none)\n" +
                      copy_space + copy_buffers + "link main simple slots 4\n" + copy_post,
                  "  loop s:\n    x[0 : n] -> y[0 : n]\n    when n > 1:\n      x[r] -> >next\n      <prev -> >next\n   "
                  "   <prev -> y[r]\n"),
          "V2", "no extent");
}
TEST(VerifyV2, RejectsASpaceThatDoesNotMeetTheLoop) {
  rejects(plan_of("channels 1\n" + copy_space + "space k parts 1 fixed 3\n" + copy_buffers + "buffer w k f32 in\n" +
                      copy_post + "kernel add: a, b -> y\n  y = a + b\n",
                  "  loop s:\n    x[0 : n], w[0] -> add -> y[0 : n]\n"),
          "V2", "does not meet");
}
// Three elements have no rows of another space to meet: all but the first would be passed over. One element meets each row
// alike, wherever it stands, and the rows lead.
TEST(VerifyV2, RejectsRowsThatMeetOtherElements) {
  const auto text = [](const std::string& elements) {
    return plan_of("channels 1\n" + copy_space + "space t parts 1 fixed R of s by row\nspace k parts 1 fixed " +
                       elements + "\nspace one parts 1 fixed\n" + copy_buffers +
                       "buffer v k f32 in\nbuffer w t f32 in\nbuffer z one f32 out\n" + copy_post +
                       "post z[p] = dot(v[0], w[0])\nkernel dot: a, b -> y\n  y = sum(a * b)\n",
                   "  loop s:\n    x[0 : n] -> y[0 : n]\n  0 -> z[0]\n  v[0], w[0] -> dot -> +z[0]\n");
  };
  rejects(text("3"), "V2", "does not meet");
  accepts(text("1"));
}
TEST(VerifyV2, RejectsADepthOutsideLoops) {
  rejects(plan_of("channels 1\n" + copy_space + copy_buffers + "buffer t s f32 scratch depth 2\n" + copy_post,
                  "  x[0] -> t[0]\n  loop s:\n    x[0 : n] -> y[0 : n]\n"),
          "V2", "in no loop");
}

// ---- V3 peers
TEST(VerifyV3, AcceptsMappedPeers) { accepts(cases::text("one_shot_symmetric")); }
TEST(VerifyV3, RejectsPeersThatAreNotMapped) {
  rejects(with(cases::text("one_shot_symmetric"), "in mapped", "in"), "V3", "not mapped");
}
TEST(VerifyV3, RejectsAMachineThatCannotMap) {
  VerifyOptions options;
  options.mappable = [](int a, int b) { return a / 2 == b / 2; };
  rejects(cases::text("one_shot_symmetric"), "V3", "cannot map", options);
}
TEST(VerifyV3, RejectsALinkToOneself) {
  rejects(with(cases::text("ring_all_reduce"), "let next = sel(n > 1, (r+1) % n, none)", "let next = (r+1) % n"), "V3",
          "to itself");
}

// ---- V4 ends
const std::string two_lanes = R"(plan 1 two_lanes
order rank
round once
let to = sel(n > 1, (r+1) % n, none)
let from = sel(n > 1, (r+n-1) % n, none)
channels 1
space s parts n equal
buffer x s f32 in
buffer y s f32 out
buffer z s f32 out
link a simple slots 2
link b simple slots 2
post y[p] = x@sel(n > 1, (r+n-1) % n, none)[p]
post z[p] = x@sel(n > 1, (r+n-1) % n, none)[p]
lane one:
  loop s:
    x[0 : n] -> a>to
    a<from -> y[0 : n]
lane two:
  loop s:
    x[0 : n] -> b>to
    b<from -> z[0 : n]
)";
TEST(VerifyV4, AcceptsAFamilyPerLane) { accepts(two_lanes); }
TEST(VerifyV4, RejectsALinkEndOfTwoLanes) {
  rejects(with(with(two_lanes, "x[0 : n] -> b>to", "x[0 : n] -> a>to"), "b<from", "a<from"), "V4", "also used by lane");
}

// ---- V5 roles
TEST(VerifyV5, AcceptsAnAliasOfTheInput) { accepts(cases::text("ring_all_reduce")); }
TEST(VerifyV5, RejectsWritingAnInput) {
  rejects(copy_plan("  loop s:\n    x[0 : n] -> y[0 : n]\n    y[0 : n] -> x[0 : n]\n"), "V5", "writes the input x");
}
TEST(VerifyV5, RejectsAPartThatIsNotOwned) {
  rejects(with(cases::text("fused_ring_adam"), "state own r", "state own r+1"), "V5", "does not exist on rank");
}
TEST(VerifyV5, RejectsAnAliasOfAnotherSize) {
  rejects(
      plan_of("channels 1\n" + copy_space + "buffer x s f16 in\nbuffer y s f32 out alias x\n" + copy_post, copy_body),
      "V5", "cannot lie where");
}

// ---- V6 awaits
TEST(VerifyV6, AcceptsAwaitsOfSteps) { accepts(cases::text("matmul_ring_all_reduce")); }
TEST(VerifyV6, RejectsAnIndexThatDoesNotExist) {
  rejects(with(cases::text("matmul_ring_all_reduce"), "after mm.tile(1)", "after mm.tile(n+1)"), "V6",
          "does not exist there");
}
TEST(VerifyV6, RejectsALagOutsideLoops) {
  rejects(with(cases::text("one_shot_symmetric"), "done: after fin@0..n", "done: after fin@0..n lag 1"), "V6",
          "a lag counts chunks");
}

// ---- V7 messages
TEST(VerifyV7, AcceptsMatchingMessages) { accepts(cases::text("pairwise_two_shot_all_reduce")); }
TEST(VerifyV7, RejectsAMessageOfAnotherPart) {
  rejects(with(cases::text("ring_all_reduce"), "feed: x[r-1]", "feed: x[r-2]"), "V7", "other sizes");
}
TEST(VerifyV7, RejectsAMessageThatNobodyReceives) {
  rejects(plan_of("channels 1\nlet next = sel(n > 1, (r+1) % n, none)\n" + copy_space + copy_buffers +
                      "link main simple slots 64\n" + copy_post,
                  "  loop s:\n    x[0 : n] -> y[0 : n], >next\n"),
          "V7", "never received");
}
TEST(VerifyV7, RejectsAMessageOfAnotherIteration) {
  rejects(plan_of("channels 1\nlet next = sel(n > 1, (r+1) % n, none)\nlet prev = sel(n > 1, (r+n-1) % n, none)\nspace "
                  "s parts n equal\nspace t parts n equal\n"
                  "buffer x s f32 in\nbuffer y t f32 out\nlink main simple slots 64\npost y[p] = x[p]\n",
                  "  loop s:\n    x[0 : n] -> >next\n  loop t:\n    <prev -> y[0 : n]\n"),
          "V7", "of a loop over another space", {.ranks = {2}});
}

// ---- V8 progress
TEST(VerifyV8, AcceptsMoreSlotsThanSlices) { accepts(cases::text("ring_all_reduce")); }
TEST(VerifyV8, RejectsAsManySlotsAsSlices) {
  rejects(with(cases::text("ring_all_reduce"), "slots 4", "slots 2"), "V8", "wait for each other");
}
TEST(VerifyV8, RejectsSendsInOneLoopAndReceivesInTheNext) {
  rejects(with(cases::text("mesh_one_shot_all_reduce"), "    fin:", "  loop s:\n    fin:"), "V8", "");
}
TEST(VerifyV8, RejectsStagesWhateverTheSlots) {  // passes with few chunks, would hang with many: rule (b)
  rejects(with(with(cases::text("mesh_one_shot_all_reduce"), "    fin:", "  loop s:\n    fin:"), "slots 4", "slots 64"),
          "V8", "wait for each other's ends in a circle");
}
TEST(VerifyV8, NamesWhoWaitsForWhom) {
  const Verdict verdict = judge(with(cases::text("ring_all_reduce"), "slots 4", "slots 2"));
  ASSERT_FALSE(verdict.ok());
  const std::string text = print(verdict.findings[0]);
  for (const char* piece : {"rank ", "lane main", "channel ", "waits for a free slot of its link main"})
    EXPECT_NE(text.find(piece), std::string::npos) << text;
}

// ---- V9 order
TEST(VerifyV9, AcceptsOneShotWithReadyAndDone) { accepts(cases::text("one_shot_symmetric")); }
TEST(VerifyV9, RejectsAUserWhoMayOverwriteTooEarly) {
  rejects(with(cases::text("one_shot_symmetric"), "  done: after fin@0..n\n", ""), "V9", "user of rank");
}
TEST(VerifyV9, RejectsReadingBeforeAPeerIsReady) {
  rejects(with(cases::text("one_shot_symmetric"), " after ready@0..n", ""), "V9", "");
}
TEST(VerifyV9, RejectsAStepInEveryChannel) {
  rejects(plan_of("channels 2\nspace k parts 2 fixed\nbuffer x k f32 in\nbuffer y k f32 out\npost y[p] = x[p]\n",
                  "  x[0 : 2] -> y[0 : 2]\n"),
          "V9", "when c == 0");
}
TEST(VerifyV9, RejectsScratchReusedTooEarly) {
  rejects(with(cases::text("matmul_reduce_scatter"), "main.fin lag 2", "main.fin lag 3"), "V9", "");
}

// ---- V10 defined
TEST(VerifyV10, AcceptsWritingFirst) { accepts(cases::text("fused_ring_lamb")); }
TEST(VerifyV10, RejectsReadingWhatNobodyWrote) {
  rejects(plan_of("channels 1\n" + copy_space + copy_buffers + "buffer t s f32 scratch\n" + copy_post,
                  "  loop s:\n    t[0 : n] -> y[0 : n]\n"),
          "V10", "never written");
}
TEST(VerifyV10, RejectsWhatAnEarlierLaunchLeft) {
  rejects(plan_of("channels 1\n" + copy_space + copy_buffers + "buffer t s f32 scratch\n" + copy_post,
                  "  loop s:\n    x[0 : n] -> y[0 : n]\n    when r > n:\n      t[0] -> y[0]\n    t[0 : n] -> y[0 : "
                  "n]\n    x[0 : n] -> t[0 : n]\n"),
          "V10", "");
}
TEST(VerifyV10, RejectsAccumulatingIntoNothing) {
  rejects(with(cases::text("reduce_scatter_clip_sgd_all_gather"), "  zero: 0 -> q[c]\n", ""), "V10",
          "no value in this launch");
}

// ---- V11 result
TEST(VerifyV11, AcceptsEachContributionOnce) {
  accepts(cases::text("hierarchical_all_reduce"), {.params = {{"g", "2"}}});
}
TEST(VerifyV11, RejectsAContributionTwice) {
  rejects(
      with(cases::text("pairwise_two_shot_all_reduce"), "sum(<0..r, x[r], <r+1..n)", "sum(<0..r, x[r], x[r], <r+1..n)"),
      "V11", "post says");
}
TEST(VerifyV11, RejectsAKernelLeftOut) {
  rejects(with(cases::text("reduce_scatter_send_all_gather"), " -> act -> ", " -> "), "V11", "relu");
}
TEST(VerifyV11, RejectsAResultThatIsNeverWritten) {
  rejects(copy_plan("  loop s:\n    when r == 0:\n      x[0 : n] -> y[0 : n]\n"), "V11", "never written");
}
TEST(VerifyV11, RejectsAResultWithoutAPost) {
  rejects(with(copy_plan(copy_body), "post y[p] = x[p]\n", ""), "V11", "no post says");
}
TEST(VerifyV11, RejectsAStateThatChangesWithoutAPost) {
  rejects(with(cases::text("fused_ring_adam"), "post m[k], v[k], w[k], p[k]", "post g[k], v[k], w[k], p[k]"), "V11",
          "cell m@");
}
TEST(VerifyV11, FusedAndUnfusedKernelsAreOneTerm) {
  const std::string declarations = "channels 1\n" + copy_space + copy_buffers +
                                   "buffer t s f32 scratch\npost y[p] = both(a)(x[p])\n"
                                   "kernel both(a): x -> y\n  t = a * x + 1\n  y = sqrt(t) / x\nkernel first(a): x -> "
                                   "t\n  t = a * x + 1\nkernel second: t, x -> y\n  y = sqrt(t) / x\n";
  accepts(plan_of(declarations,
                  "  loop s:\n    x[0 : n] -> first(a) -> t[0 : n]\n    t[0 : n], x[0 : n] -> second -> y[0 : n]\n"));
  rejects(
      with(plan_of(declarations,
                   "  loop s:\n    x[0 : n] -> first(a) -> t[0 : n]\n    t[0 : n], x[0 : n] -> second -> y[0 : n]\n"),
           "buffer t s f32", "buffer t s f16"),
      "V1", "meet");
}

// ---- V12 numbers
TEST(VerifyV12, AcceptsAChainInRankOrder) { accepts(cases::text("chain_all_reduce")); }
TEST(VerifyV12, RejectsARingThatClaimsRankOrder) {
  rejects(with(with(cases::text("ring_all_reduce"), "order any", "order rank"), "round hops", "round once"), "V12",
          "the order is another one");
}
TEST(VerifyV12, RejectsARingThatClaimsOneTree) {
  rejects(with(cases::text("ring_all_reduce"), "order any", "order fixed"), "V12", "another order than");
}
TEST(VerifyV12, AcceptsAChainThatClaimsOneTree) {
  accepts(with(cases::text("chain_all_reduce"), "order rank", "order fixed"));
}
TEST(VerifyV12, AcceptsNarrowHops) { accepts(with(cases::text("ring_all_reduce"), "slots 4", "slots 4 wire f16")); }
TEST(VerifyV12, RejectsNarrowHopsThatPromiseOneRounding) {
  rejects(with(with(cases::text("ring_all_reduce"), "slots 4", "slots 4 wire f16"), "round hops", "round once"), "V12",
          "rounded on the way");
}
TEST(VerifyV12, RejectsRanksWithOtherBits) {  // every rank adds up from itself on
  const std::string own = with(with(cases::text("mesh_one_shot_all_reduce"), "order rank", "order any"),
                               "sum(<0..r, x[0], <r+1..n)", "sum(x[0], <0..r, <r+1..n)");
  rejects(own, "V12", "differs in its bits");
  rejects(with(own, "channels", "require n >= 3\nchannels"), "V12", "differs in its bits");
}
TEST(VerifyV12, AcceptsTwoRanksThatAddInTheirOwnOrder) {  // a + b is b + a
  accepts(with(with(with(cases::text("mesh_one_shot_all_reduce"), "order rank", "order any"),
                    "sum(<0..r, x[0], <r+1..n)", "sum(x[0], <0..r, <r+1..n)"),
               "channels", "require n <= 2\nchannels"));
}

// ---- V13 agreement
const std::string given_plan = R"(plan 1 given_counts
order rank
round once
channels 1
space a parts n given
buffer x a f32 in mapped
buffer y a f32 out
buffer z a f32 out
post y[p] = x[p]
post z[p] = x[p]
lane one:
  loop a:
    own: x[0 : n] -> y[0 : n]
lane two:
  loop a:
    wait: x[0 : n] -> z[0 : n] after one.own
)";
TEST(VerifyV13, AcceptsAwaitsOfOnesOwnCounts) { accepts(given_plan); }
TEST(VerifyV13, RejectsChunksOfAPeersCounts) {
  rejects(with(given_plan, "after one.own", "after one.own@0..n"), "V13", "do not agree");
}

// ---- V14 resources
TEST(VerifyV14, AcceptsSmallMessagesOutsideLoops) { accepts(cases::text("barrier_dissemination")); }
TEST(VerifyV14, RejectsAMessageOfUnknownSize) {
  rejects(plan_of("channels 1\nlet next = sel(n > 1, (r+1) % n, none)\nlet prev = sel(n > 1, (r+n-1) % n, none)\n" +
                      copy_space + copy_buffers + "link main simple slots 4\npost y[p] = x[p]\n",
                  "  x[r] -> >next\n  <prev -> y[r-1]\n"),
          "V14", "however large", {.ranks = {2}});
}
TEST(VerifyV14, RejectsALinkWithTooManySlots) {
  rejects(with(cases::text("ring_all_reduce"), "slots 4", "slots 100000"), "V14", "slots");
}

// Texts that nobody could run, or lay out, are refused at once and not looked at to their end.
TEST(VerifyV14, RejectsHugeCountsAtOnce) {
  const auto begin = now_ns();
  rejects(copy_plan("  for j in 2..99999999999:\n    x[j] -> y[j]\n"), "V14", "more than 1048576 steps");
  rejects(copy_plan("  loop s:\n    for j in 2..99999999999:\n      x[j] -> y[j]\n"), "V14", "more than 1048576 steps");
  rejects(copy_plan("  for j in 2..99999999999:\n    when j < 0:\n      x[j] -> y[j]\n"), "V14",
          "turn more than 16777216");
  rejects(copy_plan("  for j in 0..1000000:\n    for k in 0..1000000:\n      when j < 0:\n        x[j] -> y[k]\n"),
          "V14", "turn more than 16777216");
  rejects(copy_plan("  loop s:\n    x[0 : 99999999999] -> y[0 : 99999999999]\n"), "V14", "names 99999999999 parts");
  rejects(copy_plan("  loop s:\n    x@0..99999999999[0] -> y[0]\n"), "V14", "names 99999999999 peers");
  EXPECT_LT(now_ns() - begin, 60'000'000'000) << "it was looked at to its end";
}

// ---- V15 cover
TEST(VerifyV15, AcceptsStepsThatRunOnLaterRanks) {
  accepts(cases::text("hierarchical_all_reduce"));
}  // some need n = 12
TEST(VerifyV15, AcceptsStepsThatRunForOtherParameters) { accepts(cases::text("reduce_scatter_send_all_gather")); }
TEST(VerifyV15, RejectsAStepThatNeverRuns) {
  rejects(copy_plan(copy_body + "    when n > 1000:\n      never: x[1] -> y[2]\n"), "V15", "step never");
}
TEST(VerifyV15, DoesNotAskForItWhereRanksAreNamed) {
  VerifyOptions options;
  options.ranks = {2};
  accepts(cases::text("ring_all_reduce"), options);
}

// ---- V16 grain
const std::string blocks = R"(plan 1 blocks
order rank
round once
channels 1
space s parts n even grain 16
space b parts n even of s by block 16
buffer x s f32 in
buffer q b f64 scratch
buffer y s f32 out
post y[p] = x[p]
lane main:
  loop s b:
    zero: 0 -> q[0 : n]
    fold: x[0 : n] -> +q[0 : n]
    copy: x[0 : n] -> y[0 : n]
)";
TEST(VerifyV16, AcceptsBlocksOfTheGrain) { accepts(blocks); }
TEST(VerifyV16, RejectsBlocksThatAreCut) { rejects(with(blocks, "grain 16", "grain 24"), "V16", "could be cut"); }

// ---- findings, caches
// The suites above are named after the rules: each has a test of acceptance and one of rejection.
TEST(Verify, EveryRuleHasAnAcceptingAndARejectingTest) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int rule = 1; rule <= 16; ++rule) {
    int accepts = 0, rejects = 0;
    for (int s = 0; s < all.total_test_suite_count(); ++s) {
      const testing::TestSuite& suite = *all.GetTestSuite(s);
      if (suite.name() != fmt::format("VerifyV{}", rule)) continue;
      for (int t = 0; t < suite.total_test_count(); ++t) {
        const std::string name = suite.GetTestInfo(t)->name();
        accepts += name.starts_with("Accepts");
        rejects += name.starts_with("Rejects");
      }
    }
    EXPECT_GT(accepts, 0) << "nothing shows what V" << rule << " accepts";
    EXPECT_GT(rejects, 0) << "nothing shows what V" << rule << " rejects";
  }
}

TEST(Verify, FindingsNamePlaceAndRemedy) {
  const Verdict verdict = judge(with(cases::text("one_shot_symmetric"), " after ready@0..n", ""));
  ASSERT_FALSE(verdict.ok());
  const Finding& f = verdict.findings[0];
  EXPECT_GE(f.rank, 0);
  EXPECT_NE(f.message.find("Remedy"), std::string::npos);
}

TEST(Verify, StopsAtMaxFindings) {
  VerifyOptions options;
  options.max_findings = 1;
  EXPECT_EQ(judge(with(cases::text("ring_all_reduce"), "feed: x[r-1]", "feed: x[r-2]"), options).findings.size(), 1u);
}

TEST(Verify, RequireThrowsTheFirstRule) {
  VerifyOptions options;
  options.cache = false;
  try {
    require_verified(parse(with(cases::text("ring_all_reduce"), "slots 4", "slots 2")), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::plan);
    EXPECT_EQ(error.rule(), "V8");
  }
}

TEST(Verify, UnmetRequireIsAFinding) {
  VerifyOptions options;
  options.ranks = {3};
  EXPECT_FALSE(judge(cases::text("hierarchical_all_reduce"), options).ok());
}

class VerdictCache : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("weft-verdicts-{}", ::getpid());
    std::filesystem::create_directories(folder_);
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    ::setenv("WEFT_CACHE_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    ::unsetenv("WEFT_CACHE_DIR");
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> list;
    if (std::filesystem::exists(folder_ / "verdicts"))
      for (const auto& entry : std::filesystem::directory_iterator(folder_ / "verdicts")) list.push_back(entry.path());
    return list;
  }
  std::filesystem::path folder_;
};

TEST_F(VerdictCache, KeepsAcceptancesOnly) {
  const Plan good = cases::load("mesh_one_shot_all_reduce");
  const Verdict first = verify(good);
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(files().size(), 1u);
  const Verdict again = verify(good);
  EXPECT_EQ(again.steps, first.steps);
  EXPECT_EQ(again.ranks, first.ranks);
  EXPECT_FALSE(verify(parse(with(cases::text("mesh_one_shot_all_reduce"), "x[0], <r+1..n", "<r+1..n"))).ok());
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(VerdictCache, IgnoresDamagedFiles) {
  const Plan good = cases::load("mesh_one_shot_all_reduce");
  const Verdict first = verify(good);
  ASSERT_EQ(files().size(), 1u);
  for (const std::string& damage : {std::string(), std::string("weft verdict 1\nsteps 7\nranks 1\ncheck 0\n"),
                                    read_file(files()[0]).substr(0, 20)}) {
    write_file(files()[0], damage);
    EXPECT_EQ(verify(good).steps, first.steps);
  }
  std::string text = read_file(files()[0]);
  text.replace(text.find("steps ") + 6, 1, "9");
  write_file(files()[0], text);
  EXPECT_EQ(verify(good).steps, first.steps);
}

// ---- all cases
TEST(Verify, AcceptsAllCases) {
  for (const std::string& name : cases::names()) {
    SCOPED_TRACE(name);
    accepts(cases::text(name));
  }
}

}  // namespace
}  // namespace weft::plan
