// Groups of ranks: statements on them, sends between them, values that are not everywhere; and what moves to and from one
// rank. On integers, hence exact.
#include "tests/unit/lower/ways.h"

namespace weft::lower {
namespace {

const Sizing sizes{{{"B", 2}, {"S", 3}, {"H", 5}}, {}};

const char* const pipeline =
    "program 1 pipe\ndim B S H\ngroup stage = world.split(2)\nin z i32[B, S, H] local on stage\nin b i32[H] replicated "
    "on "
    "stage\nin r i32[B, S, H] replicated on stage\ns = all_reduce(sum, z)\nd = (s + b) * 3\ny = d + r\nx = send(y, "
    "1)\nout x\n";

TEST(Groups, APipelineStage) {
  check(pipeline, "", sizes, true);
  check(replace_all(pipeline, "split(2)", "split(3)"), "", sizes, true, 9);
  check(replace_all(pipeline, "send(y, 1)", "send(y, -1)"), "", sizes, true, 6);
}

// AR-P2P-C and RS-P2P-C-AG: what is sent is a slice.
TEST(Groups, SchedulesOfAPipelineStage) {
  for (const int dim : {0, 1, 2}) {
    check(pipeline, fmt::format("split s {}\nreorder d y\n", dim), sizes, true, 6);
    check(pipeline, fmt::format("split s {}\nreorder d y x\n", dim), sizes, true, 6);
    check(pipeline, fmt::format("split s {}\nreorder d y x\nfuse f: s.s d.s y.s x.s\n", dim), sizes, true, 6);
  }
}

TEST(Groups, EverySize) {
  for (const int64_t n : {0, 1, 2, 15, 17, 40})
    check(pipeline, "split s 2\nreorder d y x\nfuse f: s.s d.s y.s x.s\n", {{{"B", 1}, {"S", 2}, {"H", n}}, {}}, true,
          4);
}

// What is computed of what came is where that is; chains go on from there, both ways.
TEST(Groups, Presence) {
  const std::string text =
      "program 1 chain\ndim N\ngroup stage = world.split(3)\nin z i32[N] local on stage\nin q i64[] replicated on "
      "stage\ns = all_reduce(sum, z)\nx = send(s, 1)\ny = x + s\nt = sum(y)\nu = send(y * 2, 1)\nv = send(y, -1)\nw = "
      "v - s\na = all_reduce(max, z + y)\nk = send(q + t, 1)\nout x\nout y\nout t\nout u\nout w\nout a\nout k\n";
  check(text, "", {{{"N", 21}}, {}}, true);
}

// rank i of every stage: its members do not lie side by side.
TEST(Groups, Across) {
  const std::string text =
      "program 1 across\ndim N\ngroup stage = world.split(2)\ngroup col = stage.across\nin g i32[N] local on col\nin h "
      "i32[N] local on stage\nin w i32[N] replicated\na = all_reduce(sum, g)\nb = all_reduce(sum, h)\nx = send(a, "
      "1)\nc "
      "= w * 2\nout a\nout b\nout c\nout x\n";
  const ir::Program program = ir::parse(text);
  for (const int channels : {1, 2}) {
    LowerOptions options;
    options.fallback.channels = channels;
    const Lowered lowered = lower(program, {}, options);
    const plan::Verdict verdict = plan::verify(lowered.plan, {{2, 4}});
    ASSERT_TRUE(verdict.ok()) << plan::print(verdict.findings[0]) << plan::print(lowered.plan);
    for (const int ranks : {2, 4, 6, 8}) agree(program, program, lowered, ranks, {{{"N", 35}}, {}}, 7, {2, 0, true});
  }
}

TEST(Groups, AveragesAndRanksAreTheGroups) {
  check(
      "program 1 avg\ndim N\ngroup stage = world.split(2)\nin g f32[N] local on stage\nin l f32[] local on stage\na = "
      "all_reduce(avg, g)\nb = all_reduce(avg, l)\nc = a + b\nout c\n",
      "", {{{"N", 33}}, {}}, false, 6);
}

TEST(Groups, ProductsOnAGroup) {
  check(
      "program 1 mm\ndim B K H\ngroup stage = world.split(2)\nin x i32[B, K] sliced(1) on stage\nin w i32[K, H] "
      "sliced(0) "
      "on stage\nz = matmul(x, w)\ns = all_reduce(sum, z)\ny = send(s, 1)\nout y\n",
      "", {{{"B", 3}, {"K", 7}, {"H", 4}}, {}}, true, 6);
}

// gather and scatter: slices to one rank and back.
TEST(Groups, GatherAndScatter) {
  for (const char* k : {"0", "1"})
    for (const char* on : {"", " on stage"}) {
      const std::string text = fmt::format(
          "program 1 move\ndim N H\ngroup stage = world.split(1)\nin x i32[N, H] sliced(0){1}\ny = x * 2\ng = "
          "gather(y, "
          "{0})\nh = g + 1\ns = scatter(h, 0)\nt = s - 3\nb = broadcast(h)\nout g\nout t\nout b\n",
          k, on);
      check(text, "", {{{"N", 7}, {"H", 5}}, {}}, true, 5);
    }
}

}  // namespace
}  // namespace weft::lower
