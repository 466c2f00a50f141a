// The evaluator and the evaluator's library against arithmetic written out element by element.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "weft/kernel/step.h"

using namespace weft;
using namespace weft::kernel;

namespace {

Kernel parse_kernel(const std::string& text) {
  const std::vector<SourceLine> lines = source_lines(text);
  Kernel kernel = parse_header(lines.at(0));
  for (size_t i = 1; i < lines.size(); i++) kernel.body.push_back(parse_assignment(lines[i]));
  return kernel;
}

const std::string adam =
    "kernel adam(lr, step): a, m, v, w -> m1, v1, w1\n  a = a / ranks\n  m1 = 0.9 * m + (1 - 0.9) * a\n  v1 = 0.999 * "
    "v + (1 - 0.999) * a * a\n"
    "  u = m1 / (1 - 0.9 ^ step) / (sqrt(v1 / (1 - 0.999 ^ step)) + 1e-08)\n  w1 = w - lr * u";

std::vector<float> values(int64_t count, int salt) {
  std::vector<float> list;
  for (int64_t i = 0; i < count; i++)
    list.push_back(std::sin(static_cast<float>(i * 7 + salt)) + (salt == 3 ? 1.5f : 0));
  return list;
}

void run(const StepCode& code, std::vector<const void*> sources, std::vector<void*> targets, int64_t count,
         std::vector<expr::ScalarValue> scalars, int64_t ranks = 2, int64_t position = 0) {
  alignas(64) char hoisted[512];
  ASSERT_LE(code.hoisted_bytes, 512);
  code.prepare(scalars.data(), ranks, hoisted, code.self);
  const StepArgs args{sources.data(), targets.data(), count, position, hoisted};
  code.run(&args, code.self);
}

}  // namespace

TEST(EvaluatorLibrary, FusedAdamInPlace) {
  StepShape s;
  s.reduced = {{Dtype::f32}, {Dtype::f32}};
  s.others = {{Dtype::f32}, {Dtype::f32}, {Dtype::f32}};
  s.kernel = parse_kernel(adam);
  s.targets = {{Dtype::f32, 0}, {Dtype::f32, 1}, {Dtype::f32, 2}, {Dtype::f16, 2, Store::stream}};
  const auto library = evaluator_library();
  const StepCode code = library->find({s})[0];
  for (const int64_t count : {0, 1, 511, 512, 513, 1500}) {
    const std::vector<float> g0 = values(count, 1), g1 = values(count, 2), m = values(count, 4), v = values(count, 3),
                             w = values(count, 5);
    std::vector<float> m1 = m, v1 = v, w1 = w;
    std::vector<uint16_t> p(static_cast<size_t>(count));
    run(code, {g0.data(), g1.data(), m1.data(), v1.data(), w1.data()}, {m1.data(), v1.data(), w1.data(), p.data()},
        count, {{false, 0, 1e-3}, {true, 3, 0}});
    const float c1 = static_cast<float>(1 - std::pow(0.9, 3)), c2 = static_cast<float>(1 - std::pow(0.999, 3));
    for (int64_t i = 0; i < count; i++) {
      const float a = (g0[i] + g1[i]) / 2.0f, mm = 0.9f * m[i] + static_cast<float>(1 - 0.9) * a,
                  vv = 0.999f * v[i] + static_cast<float>(1 - 0.999) * a * a;
      const float u = mm / c1 / (std::sqrt(vv / c2) + 1e-8f), ww = w[i] - 1e-3f * u;
      ASSERT_EQ(m1[i], mm) << i;
      ASSERT_EQ(v1[i], vv) << i;
      ASSERT_EQ(w1[i], ww) << i;
      ASSERT_EQ(p[i], f32_to_f16(ww)) << i;
    }
  }
}

TEST(EvaluatorLibrary, SumsRoundOnceInRankOrder) {
  StepShape s;
  s.reduced = {{Dtype::f16}, {Dtype::f16}, {Dtype::f16}, {Dtype::f16, Alignment::single}};
  s.reduced_dtype = Dtype::f16;
  s.targets = {{Dtype::f16}};
  const auto library = evaluator_library();
  const StepCode code = library->find({s})[0];
  const std::vector<uint16_t> a(9, f32_to_f16(2048)), b(9, f32_to_f16(1)), c(9, f32_to_f16(1)), d{f32_to_f16(-2)};
  std::vector<uint16_t> y(9);
  run(code, {a.data(), b.data(), c.data(), d.data()}, {y.data()}, 9, {});
  for (const uint16_t one : y) EXPECT_EQ(f16_to_f32(one), 2048);  // rounding at each step would lose both ones
}

TEST(EvaluatorLibrary, SumsInTheWidestSource) {
  StepShape s;
  s.reduced = {{Dtype::f64}, {Dtype::f32}, {Dtype::f64}};
  s.reduced_dtype = Dtype::f32;
  s.targets = {{Dtype::f64}};
  EXPECT_EQ(type_step(s)->accumulate, Dtype::f64);
  const auto library = evaluator_library();
  const StepCode code = library->find({s})[0];
  const double big = 1 << 24, little = -(1 << 24);
  const float one = 1;
  double y = 0;
  run(code, {&big, &one, &little}, {&y}, 1, {});
  EXPECT_EQ(y, 1);
  s.reduced = {{Dtype::i32}, {Dtype::i64}};
  s.reduced_dtype = Dtype::i32;
  EXPECT_EQ(type_step(s)->accumulate, Dtype::i64);
  s.reduced = {{Dtype::f16}, {Dtype::f8e4m3}};
  s.reduced_dtype = Dtype::f16;
  EXPECT_EQ(type_step(s)->accumulate, Dtype::f32);
}

TEST(EvaluatorLibrary, FoldsAddIntoTheirCell) {
  StepShape s;
  s.others = {{Dtype::i8}};
  s.kernel = parse_kernel("kernel k: x -> q, l\n  q = sum(x)\n  l = amax(x)");
  s.targets = {{Dtype::i64, 0, Store::accumulate}, {Dtype::i64, 1, Store::accumulate}};
  const auto library = evaluator_library();
  const StepCode code = library->find({s})[0];
  std::vector<int8_t> x;
  int64_t sum = 100;
  for (int i = 0; i < 1777; i++) x.push_back(static_cast<int8_t>(i % 251 - 125)), sum += x.back();
  int64_t q = 100, largest = -7;
  run(code, {x.data()}, {&q, &largest}, static_cast<int64_t>(x.size()), {});
  EXPECT_EQ(q, sum);
  EXPECT_EQ(largest, 125);
}

TEST(EvaluatorLibrary, FoldTreeIsThirtyTwoLanes) {
  StepShape s;
  s.others = {{Dtype::f32}};
  s.kernel = parse_kernel("kernel k: x -> q\n  q = sum(x)");
  s.targets = {{Dtype::f64, 0, Store::accumulate}};
  const auto library = evaluator_library();
  const StepCode code = library->find({s})[0];
  const std::vector<float> x = values(1003, 9);
  double lanes[32] = {}, q = 0.125;
  for (size_t i = 0; i < x.size(); i++) lanes[i % 32] += x[i];
  for (int half = 16; half > 0; half /= 2)
    for (int j = 0; j < half; j++) lanes[j] += lanes[j + half];
  run(code, {x.data()}, {&q}, 1003, {});
  EXPECT_EQ(q, 0.125 + lanes[0]);
}

TEST(EvaluatorLibrary, PositionsCountInTheWholeValue) {
  StepShape s;
  s.others = {{Dtype::f32}};
  s.kernel = parse_kernel("kernel k(seed): x -> y\n  y = x * select(rand(seed, 5) < 0.5, 0, 1)");
  s.targets = {{Dtype::f32}};
  const auto library = evaluator_library();
  const StepCode code = library->find({s})[0];
  const std::vector<float> x(1300, 1.0f);
  std::vector<float> whole(1300), pieces(1300);
  const expr::ScalarValue seed{true, 0x123456789abcdef, 0};
  run(code, {x.data()}, {whole.data()}, 1300, {seed}, 2, 77);
  for (int64_t at = 0; at < 1300; at += 129)
    run(code, {x.data() + at}, {pieces.data() + at}, std::min<int64_t>(129, 1300 - at), {seed}, 2, 77 + at);
  EXPECT_EQ(whole, pieces);
  const auto kept = std::count(whole.begin(), whole.end(), 1.0f);
  EXPECT_GT(kept, 550);
  EXPECT_LT(kept, 750);
}

TEST(EvaluatorLibrary, ThreadsShareOneCode) {
  StepShape s;
  s.reduced = {{Dtype::f32}, {Dtype::f32}};
  s.targets = {{Dtype::f32}};
  const auto library = evaluator_library();
  const StepCode code = library->find({s})[0];
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      const std::vector<float> a = values(2000, t), b = values(2000, 10 * t);
      std::vector<float> y(2000);
      for (int round = 0; round < 20; round++) {
        run(code, {a.data(), b.data()}, {y.data()}, 2000, {});
        for (size_t i = 0; i < y.size(); i++) wrong += y[i] != a[i] + b[i];
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Evaluator, RunsOfTypedKernels) {
  const Kernel kernel = parse_kernel("kernel k(s): x, b -> y, q\n  y = x * b + s\n  q = sum(y)");
  const std::vector<Dtype> inputs{Dtype::f32, Dtype::f32};
  const Evaluator evaluate(type(kernel, inputs));
  const std::vector<float> x = values(700, 1);
  const float b = 2;
  std::vector<float> y(700);
  double q = 0, expected = 0;
  const Alignment alignment[] = {Alignment::aligned, Alignment::single};
  const void* in[] = {x.data(), &b};
  void* out[] = {y.data(), &q};
  const expr::ScalarValue scalars[] = {{false, 0, 0.5}, {true, 2, 2}};
  evaluate({in, alignment, out, 700, 0, scalars});
  for (size_t i = 0; i < x.size(); i++) {
    ASSERT_EQ(y[i], x[i] * 2 + 0.5f);
    expected += y[i];
  }
  EXPECT_NEAR(q, expected, 1e-10);
}

TEST(Evaluator, TilesTakeTheirRowsFromTheCount) {
  const Kernel kernel = parse_kernel("kernel mm(rows, cols, batch): w, x -> y\n  y = matmul(x, w)");
  const std::vector<Dtype> inputs{Dtype::f64, Dtype::f64};
  const Evaluator evaluate(type(kernel, inputs));
  const std::vector<double> x = {1, 2, 3, 4}, w = {1, 1, 2, 2};  // batch 2: x [2, 1, 2], w [2, 2, 1]
  std::vector<double> y(2);
  const void* in[] = {w.data(), x.data()};
  void* out[] = {y.data()};
  const Alignment alignment[] = {Alignment::whole, Alignment::whole};
  const expr::ScalarValue scalars[] = {{true, 2, 0}, {true, 1, 0}, {true, 2, 0}, {true, 1, 0}};
  evaluate({in, alignment, out, 2, 0, scalars});
  EXPECT_EQ(y, (std::vector<double>{3, 14}));
  EXPECT_THROW(evaluate({in, alignment, out, 3, 0, scalars}), Error);
}
