// What whole programs mean, against the papers' formulas written out; the same program cut in other ways; and what
// CoCoNet (Jangda et al., ASPLOS 2022) got wrong, each as a test.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/ir/support.h"

namespace weft::ir {
namespace {

struct Setting {
  Sizes sizes;
  Values inputs;
};

// Gradients of every rank and states, over three tensors of which one lies across every slice border.
Setting optimizer_setting(int ranks, Dtype gradient, const std::vector<const char*>& states) {
  Setting s;
  s.sizes.ranks = ranks;
  s.sizes.tensors["P"] = {{2, 3}, {11}, {}};
  s.sizes.scalars = {{"lr", real(0.01)}, {"step", whole(3)}, {"scale", real(128)}};
  s.inputs["g"] = per_rank(ranks, [&](int r) {
    return reals(
        {18}, [&](int64_t i) { return coded(r, i) * (gradient == Dtype::f16 ? 64 : 1); }, gradient);
  });
  int state = 0;
  for (const char* name : states) {
    ++state;
    s.inputs[name] = everywhere(reals({18}, [&](int64_t i) { return std::fabs(coded(state, i)) + 0.01; }), ranks);
  }
  return s;
}

double average(const Setting& s, size_t i) {
  double sum = 0;
  for (const Tensor& g : s.inputs.at("g")) sum += g.f[i];
  return sum / s.sizes.ranks;
}

class Meaning : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Meaning, testing::Values(1, 2, 3, 5, 8));

// CoCoNet's "Adam" has no square root, no epsilon and no bias correction.
TEST_P(Meaning, AdamHasItsSquareRootEpsilonAndBiasCorrection) {
  const Setting s = optimizer_setting(GetParam(), Dtype::f32, {"m", "v", "w"});
  const Values v = evaluate(parse(example("adam")), s.sizes, s.inputs).values;
  for (size_t i = 0; i < 18; ++i) {
    const double g = average(s, i);
    const double m = 0.9 * s.inputs.at("m")[0].f[i] + 0.1 * g, n = 0.999 * s.inputs.at("v")[0].f[i] + 0.001 * g * g;
    const double step = (m / (1 - std::pow(0.9, 3))) / (std::sqrt(n / (1 - std::pow(0.999, 3))) + 1e-8);
    EXPECT_NEAR(v.at("w1")[0].f[i], s.inputs.at("w")[0].f[i] - 0.01 * step, 1e-12);
    EXPECT_NEAR(v.at("update:m")[0].f[i], m, 1e-12);
    EXPECT_NEAR(v.at("update:v")[0].f[i], n, 1e-12);
  }
}

TEST_P(Meaning, AdamWClipsByTheGlobalNorm) {
  Setting s = optimizer_setting(GetParam(), Dtype::f32, {"m", "v", "w"});
  for (Tensor& g : s.inputs.at("g"))
    for (double& value : g.f) value *= 10;
  const Values v = evaluate(parse(example("adamw")), s.sizes, s.inputs).values;
  double squares = 0;
  for (size_t i = 0; i < 18; ++i) squares += average(s, i) * average(s, i);
  const double c = std::min(1.0, 1.0 / (std::sqrt(squares) + 1e-6));
  ASSERT_LT(c, 1.0) << "the test should clip";
  for (size_t i = 0; i < 18; ++i) {
    const double d = c * average(s, i), w = s.inputs.at("w")[0].f[i];
    const double m = 0.9 * s.inputs.at("m")[0].f[i] + 0.1 * d, n = 0.999 * s.inputs.at("v")[0].f[i] + 0.001 * d * d;
    const double u = (m / (1 - std::pow(0.9, 3))) / (std::sqrt(n / (1 - std::pow(0.999, 3))) + 1e-8);
    EXPECT_NEAR(v.at("w1")[0].f[i], w - 0.01 * (u + 0.01 * w), 1e-12);
  }
}

// CoCoNet's LAMB takes one norm of everything packed together; LAMB's trust ratio is per tensor.
TEST_P(Meaning, LambScalesPerTensor) {
  const Setting s = optimizer_setting(GetParam(), Dtype::f32, {"m", "v", "w"});
  const Values v = evaluate(parse(example("lamb")), s.sizes, s.inputs).values;
  const size_t lengths[] = {6, 11, 1};
  size_t begin = 0;
  for (const size_t length : lengths) {
    double nw = 0, nu = 0;
    std::vector<double> u;
    for (size_t i = begin; i < begin + length; ++i) {
      const double g = average(s, i), w = s.inputs.at("w")[0].f[i];
      const double m = 0.9 * s.inputs.at("m")[0].f[i] + 0.1 * g, n = 0.999 * s.inputs.at("v")[0].f[i] + 0.001 * g * g;
      u.push_back((m / (1 - std::pow(0.9, 3))) / (std::sqrt(n / (1 - std::pow(0.999, 3))) + 1e-6) + 0.01 * w);
      nw += w * w, nu += u.back() * u.back();
    }
    for (size_t i = begin; i < begin + length; ++i)
      EXPECT_NEAR(v.at("w1")[0].f[i], s.inputs.at("w")[0].f[i] - 0.01 * std::sqrt(nw) / std::sqrt(nu) * u[i - begin],
                  1e-12);
    begin += length;
  }
}

TEST_P(Meaning, SgdWithMomentum) {
  const Setting s = optimizer_setting(GetParam(), Dtype::f32, {"m", "w"});
  const Values v = evaluate(parse(example("sgd")), s.sizes, s.inputs).values;
  for (size_t i = 0; i < 18; ++i) {
    const double w = s.inputs.at("w")[0].f[i], m = 0.9 * s.inputs.at("m")[0].f[i] + average(s, i) + 0.0001 * w;
    EXPECT_NEAR(v.at("w1")[0].f[i], w - 0.01 * m, 1e-12);
  }
}

TEST_P(Meaning, MixedAdamRoundsWhatItNames) {
  const Setting s = optimizer_setting(GetParam(), Dtype::f16, {"m", "v", "w"});
  const Values v = evaluate(parse(example("adam_mixed")), s.sizes, s.inputs, {true}).values;
  for (size_t i = 0; i < 18; ++i) {
    const float sum = f16_to_f32(f32_to_f16(static_cast<float>(average(s, i) * GetParam())));
    const float a = f16_to_f32(f32_to_f16(sum / static_cast<float>(GetParam())));
    EXPECT_EQ(v.at("a")[0].f[i], static_cast<double>(a));
    EXPECT_EQ(v.at("p")[0].f[i], static_cast<double>(f16_to_f32(f32_to_f16(static_cast<float>(v.at("w1")[0].f[i])))));
    EXPECT_EQ(v.at("w1")[0].f[i], static_cast<double>(static_cast<float>(v.at("w1")[0].f[i])));
  }
}

// Adam as ZeRO stores it, written by hand: slices of states, one gather; the same bits as the naive program.
TEST_P(Meaning, CutAdamGivesTheSameBits) {
  const std::string naive = example("adam");
  const std::string cut_text =
      "program 1 adam\ntensors P\nscalar lr f64\nscalar step i64\nlet b1 = 0.9\nlet b2 = 0.999\nlet eps = 1e-08\nin g "
      "f32[P] local\n"
      "state m f32[P] sliced(0)\nstate v f32[P] sliced(0)\nstate w f32[P] sliced(0)\n"
      "fuse f:\n  a.s = reduce_scatter(avg, g, 0)\n  m1.s = b1 * m + (1 - b1) * a.s\n  v1.s = b2 * v + (1 - b2) * a.s "
      "* a.s\n"
      "  u.s = m1.s / (1 - b1 ^ step) / (sqrt(v1.s / (1 - b2 ^ step)) + eps)\n  w1.s = w - lr * u.s\n  w1 = "
      "all_gather(w1.s)\n"
      "update m = m1.s\nupdate v = v1.s\nupdate w = w1.s\nout w1\n";
  EXPECT_EQ(print(parse(cut_text)), cut_text);
  const int n = GetParam();
  Setting s = optimizer_setting(n, Dtype::f32, {"m", "v", "w"});
  const Values whole = evaluate(parse(naive), s.sizes, s.inputs).values;
  for (const char* state : {"m", "v", "w"}) s.inputs[state] = slices(s.inputs[state][0], 0, n);
  const Values parts = evaluate(parse(cut_text), s.sizes, s.inputs).values;
  EXPECT_EQ(parts.at("w1")[0].f, whole.at("w1")[0].f);
  for (int r = 0; r < n; ++r)
    EXPECT_EQ(parts.at("update:m")[static_cast<size_t>(r)].f, cut(whole.at("m1")[0], 0, r, n).f);
}

Setting attention_setting(int ranks, int64_t hidden) {
  Setting s;
  s.sizes.ranks = ranks;
  s.sizes.dims = {{"B", 2}, {"S", 3}, {"K", 9}, {"H", hidden}};
  s.sizes.scalars = {{"seed", whole(42)}};
  const auto make = [](std::vector<int64_t> shape, int code) {
    return reals(
        std::move(shape), [&](int64_t i) { return coded(code, i); }, Dtype::f16);
  };
  s.inputs["x"] = slices(make({2, 3, 9}, 1), 2, ranks);
  s.inputs["w"] = slices(make({9, hidden}, 2), 0, ranks);
  s.inputs["b"] = everywhere(make({hidden}, 3), ranks);
  s.inputs["r"] = everywhere(make({2, 3, hidden}, 4), ranks);
  return s;
}

// CoCoNet slices the bias with everything else and reads it out of bounds, or without its rank's offset. Here factors
// decide: along the last dimension it is read in its part, along the others whole.
TEST_P(Meaning, TheBiasIsSlicedWhereItHasTheDimension) {
  const int n = GetParam();
  for (const int64_t hidden : {1, 5, 8}) {
    const Setting s = attention_setting(n, hidden);
    const Tensor naive = evaluate(parse(example("attention_end")), s.sizes, s.inputs).values.at("y")[0];
    for (const char* d : {"0", "1", "2"}) {
      const std::string dim = d;
      const std::string text =
          "program 1 t\ndim B S K H\nscalar seed i64\nin x f16[B, S, K] sliced(2)\nin w f16[K, H] sliced(0)\nin b "
          "f16[H] replicated\nin r f16[B, S, H] replicated\n"
          "layer = matmul(x, w)\ns.s = reduce_scatter(sum, layer, " +
          dim +
          ")\nd.s = select(rand(seed, 1) < 0.1, 0, (s.s + b) / (1 - 0.1))\ny.s = d.s + r\ny = all_gather(y.s)\nout y\n";
      const Program program = parse(text);
      EXPECT_EQ(std::get<Sliced>(infer(program).at("d.s").layout).dim, std::stoi(dim));
      EXPECT_EQ(evaluate(program, s.sizes, s.inputs).values.at("y")[0].f, naive.f) << "cut along " << dim;
    }
  }
}

// CoCoNet gives every thread one random number and never rescales.
TEST_P(Meaning, DropoutMasksDoNotDependOnLayoutOrRanksAndRescale) {
  const int n = GetParam();
  const std::string head = "program 1 t\ndim N\nscalar seed i64\n", drop = "y = dropout(x, 0.25, seed, 9)\nout y\n";
  Sizes sizes = launch(n, {{"N", 2000}}), one = launch(1, {{"N", 2000}});
  sizes.scalars["seed"] = one.scalars["seed"] = whole(7);
  const Tensor x = reals({2000}, [](int64_t) { return 3.0; });
  const Tensor whole_value =
      evaluate(parse(head + "in x f32[N] replicated\n" + drop), sizes, {{"x", everywhere(x, n)}}).values.at("y")[0];
  const Tensor alone = evaluate(parse(head + "in x f32[N] replicated\n" + drop), one, {{"x", {x}}}).values.at("y")[0];
  const Values cut_values = evaluate(parse(head + "in x f32[N] sliced(0)\n" + drop + "g = all_gather(y)\nout g\n"),
                                     sizes, {{"x", slices(x, 0, n)}})
                                .values;
  EXPECT_EQ(whole_value.f, alone.f);
  EXPECT_EQ(cut_values.at("g")[0].f, alone.f);
  int dropped = 0;
  for (const double value : alone.f) {
    EXPECT_TRUE(value == 0 || value == 3.0 / 0.75);
    dropped += value == 0;
  }
  EXPECT_NEAR(dropped, 500, 100);  // 5 standard deviations
}

// CoCoNet accepts any function of a pending sum, and takes local for partial.
TEST(Coconet, WhatIsNotLinearMayNotTouchAPendingSum) {
  const std::string head = "program 1 t\ndim B H\nin x f32[B, H] sliced(1)\nin b f32[B] replicated\np = sum(x, 1)\n";
  EXPECT_EQ(refusal(head + "y = p * p\n"), "L7");
  EXPECT_EQ(refusal(head + "y = p + 1.0\n"), "L7");
  EXPECT_EQ(refusal(head + "y = p * 2.0\n"), "accepted");
}
TEST(Coconet, LocalIsNotPartial) {
  const std::string head = "program 1 t\ndim N\nin g f32[N] local\nin b f32[N] replicated\n";
  EXPECT_EQ(refusal(head + "y = g + b\n"), "accepted");  // each rank's own value and b
  EXPECT_EQ(refusal(head + "y = all_reduce(sum, g + b)\n"), "accepted");
  EXPECT_EQ(refusal(head + "out g\n"), "accepted");
}
TEST(Coconet, ANormOfSlicesIsPending) {
  const Program program = parse("program 1 t\ndim N\nin x f32[N] sliced(0)\nn = sum(x * x)\n");
  EXPECT_EQ(print(infer(program).at("n").layout), "partial(sum)");  // its norm keeps the layout of x
}
TEST(Coconet, SizesAreComparedByName) {
  EXPECT_EQ(refusal("program 1 t\ndim N\nin a f32[N, 4] local\nin b f32[N, 4] local\ny = a + b\n"), "accepted");
}
TEST(Coconet, SlicedBySlicedContractsOnlyWhatIsContracted) {
  const std::string head = "program 1 t\ndim M K N\nin a f32[M, K] sliced(0)\nin b f32[K, N] sliced(0)\n";
  EXPECT_EQ(refusal(head + "y = matmul(a, b)\n"), "L9");  // rows of a against rows of b: no contraction is cut in both
}

TEST_P(Meaning, MlpEqualsItsFormula) {
  const int n = GetParam();
  Sizes sizes = launch(n, {{"B", 2}, {"S", 2}, {"H", 3}, {"F", 7}});
  sizes.scalars["seed"] = whole(1);
  const auto make = [](std::vector<int64_t> shape, int code) {
    return reals(
        std::move(shape), [&](int64_t i) { return coded(code, i) * 0.3; }, Dtype::f16);
  };
  const Tensor x = make({2, 2, 3}, 1), w1 = make({3, 7}, 2), b1 = make({7}, 3), w2 = make({7, 3}, 4), b2 = make({3}, 5);
  const Values v = evaluate(parse(complete_program("mlp")), sizes,
                            {{"x", everywhere(x, n)},
                             {"w1", slices(w1, 1, n)},
                             {"b1", slices(b1, 0, n)},
                             {"w2", slices(w2, 0, n)},
                             {"b2", everywhere(b2, n)}})
                       .values;
  for (size_t row = 0; row < 4; ++row)
    for (size_t h = 0; h < 3; ++h) {
      double z = 0;
      for (size_t f = 0; f < 7; ++f) {
        double t = b1.f[f];
        for (size_t k = 0; k < 3; ++k) t += x.f[row * 3 + k] * w1.f[k * 7 + f];
        z += 0.5 * t * (1 + std::tanh(0.7978845608028654 * (t + 0.044715 * t * t * t))) * w2.f[f * 3 + h];
      }
      EXPECT_NEAR(v.at("s")[0].f[row * 3 + h], z, 1e-9);
      const double y = v.at("y")[0].f[row * 3 + h] - x.f[row * 3 + h];
      EXPECT_TRUE(y == 0 || std::fabs(y - (v.at("s")[0].f[row * 3 + h] + b2.f[h]) / 0.9) < 1e-12);
    }
}

TEST_P(Meaning, LayerNormAndSoftmaxOfSlices) {
  const int n = GetParam();
  const std::string text =
      "program 1 t\ndim B H\nin x f64[B, H] replicated\nin x0 f64[B, H] sliced(0)\nin gain f64[H] replicated\nin bias "
      "f64[H] replicated\n"
      "l = layer_norm(x, gain, bias)\nr = rms_norm(x, gain)\ns = softmax(x, -1)\nm = mean(x, 0)\nq = norm(x)\n"
      "l0 = all_gather(layer_norm(x0, gain, bias))\ns0 = all_gather(softmax(x0, -1))\nm0 = all_reduce(sum, mean(x0, "
      "0))\nout l\n";
  const Tensor x = reals(
                   {5, 4}, [](int64_t i) { return coded(1, i * 7); }, Dtype::f64),
               gain = reals(
                   {4}, [](int64_t i) { return 1.0 + static_cast<double>(i); }, Dtype::f64),
               bias = reals(
                   {4}, [](int64_t i) { return 0.5 - static_cast<double>(i); }, Dtype::f64);
  const Values v = evaluate(parse(text), launch(n, {{"B", 5}, {"H", 4}}),
                            {{"x", everywhere(x, n)},
                             {"x0", slices(x, 0, n)},
                             {"gain", everywhere(gain, n)},
                             {"bias", everywhere(bias, n)}})
                       .values;
  double squares = 0;
  for (size_t row = 0; row < 5; ++row) {
    double mean = 0, variance = 0, square = 0, powers = 0;
    for (size_t h = 0; h < 4; ++h) mean += x.f[row * 4 + h] / 4;
    for (size_t h = 0; h < 4; ++h)
      variance += (x.f[row * 4 + h] - mean) * (x.f[row * 4 + h] - mean) / 4,
          square += x.f[row * 4 + h] * x.f[row * 4 + h] / 4, powers += std::exp(x.f[row * 4 + h]);
    squares += square * 4;
    for (size_t h = 0; h < 4; ++h) {
      const size_t at = row * 4 + h;
      EXPECT_NEAR(v.at("l")[0].f[at], (x.f[at] - mean) / std::sqrt(variance + 1e-5) * gain.f[h] + bias.f[h], 1e-10);
      EXPECT_NEAR(v.at("r")[0].f[at], x.f[at] / std::sqrt(square + 1e-6) * gain.f[h], 1e-10);
      EXPECT_NEAR(v.at("s")[0].f[at], std::exp(x.f[at]) / powers, 1e-12);
    }
  }
  EXPECT_NEAR(v.at("q")[0].f[0], std::sqrt(squares), 1e-12);
  EXPECT_EQ(v.at("l0")[0].f, v.at("l")[0].f);
  EXPECT_EQ(v.at("s0")[0].f, v.at("s")[0].f);
  for (size_t h = 0; h < 4; ++h) EXPECT_NEAR(v.at("m0")[0].f[h], v.at("m")[0].f[h], 1e-12);
}

}  // namespace
}  // namespace weft::ir
