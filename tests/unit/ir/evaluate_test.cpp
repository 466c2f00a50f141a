// The reference evaluator: every operation on 1 to 8 ranks against arithmetic written out here, every layout.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/ir/support.h"
#include "weft/expr/philox.h"

namespace weft::ir {
namespace {

Values run(const std::string& text, const Sizes& sizes, const Values& inputs, bool round = false) {
  return evaluate(parse(text), sizes, inputs, {round}).values;
}

void expect_near(const Tensor& a, const Tensor& b, double tolerance = 1e-12) {
  ASSERT_EQ(a.shape, b.shape);
  ASSERT_EQ(a.f.size(), b.f.size());
  for (size_t k = 0; k < a.f.size(); ++k)
    ASSERT_NEAR(a.f[k], b.f[k], tolerance * (1 + std::fabs(b.f[k]))) << "element " << k;
}
void expect_same(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.f, b.f);
  EXPECT_EQ(a.i, b.i);
}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OneToEight, Ranks, testing::Range(1, 9));

// ---- reductions over ranks
const std::string reductions =
    "program 1 t\ndim N\nin g f32[N] local\n"
    "a = all_reduce(sum, g)\np = all_reduce(prod, g)\nl = all_reduce(min, g)\nh = all_reduce(max, g)\nm = "
    "all_reduce(avg, g)\n"
    "s = reduce_scatter(sum, g, 0)\nr = reduce(avg, g, 0)\nout a\n";

TEST_P(Ranks, Reductions) {
  const int n = GetParam();
  for (const int64_t size : {0, 1, 7, 8, 17}) {
    const Values v =
        run(reductions, launch(n, {{"N", size}}),
            {{"g", per_rank(n, [&](int r) { return reals({size}, [&](int64_t i) { return coded(r, i); }); })}});
    for (int64_t i = 0; i < size; ++i) {
      double sum = 0, product = 1, least = 1e300, most = -1e300;
      for (int r = 0; r < n; ++r) {
        const double x = coded(r, i);
        sum += x, product *= x, least = std::min(least, x), most = std::max(most, x);
      }
      const auto at = static_cast<size_t>(i);
      for (int r = 0; r < n; ++r) {
        const auto rank = static_cast<size_t>(r);
        EXPECT_DOUBLE_EQ(v.at("a")[rank].f[at], sum);
        EXPECT_NEAR(v.at("p")[rank].f[at], product, 1e-12 * std::fabs(product));
        EXPECT_EQ(v.at("l")[rank].f[at], least);
        EXPECT_EQ(v.at("h")[rank].f[at], most);
        EXPECT_DOUBLE_EQ(v.at("m")[rank].f[at], sum / n);
      }
      EXPECT_DOUBLE_EQ(v.at("r")[0].f[at], sum / n);
    }
    for (int r = 0; r < n; ++r) expect_same(v.at("s")[static_cast<size_t>(r)], cut(v.at("a")[0], 0, r, n));
    for (int r = 1; r < n; ++r) EXPECT_TRUE(v.at("r")[static_cast<size_t>(r)].f.empty());
  }
}

TEST_P(Ranks, IntegersWrapAtTheirDtype) {
  const int n = GetParam();
  const std::string text =
      "program 1 t\ndim N\nin g i8[N] local\nin u u64[N] local\na = all_reduce(sum, g)\nb = g * g\nc = sum(g)\nd = "
      "all_reduce(max, u)\ne = u / 3\nf = u > 5\nout a\n";
  const auto value = [](int r, int64_t i) { return (r * 67 + i * 91) % 256 - 128; };
  const Values v = run(text, launch(n, {{"N", 9}}),
                       {{"g", per_rank(n,
                                       [&](int r) {
                                         return integers(
                                             {9}, [&](int64_t i) { return value(r, i); }, Dtype::i8);
                                       })},
                        {"u", per_rank(n, [&](int r) {
                           return integers(
                               {9}, [&](int64_t i) { return i == 0 ? -1 - r : i; }, Dtype::u64);
                         })}});
  int64_t total = 0;
  for (int64_t i = 0; i < 9; ++i) {
    int64_t sum = 0;
    for (int r = 0; r < n; ++r) sum += value(r, i);
    EXPECT_EQ(v.at("a")[0].i[static_cast<size_t>(i)], static_cast<int8_t>(sum));
    EXPECT_EQ(v.at("b")[0].i[static_cast<size_t>(i)], static_cast<int8_t>(value(0, i) * value(0, i)));
    total += value(0, i);
  }
  EXPECT_EQ(v.at("c")[0].i[0], total);  // D4: i64
  EXPECT_EQ(v.at("d")[0].i[0], -1);     // 2^64 - 1 is the largest
  EXPECT_EQ(static_cast<uint64_t>(v.at("e")[0].i[0]), UINT64_MAX / 3);
  EXPECT_EQ(v.at("f")[0].i, (std::vector<int64_t>{1, 0, 0, 0, 0, 0, 1, 1, 1}));
}

// ---- moves
TEST_P(Ranks, MovesNeverChangeAValue) {
  const int n = GetParam();
  const std::string root = std::to_string(n - 1);
  const std::string text =
      "program 1 t\ndim A B\nin x f32[A, B] sliced(0)\nin y f32[A, B] sliced(1)\nin r f32[A, B] root(" + root +
      ")\nin l f32[A, B] local\n"
      "xg = all_gather(x)\nyg = all_gather(y)\nxk = gather(x, " +
      root +
      ")\nxx = all_to_all(x, 1)\nyy = all_to_all(y, 0)\n"
      "rb = broadcast(r)\nrs = scatter(r, 1)\nlb = broadcast(l, " +
      root + ")\nout xg\n";
  for (const int64_t a : {0, 1, 5, 8}) {
    const Tensor whole = reals({a, 7}, [](int64_t i) { return coded(3, i); });
    const auto mine = [&](int r) { return reals({a, 7}, [&](int64_t i) { return coded(r, i); }); };
    const Values v = run(text, launch(n, {{"A", a}, {"B", 7}}),
                         {{"x", slices(whole, 0, n)},
                          {"y", slices(whole, 1, n)},
                          {"l", per_rank(n, mine)},
                          {"r", per_rank(n, [&](int r) { return r == n - 1 ? whole : Tensor{}; })}});
    for (int r = 0; r < n; ++r) {
      const auto rank = static_cast<size_t>(r);
      expect_same(v.at("xg")[rank], whole);
      expect_same(v.at("yg")[rank], whole);
      expect_same(v.at("rb")[rank], whole);
      expect_same(v.at("lb")[rank], mine(n - 1));
      expect_same(v.at("xx")[rank], cut(whole, 1, r, n));
      expect_same(v.at("yy")[rank], cut(whole, 0, r, n));
      expect_same(v.at("rs")[rank], cut(whole, 1, r, n));
    }
    expect_same(v.at("xk")[static_cast<size_t>(n - 1)], whole);
  }
}

TEST_P(Ranks, AllToAllOfEqualBlocks) {
  const int n = GetParam();
  const Values v = run("program 1 t\ndim N\nin x f32[N, 2] local\ny = all_to_all(x)\nout y\n",
                       launch(n, {{"N", 3 * n}}), {{"x", per_rank(n, [&](int r) {
                                                      return reals({3 * n, 2}, [&](int64_t i) { return coded(r, i); });
                                                    })}});
  for (int r = 0; r < n; ++r)
    for (int from = 0; from < n; ++from)
      for (int64_t k = 0; k < 6; ++k)
        EXPECT_EQ(v.at("y")[static_cast<size_t>(r)].f[static_cast<size_t>(from * 6 + k)], coded(from, r * 6 + k));
}

// Mixture of experts: rows go to their expert and come back to where they were.
TEST_P(Ranks, RaggedRowsTravelAndReturn) {
  const int n = GetParam();
  const auto count = [n](int from, int to) { return (from * 3 + to * 5 + n) % 4; };
  const auto rows = [&](int r) {
    int64_t sum = 0;
    for (int to = 0; to < n; ++to) sum += count(r, to);
    return sum;
  };
  const std::string text =
      "program 1 t\ndim R H\nragged T by c\nin c i64[R] local\nin x f32[T, H] local\nin w f32[H] local\ne = "
      "all_to_all(x)\no = e * w\ny = all_to_all(o)\nout y\n";
  const Values v = run(
      text, launch(n, {{"R", n}, {"H", 3}}),
      {{"c",
        per_rank(n, [&](int r) { return integers({n}, [&](int64_t to) { return count(r, static_cast<int>(to)); }); })},
       {"x", per_rank(n,
                      [&](int r) {
                        return reals({rows(r), 3}, [&](int64_t i) { return coded(r, i); });
                      })},
       {"w", per_rank(n, [&](int r) { return reals({3}, [&](int64_t) { return r + 2.0; }); })}});
  for (int r = 0; r < n; ++r) {
    const Tensor& y = v.at("y")[static_cast<size_t>(r)];
    ASSERT_EQ(y.shape, (std::vector<int64_t>{rows(r), 3}));
    int64_t row = 0;
    for (int to = 0; to < n; ++to)
      for (int k = 0; k < count(r, to); ++k, ++row)
        for (int64_t h = 0; h < 3; ++h)
          EXPECT_DOUBLE_EQ(y.f[static_cast<size_t>(row * 3 + h)], coded(r, row * 3 + h) * (to + 2.0));
  }
}

// ---- groups
TEST(Groups, SendGoesToTheNextGroupAndIsAbsentOnTheFirst) {
  const int n = 6;
  const std::string text =
      "program 1 t\ndim N\ngroup stage = world.split(3)\nin x f32[N] local on stage\ns = all_reduce(sum, x)\nf = "
      "send(s, 1)\nb = send(s, -1)\nc = f + b\nout c\n";
  const Values v = run(text, launch(n, {{"N", 2}}),
                       {{"x", per_rank(n, [](int r) { return reals({2}, [&](int64_t i) { return coded(r, i); }); })}});
  const auto sum_of = [](int stage, int64_t i) { return coded(2 * stage, i) + coded(2 * stage + 1, i); };
  for (int r = 0; r < n; ++r) {
    const auto rank = static_cast<size_t>(r);
    EXPECT_DOUBLE_EQ(v.at("s")[rank].f[1], sum_of(r / 2, 1));
    if (r < 2)
      EXPECT_TRUE(v.at("f")[rank].f.empty());
    else
      EXPECT_DOUBLE_EQ(v.at("f")[rank].f[0], sum_of(r / 2 - 1, 0));
    if (r / 2 == 1)
      EXPECT_DOUBLE_EQ(v.at("c")[rank].f[0], sum_of(0, 0) + sum_of(2, 0));
    else
      EXPECT_TRUE(v.at("c")[rank].f.empty());
  }
}

TEST(Groups, AcrossJoinsRankIOfEveryStage) {
  const int n = 6;
  const std::string text =
      "program 1 t\ndim N\ngroup stage = world.split(2)\ngroup col = stage.across\nin x f32[N] local on col\ns = "
      "all_reduce(sum, x)\nt = reduce_scatter(sum, x, 0)\nout s\n";
  const Values v = run(text, launch(n, {{"N", 3}}),
                       {{"x", per_rank(n, [](int r) { return reals({3}, [&](int64_t i) { return coded(r, i); }); })}});
  for (int r = 0; r < n; ++r) {
    EXPECT_DOUBLE_EQ(v.at("s")[static_cast<size_t>(r)].f[2], coded(r % 3, 2) + coded(r % 3 + 3, 2));
    EXPECT_EQ(v.at("t")[static_cast<size_t>(r)].shape[0], r < 3 ? 1 : 2);
  }
}

TEST(Groups, RanksMustSplit) {
  const Program program =
      parse("program 1 t\ndim N\ngroup stage = world.split(2)\nin x f32[N] local on stage\nout x\n");
  EXPECT_THROW(evaluate(program, launch(3, {{"N", 1}}),
                        {{"x", per_rank(3, [](int) { return reals({1}, [](int64_t) { return 1.0; }); })}}),
               Error);
}

// ---- computations: the same value whoever has which part of it
TEST_P(Ranks, MatmulInEveryCut) {
  const int n = GetParam();
  const std::string text =
      "program 1 t\ndim M K N\nin a f32[M, K] replicated\nin am f32[M, K] sliced(0)\nin ak f32[M, K] sliced(1)\nin b "
      "f32[K, N] replicated\nin bk f32[K, N] sliced(0)\nin bn f32[K, N] sliced(1)\n"
      "whole = matmul(a, b)\nrows = matmul(am, b)\ncolumns = matmul(a, bn)\npending = matmul(ak, bk)\nhalf = matmul(a, "
      "bk)\nchosen = matmul(a, b) cut 1\n"
      "done = all_reduce(sum, pending)\nsame = all_reduce(sum, half)\nr = all_gather(rows)\nc = all_gather(columns)\nd "
      "= all_gather(chosen)\nout whole\n";
  for (const int64_t k : {0, 1, 5, 9}) {
    const Tensor a = reals({3, k}, [](int64_t i) { return coded(1, i); }),
                 b = reals({k, 4}, [](int64_t i) { return coded(2, i + 50); });
    const Values v = run(text, launch(n, {{"M", 3}, {"K", k}, {"N", 4}}),
                         {{"a", everywhere(a, n)},
                          {"am", slices(a, 0, n)},
                          {"ak", slices(a, 1, n)},
                          {"b", everywhere(b, n)},
                          {"bk", slices(b, 0, n)},
                          {"bn", slices(b, 1, n)}});
    const Tensor whole = reals({3, 4}, [&](int64_t i) {
      double sum = 0;
      for (int64_t j = 0; j < k; ++j)
        sum += a.f[static_cast<size_t>(i / 4 * k + j)] * b.f[static_cast<size_t>(j * 4 + i % 4)];
      return sum;
    });
    expect_near(v.at("whole")[0], whole);
    for (const char* name : {"done", "same", "r", "c", "d"}) expect_near(v.at(name)[static_cast<size_t>(n - 1)], whole);
  }
}

TEST_P(Ranks, BatchedMatmul) {
  const int n = GetParam();
  const std::string text =
      "program 1 t\ndim B M K N\nin a f32[B, M, K] sliced(0)\nin b f32[B, K, N] replicated\ny = matmul(a, b)\nz = "
      "all_gather(y)\nout z\n";
  const Tensor a = reals({5, 2, 3}, [](int64_t i) { return coded(1, i); }),
               b = reals({5, 3, 2}, [](int64_t i) { return coded(0, i + 9); });
  const Values v =
      run(text, launch(n, {{"B", 5}, {"M", 2}, {"K", 3}, {"N", 2}}), {{"a", slices(a, 0, n)}, {"b", everywhere(b, n)}});
  for (int64_t i = 0; i < 20; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < 3; ++j)
      sum += a.f[static_cast<size_t>(i / 2 * 3 + j)] * b.f[static_cast<size_t>((i / 4 * 3 + j) * 2 + i % 2)];
    EXPECT_NEAR(v.at("z")[0].f[static_cast<size_t>(i)], sum, 1e-12);
  }
}

TEST_P(Ranks, Convolution) {
  const int n = GetParam();
  const std::string text =
      "program 1 t\ndim B C O\nin x f32[B, C, 4, 5] replicated\nin xb f32[B, C, 4, 5] sliced(0)\nin xc f32[B, C, 4, 5] "
      "sliced(1)\nin w f32[O, C, 3, 2] replicated\nin wo f32[O, C, 3, 2] sliced(0)\n"
      "whole = conv2d(x, w)\nb = conv2d(xb, w)\no = conv2d(x, wo)\nc = conv2d(xc, w)\nbg = all_gather(b)\nog = "
      "all_gather(o)\ncg = all_reduce(sum, c)\nout whole\n";
  const Tensor x = reals({3, 2, 4, 5}, [](int64_t i) { return coded(1, i); }),
               w = reals({2, 2, 3, 2}, [](int64_t i) { return coded(2, i); });
  const Values v = run(text, launch(n, {{"B", 3}, {"C", 2}, {"O", 2}}),
                       {{"x", everywhere(x, n)},
                        {"xb", slices(x, 0, n)},
                        {"xc", slices(x, 1, n)},
                        {"w", everywhere(w, n)},
                        {"wo", slices(w, 0, n)}});
  // One element written out: batch 1, output channel 1, row 0, column 4 (at two borders): kernel rows 1 and 2 are
  // inside, kernel column 0 alone is (column 1 reads beyond the right border).
  double sum = 0;
  for (int64_t c = 0; c < 2; ++c)
    for (int64_t dy = 1; dy < 3; ++dy)
      sum +=
          x.f[static_cast<size_t>(((2 + c) * 4 + dy - 1) * 5 + 4)] * w.f[static_cast<size_t>(((2 + c) * 3 + dy) * 2)];
  EXPECT_NEAR(v.at("whole")[0].f[static_cast<size_t>((3 * 4 + 0) * 5 + 4)], sum, 1e-12);
  for (const char* name : {"bg", "og", "cg"}) expect_near(v.at(name)[0], v.at("whole")[0]);
}

TEST_P(Ranks, FoldsInEveryCut) {
  const int n = GetParam();
  for (const char* fold : {"sum", "prod", "amax", "amin"}) {
    const std::string f = fold, op = f == "amax" ? "max" : f == "amin" ? "min" : f;
    const std::string text =
        "program 1 t\ndim A B\nin x f32[A, B] replicated\nin x0 f32[A, B] sliced(0)\n"
        "all = " +
        f + "(x)\nrow = " + f + "(x, -1)\ncolumn = " + f + "(x, 0)\nboth = " + f +
        "(x, 0, 1)\n"
        "all.p = " +
        f + "(x0)\nall2 = all_reduce(" + op + ", all.p)\nrow.s = " + f +
        "(x0, -1)\nrow2 = all_gather(row.s)\ncol.p = " + f + "(x0, 0)\ncolumn2 = all_reduce(" + op +
        ", col.p)\n"
        "cut.p = " +
        f + "(x) cut 1\ncut2 = all_reduce(" + op + ", cut.p)\nout all\n";
    const Tensor x = reals({5, 3}, [](int64_t i) { return coded(1, i) + 0.5; });
    const Values v = run(text, launch(n, {{"A", 5}, {"B", 3}}), {{"x", everywhere(x, n)}, {"x0", slices(x, 0, n)}});
    double all = f == "prod" ? 1 : f == "amax" ? -1e300 : f == "amin" ? 1e300 : 0;
    for (const double e : x.f)
      all = f == "sum" ? all + e : f == "prod" ? all * e : f == "amax" ? std::max(all, e) : std::min(all, e);
    EXPECT_NEAR(v.at("all")[0].f[0], all, 1e-12 * (1 + std::fabs(all)));
    EXPECT_EQ(v.at("row")[0].shape, (std::vector<int64_t>{5, 1}));
    EXPECT_EQ(v.at("column")[0].shape, (std::vector<int64_t>{1, 3}));
    EXPECT_EQ(v.at("both")[0].shape, (std::vector<int64_t>{1, 1}));
    expect_near(v.at("all2")[0], v.at("all")[0]);
    expect_near(v.at("row2")[0], v.at("row")[0]);
    expect_near(v.at("column2")[0], v.at("column")[0]);
    expect_near(v.at("cut2")[0], v.at("all")[0]);
  }
}

// Folds per tensor where tensors lie across slices, are empty, or of one element.
TEST_P(Ranks, FoldsPerTensor) {
  const int n = GetParam();
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{3, 0, 1, 7}, {1, 1}, {0, 2}, {13}}) {
    Sizes sizes = launch(n);
    int64_t total = 0;
    for (const int64_t length : lengths) sizes.tensors["P"].push_back({length}), total += length;
    const Tensor w = reals({total}, [](int64_t i) { return coded(1, i); });
    const Values v =
        run("program 1 t\ntensors P\nin w f32[P] replicated\nin ws f32[P] sliced(0)\n"
            "a = sum(w * w by P)\nb.p = sum(ws * ws by P)\nb = all_reduce(sum, b.p)\nu = w / (1 + a)\nu.s = ws / (1 + "
            "b)\nu2 = all_gather(u.s)\nout a\n",
            sizes, {{"w", everywhere(w, n)}, {"ws", slices(w, 0, n)}});
    size_t element = 0;
    for (size_t t = 0; t < lengths.size(); ++t) {
      double sum = 0;
      for (int64_t k = 0; k < lengths[t]; ++k)
        sum += w.f[element + static_cast<size_t>(k)] * w.f[element + static_cast<size_t>(k)];
      EXPECT_DOUBLE_EQ(v.at("a")[0].f[t], sum);
      EXPECT_NEAR(v.at("b")[0].f[t], sum, 1e-12 * (1 + sum));
      for (int64_t k = 0; k < lengths[t]; ++k, ++element)
        EXPECT_DOUBLE_EQ(v.at("u")[0].f[element], w.f[element] / (1 + sum));
    }
    expect_near(v.at("u2")[0], v.at("u")[0]);
  }
}

TEST_P(Ranks, PositionsAreGlobal) {
  const int n = GetParam();
  const std::string text =
      "program 1 t\ndim A B\nscalar seed i64\nin x f32[A, B] replicated\nin x0 f32[A, B] sliced(0)\nin x1 f32[A, B] "
      "sliced(1)\n"
      "a = select(rand(seed, 3) < 0.5, x, index(0) * 100 + index(1))\nb.s = select(rand(seed, 3) < 0.5, x0, index(0) * "
      "100 + index(1))\nc.s = select(rand(seed, 3) < 0.5, x1, index(0) * 100 + index(1))\n"
      "d.s = select(rand(seed, 3) < 0.5, x, index(0) * 100 + index(1)) cut 1\nb = all_gather(b.s)\nc = "
      "all_gather(c.s)\nd = all_gather(d.s)\nout a\n";
  Sizes sizes = launch(n, {{"A", 5}, {"B", 6}});
  sizes.scalars["seed"] = whole(int64_t(1) << 40 | 7);
  const Tensor x = reals({5, 6}, [](int64_t i) { return -1.0 - static_cast<double>(i); });
  const Values v = run(text, sizes, {{"x", everywhere(x, n)}, {"x0", slices(x, 0, n)}, {"x1", slices(x, 1, n)}});
  for (int64_t i = 0; i < 30; ++i) {
    const double drawn = expr::uniform((uint64_t(1) << 40) | 7, 3, static_cast<uint64_t>(i));
    EXPECT_EQ(v.at("a")[0].f[static_cast<size_t>(i)],
              drawn < 0.5 ? x.f[static_cast<size_t>(i)] : static_cast<double>(i / 6 * 100 + i % 6));
  }
  for (const char* name : {"b", "c", "d"}) expect_same(v.at(name)[0], v.at("a")[0]);
}

// ---- functions, rounding
TEST(Functions, AgainstTheCLibrary) {
  const std::string text =
      "program 1 t\ndim N\nin x f64[N] replicated\n"
      "a = sqrt(x)\nb = rsqrt(x)\nc = exp(x)\nd = log(x)\ne = tanh(x)\nf = sigmoid(x)\ng = relu(x - 1.0)\nh = "
      "gelu(x)\ni = silu(x)\nj = abs(-x)\nk = min(x, 1.0)\nl = max(x, 1.0)\nm = x ^ 3\nn = select(x > 1.0, x, -x)\no = "
      "f64(i64(x))\nout a\n";
  const Tensor x = reals(
      {20}, [](int64_t i) { return 0.15 * static_cast<double>(i) + 0.05; }, Dtype::f64);
  const Values v = run(text, launch(1, {{"N", 20}}), {{"x", {x}}});
  for (size_t i = 0; i < x.f.size(); ++i) {
    const double y = x.f[i];
    const auto of = [&](const char* name) { return v.at(name)[0].f[i]; };
    EXPECT_DOUBLE_EQ(of("a"), std::sqrt(y));
    EXPECT_DOUBLE_EQ(of("b"), 1 / std::sqrt(y));
    EXPECT_DOUBLE_EQ(of("c"), std::exp(y));
    EXPECT_DOUBLE_EQ(of("d"), std::log(y));
    EXPECT_DOUBLE_EQ(of("e"), std::tanh(y));
    EXPECT_DOUBLE_EQ(of("f"), 1 / (1 + std::exp(-y)));
    EXPECT_DOUBLE_EQ(of("g"), std::max(y - 1, 0.0));
    EXPECT_NEAR(of("h"), y * 0.5 * (1 + std::erf(y / std::sqrt(2.0))),
                1e-3);  // the tanh form stays this near to the normal one
    EXPECT_DOUBLE_EQ(of("i"), y / (1 + std::exp(-y)));
    EXPECT_EQ(of("j"), y);
    EXPECT_EQ(of("k"), std::min(y, 1.0));
    EXPECT_EQ(of("l"), std::max(y, 1.0));
    EXPECT_DOUBLE_EQ(of("m"), y * y * y);
    EXPECT_EQ(of("n"), y > 1 ? y : -y);
    EXPECT_EQ(of("o"), std::trunc(y));
  }
}

TEST(Rounding, NamedValuesOnly) {
  const std::string text =
      "program 1 t\ndim N\nin x f16[N] replicated\ny = x / 3\nz = f32(x) / 3\nw = f32(f16(z)) + 0.0\nout y\n";
  const Values inputs = {{"x",
                          {reals(
                              {1}, [](int64_t) { return 1.0; }, Dtype::f16)}}};
  const Values exact = run(text, launch(1, {{"N", 1}}), inputs),
               rounded = run(text, launch(1, {{"N", 1}}), inputs, true);
  EXPECT_EQ(exact.at("y")[0].f[0], 1.0 / 3);
  EXPECT_EQ(rounded.at("y")[0].f[0], static_cast<double>(f16_to_f32(f32_to_f16(1.0f / 3))));
  EXPECT_EQ(rounded.at("z")[0].f[0], static_cast<double>(1.0f / 3));
  EXPECT_EQ(rounded.at("w")[0].f[0], rounded.at("y")[0].f[0]);
}

// D2 in the reference: positions take the dtype of what they meet; scalars by themselves are integers or f64.
TEST(Weak, NumbersTakeTheDtypeOfWhatTheyMeet) {
  const std::string text =
      "program 1 t\ndim N\nscalar k i64\nlet half = k / 2\nin x f64[N] replicated\nin n i8[N] replicated\n"
      "a = x + index(0) / 2\nb = n + index(0) / 2\nc = x * half\nd = x * (1 / 2)\ne = n * (100 * 3 / 4)\nf = x * N * "
      "ranks\ng = n * n / 2\nh = select(index(0) < 2, x, 0)\nout a\n";
  Sizes sizes = launch(3, {{"N", 4}});
  sizes.scalars["k"] = whole(7);
  const Values v = run(text, sizes,
                       {{"x", everywhere(reals(
                                             {4}, [](int64_t) { return 1.0; }, Dtype::f64),
                                         3)},
                        {"n", everywhere(integers(
                                             {4}, [](int64_t i) { return 100 + i; }, Dtype::i8),
                                         3)}});
  EXPECT_EQ(v.at("a")[0].f, (std::vector<double>{1, 1.5, 2, 2.5}));
  EXPECT_EQ(v.at("b")[0].i, (std::vector<int64_t>{100, 101, 103, 104}));
  EXPECT_EQ(v.at("c")[0].f[0], 3);
  EXPECT_EQ(v.at("d")[0].f[0], 0);
  EXPECT_EQ(v.at("e")[0].i[0], static_cast<int8_t>(100 * 75));
  EXPECT_EQ(v.at("f")[0].f[0], 12);
  EXPECT_EQ(v.at("g")[0].i[0], static_cast<int8_t>(100 * 100) / 2);
  EXPECT_EQ(v.at("h")[0].f, (std::vector<double>{1, 1, 0, 0}));
}

// ---- launches
TEST(Launch, Requirements) {
  const Program program = parse(
      "program 1 t\ndim H\ngroup stage = world.split(2)\nrequire H % ranks == 0\nrequire ranks(stage) > 1\nin x f32[H] "
      "local\nout x\n");
  EXPECT_NO_THROW(check_requirements(program, launch(4, {{"H", 8}})));
  try {
    check_requirements(program, launch(4, {{"H", 10}}));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    EXPECT_EQ(error.message(), "program t requires H % ranks == 0; here H = 10, ranks = 4");
  }
  EXPECT_THROW(check_requirements(program, launch(2, {{"H", 10}})), Error);
  EXPECT_THROW(check_requirements(program, launch(4)), Error);
}

std::string launch_error(const std::string& text, const Sizes& sizes) {
  try {
    check_requirements(parse(text), sizes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    EXPECT_FALSE(error.remedy().empty());
    return error.message();
  }
  return "accepted";
}

TEST(Launch, TooManyElements) {
  EXPECT_EQ(launch_error("program 1 t\nin x f32[9223372036854775807] local\nout x\n", launch(1)),
            "[9223372036854775807]: too many elements, 9223372036854775807");
  const std::string matrix = "program 1 t\ndim N M\nin x f32[N, M, 0, N] local\nout x\n";
  EXPECT_EQ(launch_error(matrix, launch(1, {{"N", 1 << 26}, {"M", 3}})),
            "[N, M, 0, N]: too many elements, 67108864 x 3 x 0 x 67108864");
  EXPECT_EQ(launch_error(matrix, launch(1, {{"N", 1 << 26}, {"M", 1}})), "accepted");
  EXPECT_EQ(launch_error(matrix, launch(1, {{"N", -1}, {"M", 1}})), "size N is -1");
  const std::string list = "program 1 t\ntensors P\nin x f32[P] local\nout x\n";
  Sizes sizes = launch(2);
  sizes.tensors["P"] = {{int64_t{1} << 40, 1 << 12}, {1 << 20, 1 << 20, 1 << 12}, {1}};
  EXPECT_EQ(launch_error(list, sizes), "tensors P, all together: too many elements, 9007199254740993");
  sizes.tensors["P"] = {{int64_t{1} << 40, 1 << 14}};
  EXPECT_EQ(launch_error(list, sizes), "a tensor of P: too many elements, 1099511627776 x 16384");
  sizes.tensors["P"] = {{0, 5}, {int64_t{1} << 53}};
  EXPECT_EQ(launch_error(list, sizes), "accepted");
}

TEST(Launch, L3_RootsAreRanksOfTheGroup) {
  try {
    check_requirements(parse("program 1 t\ndim N\nin x f32[N] root(1)\nout x\n"), launch(1, {{"N", 3}}));
    FAIL() << "accepted";
  } catch (const Error& error) { EXPECT_EQ(error.rule(), "L3"); }
  const std::string rooted =
      "program 1 t\ndim N\nscalar k i64\nin x f32[N] local\na = reduce(sum, x, 99)\ny = broadcast(a)\nout y\n";
  EXPECT_EQ(launch_error(rooted, launch(2, {{"N", 3}})), "a: root 99 of a group of 2 ranks");
  EXPECT_EQ(launch_error(rooted, launch(100, {{"N", 3}})), "accepted");
  try {
    check_requirements(parse(rooted), launch(2, {{"N", 3}}));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "5:20: L3: a: root 99 of a group of 2 ranks\n    a = reduce(sum, x, 99)\n                       ^^\n    roots "
        "count from 0: take one below 2, or launch on more ranks");
  }
  EXPECT_EQ(launch_error("program 1 t\ndim N\nin x f32[N] root(1)\nout x\n", launch(1, {{"N", 3}})),
            "x: root 1 of a group of 1 rank");
  EXPECT_EQ(launch_error("program 1 t\ndim N\nin x f32[N] root(9999999999)\nout x\n", launch(1, {{"N", 3}})),
            "root 9999999999 is no rank");
  Sizes sizes = launch(4, {{"N", 3}});
  sizes.scalars["k"] = whole(2);
  const std::string named =
      "program 1 t\ndim N\nscalar k i64\ngroup s = world.split(2)\nin x f32[N] local on s\na = reduce(sum, x, k)\nout "
      "a\n";
  EXPECT_EQ(launch_error(named, sizes), "a: root k = 2 of a group of 2 ranks");
  sizes.scalars["k"] = whole(1);
  EXPECT_EQ(launch_error(named, sizes), "accepted");
}

TEST(Launch, InputsAreChecked) {
  const Program program =
      parse("program 1 t\ndim N\nscalar lr f64\nin x f32[N] replicated\nin y f32[N] sliced(0)\nz = x * lr\nout z\n");
  Sizes sizes = launch(2, {{"N", 3}});
  sizes.scalars["lr"] = real(2);
  const Tensor x = reals({3}, [](int64_t i) { return coded(0, i); });
  const Values good = {{"x", everywhere(x, 2)}, {"y", slices(x, 0, 2)}};
  EXPECT_NO_THROW(evaluate(program, sizes, good));
  const auto refused = [&](const Values& values, const Sizes& at) {
    try {
      evaluate(program, at, values);
    } catch (const Error& error) { return error.kind() == ErrorKind::user; }
    return false;
  };
  Values bad = good;
  bad["x"][1].f[0] += 1;
  EXPECT_TRUE(refused(bad, sizes)) << "replicated values differ";
  bad = good;
  bad["y"] = everywhere(x, 2);
  EXPECT_TRUE(refused(bad, sizes)) << "whole values for slices";
  bad = good;
  bad.erase("y");
  EXPECT_TRUE(refused(bad, sizes));
  bad = good;
  bad["x"].pop_back();
  EXPECT_TRUE(refused(bad, sizes));
  bad = good;
  bad["x"][0].dtype = bad["x"][1].dtype = Dtype::f64;
  EXPECT_TRUE(refused(bad, sizes));
  Sizes none = sizes;
  none.scalars.clear();
  EXPECT_TRUE(refused(good, none));
  none = sizes;
  none.dims.clear();
  EXPECT_TRUE(refused(good, none));
}

TEST(Launch, NewStatesComeBack) {
  const Values v =
      run("program 1 t\ndim N\nin g f32[N] local\nstate w f32[N] replicated\na = all_reduce(sum, g)\nw1 = w - "
          "a\nupdate w = w1\nout w\n",
          launch(2, {{"N", 2}}),
          {{"g", per_rank(2, [](int r) { return reals({2}, [&](int64_t) { return r + 1.0; }); })},
           {"w", everywhere(reals({2}, [](int64_t) { return 5.0; }), 2)}});
  EXPECT_EQ(v.at("update:w")[0].f[0], 2.0);
  EXPECT_EQ(v.at("w")[0].f[0], 5.0) << "a state's name means its content when the launch began";
}

}  // namespace
}  // namespace weft::ir
