// Folds over some dimensions, and the definitions that are made of them: softmax, rms_norm, layer_norm. Exact where they
// are over integers; the value is whole, cut along a dimension that stays, or cut along the one that is folded.
#include "tests/unit/lower/ways.h"

namespace weft::lower {
namespace {

const Sizing sizes{{{"B", 3}, {"S", 5}, {"H", 7}}, {}};

std::string folds_of(const std::string& layout, const std::string& dims, const std::string& tail = "") {
  return "program 1 dims\ndim B S H\nin x i32[B, S, H] " + layout + "\nin b i32[H] replicated\nq = sum(i64(x) * 3, " +
         dims + ")\nt = amax(x, " + dims + ")\n" + tail;
}

TEST(Dims, FoldsOfWholeValues) {
  for (const char* dims : {"0", "1", "-1", "0, 1", "1, 2", "0, 2"})
    check(folds_of("replicated", dims, "y = i32(q) - t * x + b\nout y\nout q\n"), "", sizes, true, 4);
}

// The fold of my slices: a dimension that stays is cut, so each rank has what its own part meets.
TEST(Dims, FoldsOfSlices) {
  const std::string tail = "y = i32(q) - t * x + b\nz = all_gather(y)\nout y\nout z\n";
  for (const auto& [layout, dims] : std::vector<std::pair<const char*, const char*>>{
           {"sliced(1)", "-1"}, {"sliced(0)", "1, 2"}, {"sliced(2)", "0"}, {"sliced(2)", "1"}, {"sliced(1)", "0"}})
    check(folds_of(layout, dims, tail), "", sizes, true, 5);
}

// The dimension that is folded is cut: what each rank has is pending, and summed whole.
TEST(Dims, FoldsOverTheCut) {
  const std::string tail = "a = all_reduce(sum, q)\nm = all_reduce(max, t)\ny = i32(a) - m * x + b\nout y\nout a\n";
  for (const auto& [layout, dims] :
       std::vector<std::pair<const char*, const char*>>{{"sliced(2)", "-1"}, {"sliced(0)", "0, 2"}, {"sliced(1)", "1"}})
    check(folds_of(layout, dims, tail), "", sizes, true, 5);
}

TEST(Dims, FoldsOfContributions) {
  const std::string text =
      "program 1 bias\ndim N H\nin g i32[N, H] local\nstate b i32[1, H] replicated\nd = sum(g, 0)\na = all_reduce(sum, "
      "d)\nb1 = b - i32(a)\nupdate b = b1\nout b1\n";
  for (const int64_t n : {0, 1, 2, 13})
    for (const int64_t h : {1, 3, 17}) check(text, "", {{{"N", n}, {"H", h}}, {}}, true, 3);
}

// A reduce_scatter, norms of its slices along a dimension that stays or is cut, and a gather: one group.
TEST(Dims, FoldsInAGroup) {
  const std::string text =
      "program 1 group\ndim B S H\nin g i32[B, S, H] local\na = all_reduce(sum, g)\nq = sum(a, -1)\ny = a - "
      "i32(q)\nout y\n";
  for (const int dim : {0, 1, 2}) {
    check(text, fmt::format("split a {}\nreorder q y\n", dim), sizes, true, 4);
    if (dim < 2) check(text, fmt::format("split a {}\nreorder q y\nfuse f: a.s q.s y.s y\n", dim), sizes, true, 4);
  }
}

TEST(Dims, Definitions) {
  const std::string head = "program 1 d\ndim B S H\nin gain f32[H] replicated\nin bias f32[H] replicated\n";
  for (const char* layout : {"replicated", "sliced(1)", "sliced(0)"})
    for (const char* y : {"softmax(x, -1)", "softmax(x, 2)", "rms_norm(x, gain)", "layer_norm(x, gain, bias)"})
      check(head + fmt::format("in x f32[B, S, H] {}\ny = {}\nout y\n", layout, y), "", sizes, false, 3);
}

TEST(Dims, EmptyAndSmallSizes) {
  for (const int64_t s : {0, 1, 2, 40})
    check(folds_of("sliced(1)", "-1", "y = i32(q) - t * x + b\nout y\n"), "", {{{"B", 2}, {"S", s}, {"H", 3}}, {}},
          true, 8);
}

// Products of computed values: gathered ones are read whole, slices in their part.
TEST(Dims, ProductsOfComputedValues) {
  const std::string text =
      "program 1 sp\ndim B S H F\nin x i32[B, S, H] sliced(1)\nin w1 i32[H, F] sliced(1)\nin w2 i32[F, H] sliced(0)\n"
      "n = x * 2 + 1\ng = all_gather(n)\nh = matmul(g, w1)\na = max(h, 0)\nz = matmul(a, w2)\n"
      "s = reduce_scatter(sum, z, 1)\ny = s + x\nout y\n";
  check(text, "", {{{"B", 2}, {"S", 5}, {"H", 3}, {"F", 7}}, {}}, true, 4);
  check(text, "fuse f: s y\n", {{{"B", 2}, {"S", 4}, {"H", 3}, {"F", 9}}, {}}, true, 4);
}

// Blocks of Megatron, and the end of a pipeline stage, as the examples have them.
TEST(Dims, ExamplesOfModels) {
  const Sizing small{{{"B", 2}, {"S", 5}, {"H", 6}, {"F", 7}}, {}};
  for (const char* name : {"mlp", "sequence_parallel", "pipeline"}) {
    const ir::Program naive = ir::parse(read_example(name));
    const schedule::Space space = schedule::enumerate(naive);
    int lowered = 0;
    for (const schedule::Candidate& candidate : space.candidates) {
      std::optional<Lowered> plan;
      try {
        plan = lower_by(candidate.program, ways[static_cast<size_t>(lowered % 2)], 1 + lowered % 2);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::unsupported);
        continue;
      }
      SCOPED_TRACE(schedule::print(candidate.schedule));
      const std::vector<int> ranks = plan::admitted_ranks(plan->plan);
      plan::require_verified(plan->plan, {{ranks[1]}});
      Agreement how;
      how.tolerance = 3e-2;
      agree(naive, candidate.program, *plan, ranks[static_cast<size_t>(lowered % 3)], small, 3, how);
      ++lowered;
    }
    EXPECT_GT(lowered, 2 * static_cast<int>(space.candidates.size()) / 3) << name;
  }
}

}  // namespace
}  // namespace weft::lower
