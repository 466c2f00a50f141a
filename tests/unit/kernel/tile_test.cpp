// matmul() of every dtype against matmul_plain(), and both against a product written out; exact on small integers.
#include "weft/kernel/tile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

using namespace weft;
using namespace weft::kernel;

namespace {

struct Case {
  int64_t batch, rows, inner, cols;
  bool w_batched;
  int64_t pad;
};
const Case cases[] = {{1, 0, 3, 5, false, 0},     {1, 3, 0, 5, false, 0},    {1, 3, 5, 0, false, 0},
                      {0, 3, 5, 2, true, 0},      {1, 1, 1, 1, false, 0},    {1, 7, 13, 17, false, 0},
                      {2, 5, 9, 3, false, 2},     {3, 4, 16, 31, true, 0},   {2, 33, 65, 129, true, 1},
                      {1, 5, 300, 257, false, 3}, {1, 130, 2, 520, false, 0}};

struct Matrices {
  MatmulArgs args;
  std::vector<char> x, w, y;
  std::vector<int64_t> xi, wi;  // the values, as integers
};

constexpr char poison = 0x6b;

Matrices make(Dtype dtype, const Case& c, int64_t largest) {
  Matrices m;
  const int64_t bytes = size_bytes(dtype), xs = c.inner + c.pad, ws = c.cols + c.pad, ys = c.cols + c.pad;
  const int64_t x_rows = c.batch * c.rows, w_rows = (c.w_batched ? c.batch : 1) * c.inner;
  const auto fill = [&](std::vector<char>& bytes_of, std::vector<int64_t>& values, int64_t rows, int64_t stride,
                        int64_t salt) {
    bytes_of.assign(static_cast<size_t>(rows * stride * bytes), 0);
    for (int64_t i = 0; i < rows * stride; i++) {
      const int64_t unsigned_value = (i * 7 + i / 11 * 3 + salt) % (2 * largest + 1);
      const bool sign = is_float(dtype) || is_signed(dtype);
      values.push_back(dtype == Dtype::boolean ? unsigned_value % 2 : sign ? unsigned_value - largest : unsigned_value);
      store_i64(dtype, bytes_of.data() + i * bytes, values.back());
    }
  };
  fill(m.x, m.xi, x_rows, xs, 1);
  fill(m.w, m.wi, w_rows, ws, 5);
  m.y.assign(static_cast<size_t>(x_rows * ys * bytes + 16), poison);
  m.args = {dtype,      c.batch,        c.rows,      c.inner,    c.cols,         m.x.data(), c.pad ? xs : 0,
            m.w.data(), c.pad ? ws : 0, c.w_batched, m.y.data(), c.pad ? ys : 0, 1};
  return m;
}

void expect_exact(const Matrices& m, const Case& c, std::string_view what) {
  const Dtype dtype = m.args.dtype;
  const int64_t bytes = size_bytes(dtype), xs = c.inner + c.pad, ws = c.cols + c.pad, ys = c.cols + c.pad;
  std::vector<char> expected(m.y.size(), poison);
  for (int64_t r = 0; r < c.batch * c.rows; r++)
    for (int64_t j = 0; j < c.cols; j++) {
      int64_t sum = 0;
      for (int64_t k = 0; k < c.inner; k++)
        sum += m.xi[r * xs + k] * m.wi[((c.w_batched ? r / c.rows : 0) * c.inner + k) * ws + j];
      store_i64(dtype, expected.data() + (r * ys + j) * bytes, sum);
    }
  EXPECT_EQ(0, std::memcmp(expected.data(), m.y.data(), m.y.size()))
      << what << " " << name(dtype) << " " << c.batch << "x" << c.rows << "x" << c.inner << "x" << c.cols;
}

}  // namespace

TEST(Tile, ExactOnIntegersInEveryDtype) {
  for (const Dtype dtype : all_dtypes())
    for (const Case& c : cases)
      for (const int threads : {1, 2}) {
        Matrices m = make(dtype, c, 1);
        m.args.threads = threads;
        matmul_plain(m.args);
        expect_exact(m, c, "plain");
        std::fill(m.y.begin(), m.y.end(), poison);
        matmul(m.args);
        expect_exact(m, c, matmul_backend(dtype));
      }
}

TEST(Tile, IntegersWrap) {
  const Case c{1, 4, 200, 6, false, 0};
  for (const Dtype dtype : {Dtype::i8, Dtype::u8, Dtype::i16, Dtype::i32, Dtype::u64}) {
    Matrices m = make(dtype, c, 100);
    matmul(m.args);
    expect_exact(m, c, matmul_backend(dtype));
  }
}

TEST(Tile, SmallestBytesDoNotSaturate) {
  std::vector<int8_t> x(64 * 64, -128), w(64 * 64, -128), y(64 * 64, 1), z(64 * 64, 2);
  w[0] = 127;
  MatmulArgs a{Dtype::i8, 1, 64, 64, 64, x.data(), 0, w.data(), 0, false, y.data(), 0, 1};
  matmul(a);
  a.y = z.data();
  matmul_plain(a);
  EXPECT_EQ(y, z);
}

TEST(Tile, FloatsAgreeWithPlainToRounding) {
  const Case c{2, 37, 129, 65, true, 0};
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f8e4m3, Dtype::f8e5m2, Dtype::f64}) {
    Matrices m = make(dtype, c, 1), p = make(dtype, c, 1);
    for (size_t i = 0; i < m.xi.size(); i++)
      store_f64(dtype, m.x.data() + i * size_bytes(dtype), std::sin(static_cast<double>(i * i % 1000)));
    for (size_t i = 0; i < m.wi.size(); i++)
      store_f64(dtype, m.w.data() + i * size_bytes(dtype), std::cos(static_cast<double>(i * i)));
    p.x = m.x, p.w = m.w;
    p.args.x = p.x.data(), p.args.w = p.w.data(), p.args.y = p.y.data();
    matmul(m.args);
    matmul_plain(p.args);
    const double ulp = dtype == Dtype::f64    ? 1e-14
                       : dtype == Dtype::f32  ? 1e-5
                       : dtype == Dtype::f16  ? 2e-3
                       : dtype == Dtype::bf16 ? 2e-2
                                              : 0.3;
    double largest = 0;
    for (int64_t i = 0; i < c.batch * c.rows * c.cols; i++) {
      const double a = load_f64(dtype, m.y.data() + i * size_bytes(dtype)),
                   b = load_f64(dtype, p.y.data() + i * size_bytes(dtype));
      largest = std::max(largest, std::abs(a));
      ASSERT_NEAR(a, b, ulp * (1 + std::abs(b))) << name(dtype) << " " << i << " by " << matmul_backend(dtype);
    }
    EXPECT_GT(largest, 0.5);
  }
}

TEST(Tile, BackendsAreNamed) {
  for (const Dtype dtype : all_dtypes()) {
    const std::string_view backend = matmul_backend(dtype);
    EXPECT_TRUE(backend == "onednn" || backend == "converted" || backend == "plain") << backend;
    if (dtype == Dtype::f64 || dtype == Dtype::i32) { EXPECT_EQ(backend, "plain"); }
  }
}

TEST(Tile, WrongArgumentsAreRefused) {
  float one = 1;
  EXPECT_THROW(matmul({Dtype::f64x2, 1, 1, 1, 1, &one, 0, &one, 0, false, &one, 0, 1}), Error);
  EXPECT_THROW(matmul({Dtype::f32, 1, -1, 1, 1, &one, 0, &one, 0, false, &one, 0, 1}), Error);
  EXPECT_THROW(matmul({Dtype::f32, 1, 1, 4, 1, &one, 2, &one, 0, false, &one, 0, 1}), Error);
}
