// Generated code against the evaluator's library, bit for bit: shapes, dtypes, every small count, odd large ones, every
// misalignment, in place and not.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/unit/codegen/steps.h"
#include "weft/codegen/compiler.h"
#include "weft/codegen/library.h"
#include "weft/expr/philox.h"

using namespace weft;
using namespace weft::kernel;
using namespace weft::test;

namespace {

class Agree : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/weft-agree-XXXXXX";
    folder = mkdtemp(name);
    setenv("WEFT_CACHE_DIR", folder.c_str(), 1);
    if (!codegen::find_compiler()) GTEST_SKIP() << "no C++ compiler here";
  }
  void TearDown() override {
    unsetenv("WEFT_CACHE_DIR");
    std::filesystem::remove_all(folder);
  }

  void expect_equal(const std::vector<StepShape>& shapes, const std::vector<int64_t>& counts) {
    const auto generated = codegen::generated_library(), evaluated = evaluator_library();
    ASSERT_EQ(generated->name(), "generated");
    const std::vector<StepCode> a = generated->find(shapes), b = evaluated->find(shapes);
    for (size_t s = 0; s < shapes.size(); s++)
      for (const int64_t count : counts)
        for (const bool in_place : {false, true}) {
          const int64_t offset = (count * 5 + static_cast<int64_t>(s)) % 17;
          const auto got = run_step(shapes[s], a[s], count, offset, 11, in_place),
                     expected = run_step(shapes[s], b[s], count, offset, 11, in_place);
          ASSERT_TRUE(guards_whole(shapes[s], got, count, offset))
              << "wrote outside: " << shapes[s].key() << " count " << count;
          for (size_t t = 0; t < got.size(); t++) {
            if (got[t] == expected[t]) continue;
            size_t at = 0;
            while (got[t][at] == expected[t][at]) at++;
            const int64_t bytes = size_bytes(shapes[s].targets[t].dtype), element = static_cast<int64_t>(at) / bytes;
            const Dtype d = shapes[s].targets[t].dtype == Dtype::f64x2 ? Dtype::f64 : shapes[s].targets[t].dtype;
            FAIL() << shapes[s].key() << "\ncount " << count << " offset " << offset << " target " << t << " element "
                   << element - 64 << " in place " << in_place << ": " << load_f64(d, got[t].data() + element * bytes)
                   << " instead of " << load_f64(d, expected[t].data() + element * bytes) << "\n"
                   << codegen::source_of(shapes[s]);
          }
        }
  }

  std::string folder;
};

std::vector<int64_t> all_small() {
  std::vector<int64_t> counts;
  for (int64_t i = 0; i <= 130; i++) counts.push_back(i);
  for (const int64_t i : {255, 256, 257, 1000, 4097, 10007}) counts.push_back(i);
  return counts;
}
const std::vector<int64_t> some = {0,  1,  2,  3,   7,   15,  16,  17,  31,  32,   33,
                                   63, 64, 65, 100, 127, 128, 129, 130, 257, 1000, 5003};

StepShape copy(Dtype from, Dtype to, Store store = Store::normal) {
  StepShape s;
  s.others = {aligned(from)};
  s.targets = {{to, 0, store}};
  return s;
}

StepShape reduce(Reduction reduction, std::vector<SourceShape> sources, Dtype as, std::vector<TargetShape> targets) {
  StepShape s;
  s.reduction = reduction;
  s.reduced = std::move(sources);
  s.reduced_dtype = as;
  s.targets = std::move(targets);
  return s;
}

StepShape with_kernel(const std::string& text, std::vector<SourceShape> reduced, Dtype as,
                      std::vector<SourceShape> others, std::vector<TargetShape> targets) {
  StepShape s = reduce(Reduction::sum, std::move(reduced), as, std::move(targets));
  s.others = std::move(others);
  s.kernel = parse_kernel(text);
  return s;
}

constexpr Dtype f64 = Dtype::f64, f32 = Dtype::f32, f16 = Dtype::f16, bf16 = Dtype::bf16, f8e4m3 = Dtype::f8e4m3,
                f8e5m2 = Dtype::f8e5m2, i64 = Dtype::i64, i32 = Dtype::i32, i16 = Dtype::i16, i8 = Dtype::i8,
                u64 = Dtype::u64, u32 = Dtype::u32, u16 = Dtype::u16, u8 = Dtype::u8, boolean = Dtype::boolean;

}  // namespace

TEST_F(Agree, SumOfTwoInEveryDtype) {
  std::vector<StepShape> shapes;
  for (const Dtype d : all_dtypes())
    shapes.push_back(reduce(Reduction::sum, many(2, d), d, {{d}, {d, 0, Store::stream}}));
  shapes.push_back(reduce(Reduction::sum, many(2, Dtype::f64x2), Dtype::f64x2, {{Dtype::f64x2}}));
  expect_equal(shapes, all_small());
}

TEST_F(Agree, EveryReduction) {
  std::vector<StepShape> shapes;
  for (const Reduction r :
       {Reduction::prod, Reduction::min, Reduction::max, Reduction::logical_and, Reduction::logical_or})
    for (const Dtype d : {f32, f16, i8}) shapes.push_back(reduce(r, many(3, d), d, {{d}}));
  for (const Reduction r : {Reduction::bit_and, Reduction::bit_or, Reduction::bit_xor})
    for (const Dtype d : {u16, i64}) shapes.push_back(reduce(r, many(3, d), d, {{d}}));
  for (const Reduction r : {Reduction::prod, Reduction::max, Reduction::bit_xor})
    shapes.push_back(reduce(r, many(2, boolean), boolean, {{boolean}}));
  shapes.push_back(reduce(Reduction::max, many(2, Dtype::f64x2), Dtype::f64x2, {{Dtype::f64x2}}));
  expect_equal(shapes, some);
}

TEST_F(Agree, SixteenSourcesAndMixedTypes) {
  std::vector<SourceShape> mixed = {aligned(f16), aligned(f32),    aligned(bf16),
                                    single(f32),  aligned(f8e5m2), aligned(f16)};
  expect_equal({reduce(Reduction::sum, many(16, f32), f32, {{f32}, {f32}}),
                reduce(Reduction::sum, many(16, f16), f16, {{f16, 0, Store::stream}, {f32}}),
                reduce(Reduction::sum, mixed, f32, {{f32}, {f16}, {bf16, 0, Store::stream}}),
                reduce(Reduction::sum, mixed, f16, {{f32}, {f16}}),
                reduce(Reduction::sum, {single(f32), single(f32)}, f32, {{f32}}),
                reduce(Reduction::sum, {aligned(f64), aligned(f32)}, f32, {{f64}}),
                reduce(Reduction::sum, {aligned(i64), aligned(i32)}, i32, {{i64}, {i8}})},
               all_small());
}

TEST_F(Agree, CopiesConvert) {
  std::vector<StepShape> shapes;
  StepShape fan = copy(f32, f32);
  fan.targets.clear();
  for (const Dtype d : all_dtypes()) fan.targets.push_back({d});
  for (const Dtype from : {f64, f32, f16, i64, u64, i32, u8, boolean}) {
    fan.others = {aligned(from)};
    shapes.push_back(fan);
  }
  fan.others = {single(f64)};
  shapes.push_back(fan);
  shapes.push_back(copy(f32, f32));
  shapes.push_back(copy(u8, u8, Store::stream));
  shapes.push_back(copy(f64, f64, Store::stream));
  shapes.push_back(copy(Dtype::f64x2, Dtype::f64x2));
  shapes.push_back(reduce(Reduction::sum, {aligned(f32)}, f16, {{f32}}));
  expect_equal(shapes, some);
}

TEST_F(Agree, Adam) {
  std::vector<StepShape> shapes = {adam_shape(), adam_shape(Store::stream)};
  shapes.push_back(
      with_kernel("kernel mixed(lr, step, scale): a, m, v, w -> m1, v1, w1, p\n  a = a / ranks\n  d = f32(a) / scale\n "
                  " m1 = 0.9 * m + (1 - 0.9) * d\n"
                  "  v1 = 0.999 * v + (1 - 0.999) * d * d\n  w1 = w - lr * (m1 / (1 - 0.9 ^ step)) / (sqrt(v1 / (1 - "
                  "0.999 ^ step)) + 1e-08)\n  p = f16(w1)",
                  many(4, f16), f16, many(3, f32),
                  {{f32, 0}, {f32, 1}, {f32, 2}, {f16, 3, Store::stream}, {f16, 3, Store::stream}}));
  expect_equal(shapes, all_small());
}

TEST_F(Agree, FunctionsInEveryFloat) {
  const std::string text =
      "kernel f(s): x, y -> a, b, c, d, e\n  a = gelu(x) + tanh(y) * sigmoid(x) - silu(y)\n  b = exp(x) * log(abs(y) + "
      "0.5) + rsqrt(x * x + 1)\n"
      "  c = select(x > y and not (x < 0), max(x, y), relu(min(x, y)))\n  d = (x * x + 0.25) ^ (y * s)\n  e = -x / (y "
      "+ 3) + x * 2 - 1";
  std::vector<StepShape> shapes;
  for (const Dtype d : {f64, f32, f16, bf16, f8e4m3, f8e5m2})
    shapes.push_back(with_kernel(text, {}, f32, many(2, d), {{d, 0}, {d, 1}, {d, 2}, {d, 3}, {d, 4}}));
  expect_equal(shapes, some);
}

TEST_F(Agree, IntegersAndComparisons) {
  const std::string text =
      "kernel k(s): x, y -> a, b, c, d\n  a = x * y + 3 - x\n  b = select(x >= y, x, y + 1)\n  c = x == y or x > 5\n  "
      "d = max(x, y) - min(x, abs(y))";
  std::vector<StepShape> shapes;
  for (const Dtype d : {i64, i32, i16, i8, u64, u32, u16, u8})
    shapes.push_back(with_kernel(text, {}, f32, many(2, d), {{d, 0}, {d, 1}, {boolean, 2}, {d, 3}}));
  shapes.push_back(with_kernel("kernel cast: x -> a, b, c\n  a = f32(x) * 0.5\n  b = i8(a)\n  c = bool(x)", {}, f32,
                               {aligned(i32)}, {{f32, 0}, {i8, 1}, {boolean, 2}}));
  shapes.push_back(
      with_kernel("kernel logic: x, y -> a\n  a = x and not y", {}, f32, many(2, boolean), {{boolean, 0}}));
  expect_equal(shapes, some);
}

TEST_F(Agree, PositionsAndRandomNumbers) {
  const std::string text =
      "kernel dropout(p, seed): s, b, r -> y\n  d = select(rand(seed, 1) < 0.1, 0, (s + b) / (1 - 0.1))\n  y = d + r";
  expect_equal({with_kernel(text, many(2, f16), f16, {aligned(f16), aligned(f16)}, {{f16, 0}, {f16, 0, Store::stream}}),
                with_kernel(text, many(2, f32), f32, {single(f32), aligned(f32)}, {{f32, 0}})},
               all_small());
}

// Every place in a counter's four numbers, blocks that end anywhere, and positions beyond 2^34, where the counter's second
// word begins to count: against Philox written from the paper.
TEST_F(Agree, RandomNumbersAreTheCountersWords) {
  const StepShape shape = with_kernel(
      "kernel noise(seed, draw_1): x -> a, b, c\n  fill = rand(seed, 1)\n  a = x + fill\n  b = x + rand(seed, 2) * "
      "draw_1\n"
      "  c = x + rand(seed + 1, 1) - fill * 0",
      {}, f32, many(1, f32), {{f32, 0}, {f32, 1, Store::stream}, {f64, 2}});
  const auto generated = codegen::generated_library();
  const StepCode code = generated->find({shape})[0];
  const uint64_t seed = 0x1234567890abull;
  const expr::ScalarValue scalars[] = {{true, static_cast<int64_t>(seed), 0}, {false, 0, 1.0}};
  alignas(64) char hoisted[256];
  ASSERT_LE(code.hoisted_bytes, static_cast<int64_t>(sizeof hoisted));
  code.prepare(scalars, 2, hoisted, code.self);
  for (const int64_t position : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, int64_t{127},
                                 int64_t{1} << 20, (int64_t{1} << 34) - 70, (int64_t{1} << 34) + 5})
    for (const int64_t count : {0, 1, 2, 3, 5, 15, 16, 17, 63, 125, 126, 127, 128, 129, 130, 131, 257, 515}) {
      std::vector<float> x(static_cast<size_t>(count) + 16, 0.0f), a(x.size(), 7), b(x.size(), 7);
      std::vector<double> c(x.size(), 7);
      const void* sources[] = {x.data()};
      void* targets[] = {a.data(), b.data(), c.data()};
      const StepArgs args{sources, targets, count, position, hoisted};
      code.run(&args, code.self);
      for (int64_t i = 0; i < count; i++) {
        const auto at = static_cast<uint64_t>(position + i);
        const auto j = static_cast<size_t>(i);
        ASSERT_EQ(a[j], expr::uniform(seed, 1, at)) << position << " + " << i << " of " << count;
        ASSERT_EQ(b[j], expr::uniform(seed, 2, at)) << position << " + " << i << " of " << count;
        ASSERT_EQ(c[j], expr::uniform(seed + 1, 1, at)) << position << " + " << i << " of " << count;
      }
      for (size_t j = static_cast<size_t>(count); j < x.size(); j++)
        ASSERT_TRUE(a[j] == 7 && b[j] == 7 && c[j] == 7) << "written behind the end";
    }
}

TEST_F(Agree, Folds) {
  const std::string lamb =
      "kernel lamb(lr): w, u, n -> w1, p, q\n  w1 = w - lr * n * u\n  p = f16(w1)\n  q = sum(w1 * w1)";
  std::vector<StepShape> shapes;
  shapes.push_back(with_kernel("kernel squares: w, u -> q\n  q = sum(w * w + u * u)", {}, f32, many(2, f32),
                               {{f64, 0, Store::accumulate}}));
  shapes.push_back(with_kernel("kernel squares: w, u -> q\n  q = sum(w * w + u * u)", {}, f32, many(2, f16),
                               {{f32, 0, Store::accumulate}}));
  shapes.push_back(with_kernel(lamb, {}, f32, {aligned(f32), aligned(f32), single(f64)},
                               {{f32, 0}, {f16, 1, Store::stream}, {f64, 2, Store::accumulate}}));
  shapes[2].others[2] = single(f32);
  shapes.push_back(
      with_kernel("kernel many: x -> a, b, c, d\n  a = sum(x)\n  b = prod(x)\n  c = amax(x)\n  d = amin(abs(x))",
                  many(2, f32), f32, {},
                  {{f64, 0, Store::accumulate},
                   {f64, 1, Store::accumulate},
                   {f64, 2, Store::accumulate},
                   {f64, 3, Store::accumulate}}));
  for (const Dtype d : {i8, u16, i64})
    shapes.push_back(
        with_kernel("kernel many: x -> a, b, c, d\n  a = sum(x * x)\n  b = prod(x)\n  c = amax(x)\n  d = amin(x)", {},
                    f32, many(1, d),
                    {{i64, 0, Store::accumulate},
                     {i64, 1, Store::accumulate},
                     {i64, 2, Store::accumulate},
                     {i64, 3, Store::accumulate}}));
  shapes.push_back(
      with_kernel("kernel count: x -> a\n  a = sum(x > 0.5)", {}, f32, many(1, f32), {{i64, 0, Store::accumulate}}));
  shapes.push_back(reduce(Reduction::sum, many(2, f32), f32, {{f32}, {f64, 0, Store::accumulate}}));
  shapes.push_back(reduce(Reduction::max, many(2, bf16), bf16, {{f64, 0, Store::accumulate}}));
  expect_equal(shapes, all_small());
}

TEST_F(Agree, RoundedToTheWireFirst) {
  const std::string text = "kernel k(lr): a, w -> w1, w1, w1\n  w1 = w - lr * a";
  std::vector<StepShape> shapes;
  for (const Dtype wire : {f16, bf16, f8e4m3})
    shapes.push_back(with_kernel(text, many(2, f32), f32, many(1, f32),
                                 {{f32, 0, Store::normal, wire},
                                  {f32, 0, Store::stream, wire},
                                  {wire, 1},
                                  {f16, 2, Store::stream, wire},
                                  {f64, 0}}));
  StepShape copies = reduce(Reduction::sum, many(2, f16), f16,
                            {{f16, 0, Store::normal, f8e5m2}, {f16}, {f8e5m2}, {f32, 0, Store::normal, f8e5m2}});
  shapes.push_back(copies);
  copies.reduced.pop_back();
  shapes.push_back(copies);
  shapes.push_back(
      reduce(Reduction::sum, many(2, i64), i64, {{i64, 0, Store::normal, i8}, {f32, 0, Store::normal, f16}}));
  expect_equal(shapes, some);
}

#if defined(__x86_64__)
TEST_F(Agree, OlderProcessorsGiveTheSameBits) {
  const std::string text = "kernel k(lr): a, w -> w1, w1, q\n  w1 = w - f16(lr) * tanh(a)\n  q = sum(w1 * w1)";
  const std::vector<StepShape> shapes = {
      adam_shape(Store::stream),
      reduce(Reduction::sum, many(3, f16), f16, {{f16}, {f16, 0, Store::stream}, {f8e5m2, 0, Store::stream}}),
      with_kernel(text, many(2, f16), f16, {aligned(f16)},
                  {{f16, 0}, {f32, 1, Store::stream}, {f64, 2, Store::accumulate}})};
  for (const char* without : {" -mno-avx512f", " -mno-avx", " -O0"}) {
    setenv("WEFT_CXX", (codegen::find_compiler()->command[0] + without).c_str(), 1);
    expect_equal(shapes, some);
    unsetenv("WEFT_CXX");
  }
}
#endif

TEST_F(Agree, NamesThatCollide) {
  const std::string text =
      "kernel k(hoisted, h0): x.s, double, pos, first, x_s, h1 -> out, double, i, x.s\n  x.s = x.s + double * h0\n  "
      "out = pos + first + x_s\n  x.s = x.s * h1 - hoisted\n"
      "  i = x.s * (1 - h0 ^ 2)\n  count = i + out\n  double = double + count";
  expect_equal(
      {with_kernel(text, many(2, f32), f32, many(5, f32), {{f32, 0}, {f32, 1}, {f32, 2}, {f32, 3, Store::stream}})},
      some);
}

TEST_F(Agree, ConstantsOnly) {
  expect_equal(
      {with_kernel("kernel zero(s): -> y\n  y = 0.5 * ranks + s", {}, f32, {}, {{f32, 0}, {f16, 0, Store::stream}}),
       with_kernel("kernel weak(s): x -> y, c\n  c = 1 - s\n  y = x * c", {}, f32, many(1, f16), {{f16, 0}, {f32, 1}})},
      some);
}

TEST_F(Agree, Tiles) {
  StepShape s;
  s.others = {{f32, Alignment::whole}, {f32, Alignment::whole}};
  s.kernel = parse_kernel("kernel mm(rows, cols): x, w -> y\n  y = matmul(x, w)");
  s.targets = {{f32, 0}, {f32, 0}};
  const std::vector<float> x = {1, 2, 3, 4, 5, 6}, w = {1, 0, 2, 1, 1, 1};  // [3, 2] x [2, 3]
  std::vector<float> y(9), z(9);
  for (const auto& library : {codegen::generated_library(), evaluator_library()}) {
    const StepCode code = library->find({s})[0];
    const expr::ScalarValue scalars[] = {{true, 2, 0}, {true, 3, 0}};
    alignas(64) char hoisted[256];
    code.prepare(scalars, 1, hoisted, code.self);
    const void* sources[] = {x.data(), w.data()};
    void* targets[] = {y.data(), z.data()};
    const StepArgs args{sources, targets, 9, 0, hoisted};
    code.run(&args, code.self);
    EXPECT_EQ(y, (std::vector<float>{3, 2, 4, 7, 4, 10, 11, 6, 16}));
    EXPECT_EQ(z, y);
  }
  EXPECT_NE(codegen::source_of(s).find("matmul"), std::string::npos);
}
