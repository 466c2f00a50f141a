// What schedules are lowered to: the text of a few plans, and the decisions behind it.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/support/source_dir.h"
#include "tests/unit/lower/support.h"
#include "weft/base/error.h"

namespace weft::lower {
namespace {

Lowered lower_fused(const std::string& example, const std::string& launch, bool mapped) {
  const schedule::Schedule fused = fused_schedule(example, launch);
  LowerOptions options;
  options.mapped = mapped;
  return lower(schedule::replay(ir::parse(read_example(example)), fused), fused.launches, options);
}

// tests/cases/lower/NAME.plan; UPDATE_GOLDEN=1 writes it.
void golden(const std::string& name, const plan::Plan& plan) {
  const std::string path = checkout_dir() + "/tests/cases/lower/" + name + ".plan";
  const std::string text = plan::print(plan);
  if (const char* update = std::getenv("UPDATE_GOLDEN"); update && std::string(update) == "1")
    std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream want;
  want << file.rdbuf();
  EXPECT_EQ(text, want.str()) << path << "; UPDATE_GOLDEN=1 writes it anew";
}

void verified(const plan::Plan& plan, std::vector<int> ranks = {1, 2, 3}) {
  plan::VerifyOptions options;
  options.ranks = std::move(ranks);
  const plan::Verdict verdict = plan::verify(plan, options);
  for (const plan::Finding& finding : verdict.findings) ADD_FAILURE() << plan.name << ": " << plan::print(finding);
}

TEST(Lower, FusedAdamIsOnePassOverMappedMemory) {
  const Lowered lowered = lower_fused("adam", "", true);
  golden("fused_adam_direct", lowered.plan);
  verified(lowered.plan);
  const std::string text = plan::print(lowered.plan);
  EXPECT_NE(
      text.find(
          "fin: sum(g@0..n[r]), m[r], v[r], w[r] -> k_m1_s(lr, step) -> m[r], v[r], w[r], w1@0..n[r] after ready@0..n"),
      std::string::npos)
      << text;
  EXPECT_EQ(lowered.plan.buffers.size(), 5u) << "g, m, v, w, w1 and nothing else";
}

TEST(Lower, FusedAdamOverARing) {
  const Lowered lowered = lower_fused("adam", "launch f ring simple channels 2 order any round hops\n", false);
  golden("fused_adam_ring", lowered.plan);
  verified(lowered.plan);
}

TEST(Lower, FusedLamb) {
  const Lowered direct = lower_fused("lamb", "launch f direct simple channels 2\n", true);
  golden("fused_lamb_direct", direct.plan);
  verified(direct.plan, {1, 2});
  const Lowered ring = lower_fused("lamb", "launch f ring simple channels 2 order any round hops\n", false);
  golden("fused_lamb_ring", ring.plan);
  verified(ring.plan, {1, 2});
}

TEST(Lower, AttentionEnd) {
  const Lowered lowered = lower_fused("attention_end", "", true);
  golden("attention_end_fused", lowered.plan);
  verified(lowered.plan);
  const Lowered links = lower_fused("attention_end", "launch f pairwise simple channels 2\n", false);
  golden("attention_end_pairwise", links.plan);
  verified(links.plan);
}

TEST(Lower, TheOtherExamples) {
  for (const char* example : {"sgd", "adam_mixed", "adamw"}) {
    const Lowered lowered = lower_fused(example, "", true);
    golden(std::string("fused_") + example, lowered.plan);
    verified(lowered.plan, {1, 2});
  }
}

TEST(Lower, ChooserTakesDirectWhereMappedAndPairwiseElsewhere) {
  const std::string mapped = plan::print(lower_fused("adam", "", true).plan),
                    links = plan::print(lower_fused("adam", "", false).plan);
  EXPECT_NE(mapped.find("buffer g s f32 in mapped"), std::string::npos);
  EXPECT_NE(mapped.find("buffer w1 s f32 out mapped"), std::string::npos);
  EXPECT_EQ(mapped.find("link "), std::string::npos);
  EXPECT_NE(links.find("sum(<0..r, g[r], <r+1..n)"), std::string::npos) << links;
  EXPECT_EQ(links.find(" mapped"), std::string::npos);
}

TEST(Lower, LaunchLinesDecide) {
  const Lowered lowered = lower_fused("adam", "launch f pairwise ll channels 3 chunk_bytes 4096\n", true);
  EXPECT_EQ(expr::print(lowered.plan.channels, expr::Syntax::plan), "3");
  EXPECT_EQ(lowered.chunk_elements, std::vector<int64_t>{1024});
  ASSERT_FALSE(lowered.plan.families.empty());
  EXPECT_EQ(lowered.plan.families[0].protocol, plan::Protocol::ll);
  EXPECT_NE(lowered.identity.find("launch f algorithm pairwise"), std::string::npos);
}

TEST(Lower, RefusesWhatTheLaunchLinesDoNotAllow) {
  const auto refused = [](const std::string& launch, bool mapped) {
    try {
      lower_fused("adam", launch, mapped);
    } catch (const Error& e) { return std::string(e.what()); }
    return std::string("accepted");
  };
  EXPECT_NE(refused("launch f ring simple\n", false).find("does not keep order rank"), std::string::npos);
  EXPECT_NE(refused("launch f direct simple\n", false).find("peers can map"), std::string::npos);
  EXPECT_NE(refused("launch f chain simple\n", true).find("chain has no reduce_scatter"), std::string::npos);
  EXPECT_NE(refused("launch zz pairwise simple\n", true).find("zz"), std::string::npos);
}

TEST(Lower, OverlapIsUnsupported) {
  const ir::Program program = ir::parse(
      "program 1 o\ndim B K H\nin x f32[B, K] sliced(1)\nin w f32[K, H] sliced(0)\noverlap o:\n  layer = matmul(x, "
      "w)\n  s = all_reduce(sum, layer)\nout s\n");
  try {
    lower(program, {}, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(e.what()).find("o:"), std::string::npos);
  }
}

TEST(Lower, BytesOfBuffers) {
  const Lowered lowered = lower_fused("adam", "", true);
  ir::Sizes sizes;
  sizes.ranks = 2;
  sizes.tensors["P"] = {{100}, {31}};
  sizes.scalars["lr"] = {false, 0, 0.1};
  sizes.scalars["step"] = {true, 1, 1};
  const auto bytes = [&](const std::string& name, int rank) {
    return buffer_bytes(lowered, sizes, rank, plan::find_buffer(lowered.plan, name));
  };
  EXPECT_EQ(bytes("g", 0), 131 * 4);
  EXPECT_EQ(bytes("w1", 1), 131 * 4);
  EXPECT_EQ(bytes("m", 0) + bytes("m", 1), 131 * 4);
  EXPECT_EQ(bytes("m", 0), 64 * 4);  // borders of stored states are multiples of the grain
}

TEST(Lower, NothingBoundIsAUserError) {
  const Lowered lowered = lower_fused("sgd", "", true);
  ir::Sizes sizes;
  sizes.ranks = 1;
  sizes.tensors["P"] = {{4}};
  sizes.scalars["lr"] = {false, 0, 0.1};
  try {
    EXPECT_EQ(launch_args(lowered, sizes, 0, {}).buffers.size(), lowered.plan.buffers.size());  // bound by index later
    launch_args(lowered, sizes, 0, {{"w1", plan::Dense{}}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::user);
    EXPECT_NE(e.message().find("nothing is bound to g"), std::string::npos) << e.what();
  }
}

TEST(Lower, IsFast) {
  const schedule::Schedule fused = fused_schedule("lamb");
  const ir::Program program = schedule::replay(ir::parse(read_example("lamb")), fused);
  const auto begin = std::chrono::steady_clock::now();
  for (int k = 0; k < 20; ++k) lower(program, {}, {});
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / 20;
  EXPECT_LT(ms, 20) << "a few ms on an idle machine";
}

}  // namespace
}  // namespace weft::lower
