// Small programs, each for one thing that lowering decides; exact where they are over integers.
#include "tests/unit/lower/ways.h"
#include "weft/base/error.h"

namespace weft::lower {
namespace {

const char* const sgd_int =
    "program 1 sgd_int\ndim N\nin g i32[N] local\nstate m i32[N] replicated\nstate w i32[N] replicated\n"
    "a = all_reduce(sum, g)\nm1 = 3 * m + a\nw1 = w - m1\nupdate m = m1\nupdate w = w1\nout w1\n";

TEST(Programs, IntegersAreExact) {
  for (const int64_t n : {0, 1, 15, 16, 17, 64, 129, 130}) {
    check(sgd_int, "", {{{"N", n}}, {}}, true, 4);
    check(sgd_int, "split a\nreorder m1 w1\nstore m w\nfuse f: a.s m1.s w1.s w1\n", {{{"N", n}}, {}}, true, 4);
  }
  check(sgd_int, "split a\nreorder m1 w1\n", {{{"N", 77}}, {}}, true);
}

TEST(Programs, EveryIntegerDtype) {
  for (const char* dtype : {"i64", "i16", "i8", "u64", "u32", "u16", "u8"})
    check(replace_all(sgd_int, "i32", dtype), "split a\nreorder m1 w1\nstore m w\nfuse f: a.s m1.s w1.s w1\n",
          {{{"N", 70}}, {}}, true, 3);
}

// The old m is read after the new one exists: it is copied at the end.
TEST(Programs, AStateReadLaterIsCopiedAtTheEnd) {
  const std::string text =
      "program 1 late\ndim N\nin g i32[N] local\nstate m i32[N] replicated\na = all_reduce(sum, g)\nm1 = m + a\nb = "
      "all_reduce(max, g)\ny = b - m\nupdate m = m1\nout y\nout m1\n";
  check(text, "", {{{"N", 100}}, {}}, true, 4);
}

TEST(Programs, AStateMayTakeAnInputsContent) {
  check("program 1 keep\ndim N\nin g i32[N] replicated\nstate a i32[N] replicated\ny = g + a\nupdate a = g\nout y\n",
        "", {{{"N", 50}}, {}}, true, 3);
}

// Folds over everything, whole and cut, of every kind that integers have exactly.
TEST(Programs, FoldsOfIntegers) {
  const std::string text =
      "program 1 folds\ndim N\nin g i32[N] local\nstate w i32[N] replicated\na = all_reduce(sum, g)\nq = sum(a * a)\nt "
      "= amax(a)\nl = amin(a)\nw1 = select(i64(w) < q, w + t, w - t * l + a)\nupdate w = w1\nout w1\nout q\n";
  check(text, "", {{{"N", 90}}, {}}, true, 4);
  check(text, "split a\nreorder q t l w1\nstore w\nfuse f: a.s q.p q t.p t l.p l w1.s w1\n", {{{"N", 90}}, {}}, true,
        4);
  check(text, "split a\nreorder q t l w1\n", {{{"N", 33}}, {}}, true, 4);
}

TEST(Programs, FoldsPerTensor) {
  const std::string text =
      "program 1 by\ntensors P\nin g i32[P] local\nstate w i32[P] replicated\na = all_reduce(sum, g)\nq = sum(a by "
      "P)\nw1 = w - a\nd = select(q > 0, q, 0 - q)\nupdate w = w1\nout d\nout w1\n";
  const Sizing sizing{{}, {{3}, {40}, {1}, {17}, {30}}};
  check(text, "", sizing, true, 4);
  check(text, "split a\nreorder q w1\nstore w\nfuse f: a.s q.p q w1.s w1\n", sizing, true, 4);
}

// Reduce, compute on one rank, broadcast.
TEST(Programs, SplitsAtARoot) {
  check(sgd_int, "split a root 0\nreorder m1 w1\nstore m w\nfuse f: a.s m1.s w1.s w1\n", {{{"N", 70}}, {}}, true, 5);
  check(sgd_int, "split a root 1\nreorder m1 w1\n", {{{"N", 70}}, {}}, true, 5);
  const std::string text =
      "program 1 folds\ndim N\nin g i32[N] local\nstate w i32[N] replicated\na = all_reduce(sum, g)\nq = sum(a * "
      "a)\nw1 = select(i64(w) < q, w + a, w)\nupdate w = w1\nout w1\n";
  check(text, "split a root 0\nreorder q w1\nstore w\n", {{{"N", 70}}, {}}, true, 4);
}

TEST(Programs, SmallValuesAreReducedWhole) {
  check(
      "program 1 loss\ndim N\nin g i32[N] local\nin l i64[] local\na = all_reduce(sum, g)\ns = all_reduce(sum, l)\nt = "
      "s * 2\ny = i64(a) + t\nout y\nout s\n",
      "", {{{"N", 40}}, {}}, true, 4);
}

TEST(Programs, MeansAndMaxima) {
  check(
      "program 1 mean\ndim N\nin g f32[N] local\na = all_reduce(avg, g)\nb = all_reduce(max, g)\nc = all_reduce(min, "
      "g)\ny = a + b * c\nout y\n",
      "", {{{"N", 65}}, {}}, false, 4);
}

// A product whose contracted dimension is cut, bias by column, residual: on integers, hence exact.
TEST(Programs, ProductsOfMatrices) {
  const std::string text =
      "program 1 rows\ndim B S K H\nin x i32[B, S, K] sliced(2)\nin w i32[K, H] sliced(0)\nin b i32[H] replicated\nin "
      "r i32[B, S, H] replicated\n"
      "layer = matmul(x, w)\ns = all_reduce(sum, layer)\nd = s + b\ny = d * 2 + r\nout y\n";
  const Sizing sizing{{{"B", 2}, {"S", 3}, {"K", 7}, {"H", 5}}, {}};
  check(text, "", sizing, true, 5);
  for (const int dim : {0, 1, 2}) {
    check(text, fmt::format("split s {}\nreorder d y\n", dim), sizing, true, 5);
    check(text, fmt::format("split s {}\nreorder d y\nfuse f: s.s d.s y.s y\n", dim), sizing, true, 5);
  }
}

// The optimizers in other floats, to the precision of each.
TEST(Programs, EveryFloatDtype) {
  const std::pair<const char*, double> dtypes[] = {{"f64", 1e-12}, {"f16", 2e-2}, {"bf16", 2e-1}};
  for (const auto& [dtype, tolerance] : dtypes)
    for (const char* example : {"sgd", "adam"}) {
      const ir::Program naive = ir::parse(replace_all(read_example(example), "f32[", std::string(dtype) + "["));
      const ir::Program program = schedule::replay(naive, fused_schedule(example));
      for (const Way& way : ways) {
        SCOPED_TRACE(fmt::format("{} {} {}", example, dtype, way.algorithm));
        const Lowered lowered = lower_by(program, way, 2);
        plan::require_verified(lowered.plan, {{1, 3}});
        Agreement how;
        how.tolerance = tolerance;
        agree(naive, program, lowered, 3, {{}, {{31}, {1}, {70}}}, 5, how);
      }
    }
}

// One of everything is sent in its own type: links carry one dtype each.
TEST(Programs, LinksCarryOneTypeEach) {
  const Lowered lowered =
      lower_by(scheduled(read_example("adam_mixed"), "split a\nreorder d m1 v1 u w1\n"), {"pairwise", false}, 1);
  EXPECT_NE(plan::find_family(lowered.plan, "ag"), -1);
  EXPECT_EQ(plan::print(plan::parse(plan::print(lowered.plan))), plan::print(lowered.plan));
}

TEST(Programs, WhatIsNotLoweredSaysSo) {
  const auto message = [](const std::string& text) {
    try {
      lower(ir::parse(text), {}, {});
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::unsupported) << e.what();
      EXPECT_FALSE(e.remedy().empty());
      return std::string(e.what());
    }
    return std::string("lowered");
  };
  EXPECT_NE(message("program 1 a\ndim N\nin x f32[N] sliced(0)\ny = all_to_all(x, 0)\nout y\n").find("has no lowering"),
            std::string::npos);
  EXPECT_NE(message("program 1 a\ndim N\nin x f32[N] replicated\nout x\n").find("nothing is computed"),
            std::string::npos);
  EXPECT_EQ(message("program 1 a\ndim N\nin x f32[N] replicated\ny = x\nout y\n"), "lowered");
  EXPECT_NE(message("program 1 a\ntensors P\nin x f32[P] replicated\nin q f32[#P] sliced(0)\ny = x * 1\nout y\n")
                .find("q: a small value that is cut"),
            std::string::npos);
}

// What `show --as program` prints of a schedule is lowered to the schedule's own plan.
TEST(Programs, PrintedSchedulesLowerToTheSamePlan) {
  for (const char* name : {"adam", "lamb", "adamw", "sgd", "adam_mixed", "attention_end"}) {
    const schedule::Space space = schedule::enumerate(ir::parse(read_example(name)));
    for (size_t i = 0; i < space.candidates.size(); i += 5) {
      std::optional<Lowered> lowered;
      try {
        lowered = lower(space.candidates[i].program, {}, {});
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::unsupported);
        continue;
      }
      const ir::Program read = ir::parse(ir::print(space.candidates[i].program));
      const ir::Program written = schedule::replay(read, {"s", read.name, {}, {}});
      EXPECT_EQ(plan::print(lower(written, {}, {}).plan), plan::print(lowered->plan));
    }
  }
}

// An index in a comparison or cast without a tensor counts in integers, as in the reference (D2).
TEST(Programs, IndicesAndScalarsOfOneDimension) {
  check(
      "program 1 index\ndim N\nscalar k i64\nin g i32[N] local\nstate w i32[N] replicated\na = all_reduce(sum, g)\n"
      "w1 = select(index(0) / 2 < k, a, w) + i32(index(0) * 3 / 2) - index(0) / 4 + i32(index(0) / 2 * 1.5)\n"
      "update w = w1\nout w1\n",
      "split a\nreorder w1\nstore w\nfuse f: a.s w1.s w1\n", {{{"N", 130}}, {}}, true, 4);
}

// A narrow wire: the values are those of the casts, to the bit, and not those of the program.
TEST(Programs, NarrowChangesNumbersAsItsCastsSay) {
  const std::string text =
      "program 1 wire\ndim N\nin g f32[N] local\nstate w f32[N] replicated\na = all_reduce(sum, g)\nw1 = w - a * 0.1\n"
      "update w = w1\nout w1\n";
  const ir::Program naive = ir::parse(text);
  const ir::Program cast =
      ir::parse(replace_all(text, "w1 = w - a * 0.1\n", "u = w - a * 0.1\nc = f16(u)\nw1 = f32(c)\n"));
  const ir::Program narrow = scheduled(text, "split a\nreorder w1\nnarrow w1 f16\n");
  for (const Way& way : ways) {
    const Lowered lowered = lower_by(narrow, way, 2);
    plan::require_verified(lowered.plan, {{1, 3}});
    Agreement how;
    how.launches = 1;
    how.tolerance = 1e-2;  // where the sum lies between two halves, the last bit of f32 decides
    agree(cast, narrow, lowered, 3, {{{"N", 70}}, {}}, 5, how);
    EXPECT_GT(agree(naive, narrow, lowered, 3, {{{"N", 70}}, {}}, 5, how), 2e-5);
  }
}

}  // namespace
}  // namespace weft::lower
