// combine() and store_identity() against arithmetic written out per dtype by load_f64 / load_i64.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "weft/kernel/kernel.h"

using namespace weft;
using namespace weft::kernel;

namespace {

constexpr Reduction all_reductions[] = {Reduction::sum,     Reduction::prod,        Reduction::min,
                                        Reduction::max,     Reduction::bit_and,     Reduction::bit_or,
                                        Reduction::bit_xor, Reduction::logical_and, Reduction::logical_or};

bool bitwise(Reduction r) { return r == Reduction::bit_and || r == Reduction::bit_or || r == Reduction::bit_xor; }

std::vector<char> random_elements(Dtype dtype, int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<char> data(static_cast<size_t>(count * size_bytes(dtype)));
  for (int64_t i = 0; i < count; i++) {
    char* at = data.data() + i * size_bytes(dtype);
    if (is_float(dtype))
      store_f64(dtype, at, (static_cast<int>(random() % 64) - 32) / 8.0);
    else
      store_i64(dtype, at, static_cast<int64_t>(random()) << (random() % 32));
  }
  return data;
}

double float_oracle(Reduction r, double a, double b) {
  switch (r) {
    case Reduction::sum: return a + b;
    case Reduction::prod: return a * b;
    case Reduction::min: return std::isnan(a) || std::isnan(b) ? NAN : b < a ? b : a < b ? a : b;
    case Reduction::max: return std::isnan(a) || std::isnan(b) ? NAN : b > a ? b : a > b ? a : b;
    case Reduction::logical_and: return a != 0 && b != 0;
    default: return a != 0 || b != 0;
  }
}

// Modulo 2^64; order by signedness of the dtype.
int64_t integer_oracle(Reduction r, Dtype dtype, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const bool less = is_signed(dtype) ? a < b : ua < ub;
  const bool is_bool = dtype == Dtype::boolean;
  switch (r) {
    case Reduction::sum: return is_bool ? a | b : static_cast<int64_t>(ua + ub);
    case Reduction::prod: return static_cast<int64_t>(ua * ub);
    case Reduction::min: return less ? a : b;
    case Reduction::max: return less ? b : a;
    case Reduction::bit_and: return a & b;
    case Reduction::bit_or: return a | b;
    case Reduction::bit_xor: return a ^ b;
    case Reduction::logical_and: return a && b;
    default: return a || b;
  }
}

}  // namespace

TEST(Reduction, NamesReadBack) {
  for (const Reduction r : all_reductions) EXPECT_EQ(parse_reduction(name(r)), r) << name(r);
  EXPECT_FALSE(parse_reduction("avg"));
  EXPECT_FALSE(parse_reduction(""));
}

TEST(Reduction, EveryDtypeEqualsItsArithmetic) {
  for (const Dtype dtype : all_dtypes())
    for (const Reduction r : all_reductions) {
      if (is_float(dtype) && bitwise(r)) continue;
      for (const int64_t count : {0, 1, 7, 64, 129}) {
        std::vector<char> a = random_elements(dtype, count, 1), b = random_elements(dtype, count, 2), expected = a;
        const int64_t bytes = size_bytes(dtype);
        for (int64_t i = 0; i < count; i++) {
          char *x = expected.data() + i * bytes, *y = b.data() + i * bytes;
          if (is_float(dtype))
            store_f64(dtype, x, float_oracle(r, load_f64(dtype, x), load_f64(dtype, y)));
          else
            store_i64(dtype, x, integer_oracle(r, dtype, load_i64(dtype, x), load_i64(dtype, y)));
        }
        combine(r, dtype, a.data(), b.data(), count);
        EXPECT_EQ(a, expected) << name(r) << " " << weft::name(dtype) << " " << count;
      }
    }
}

TEST(Reduction, IdentityChangesNothing) {
  for (const Dtype dtype : all_dtypes())
    for (const Reduction r : all_reductions) {
      if (is_float(dtype) && bitwise(r)) continue;
      const bool logical = r == Reduction::logical_and || r == Reduction::logical_or;
      std::vector<char> b = random_elements(dtype, 20, 3), identity(size_bytes(dtype));
      store_identity(r, dtype, identity.data());
      for (int64_t i = 0; i < 20; i++) {
        std::vector<char> a = identity;
        char* y = b.data() + i * size_bytes(dtype);
        combine(r, dtype, a.data(), y, 1);
        if (logical)
          EXPECT_EQ(load_f64(dtype, a.data()) != 0, load_f64(dtype, y) != 0);
        else
          EXPECT_EQ(load_f64(dtype, a.data()), load_f64(dtype, y)) << name(r) << " " << weft::name(dtype);
      }
    }
}

TEST(Reduction, NanPropagatesFromEitherSide) {
  for (const Dtype dtype : all_dtypes()) {
    if (!is_float(dtype)) continue;
    for (const Reduction r : {Reduction::min, Reduction::max, Reduction::sum, Reduction::prod})
      for (const bool left : {false, true}) {
        char a[8], b[8];
        store_f64(dtype, a, left ? NAN : 1);
        store_f64(dtype, b, left ? 1 : NAN);
        combine(r, dtype, a, b, 1);
        EXPECT_TRUE(std::isnan(load_f64(dtype, a))) << name(r) << " " << weft::name(dtype) << left;
      }
  }
}

TEST(Reduction, NarrowFloatsRoundOnce) {
  uint16_t a = f32_to_f16(2048), b = f32_to_f16(1);  // 2049 is a tie: to even
  combine(Reduction::sum, Dtype::f16, &a, &b, 1);
  EXPECT_EQ(f16_to_f32(a), 2048);
  a = f32_to_bf16(256), b = f32_to_bf16(3);  // 259 lies between 258 and 260
  combine(Reduction::sum, Dtype::bf16, &a, &b, 1);
  EXPECT_EQ(bf16_to_f32(a), 260);
}

TEST(Reduction, PairsAreTwoNumbers) {
  double a[4] = {1, 2, 3, 4};
  const double b[4] = {10, 20, 30, 40};
  combine(Reduction::sum, Dtype::f64x2, a, b, 2);
  EXPECT_EQ(a[0], 11);
  EXPECT_EQ(a[3], 44);
  store_identity(Reduction::max, Dtype::f64x2, a);
  EXPECT_EQ(a[1], -INFINITY);
}

TEST(Reduction, V1BitsOfFloatsAreRefused) {
  float a = 0;
  for (const Reduction r : {Reduction::bit_and, Reduction::bit_or, Reduction::bit_xor}) {
    try {
      combine(r, Dtype::f32, &a, &a, 1);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.rule(), "V1");
      EXPECT_EQ(error.kind(), ErrorKind::plan);
    }
    EXPECT_THROW(store_identity(r, Dtype::f64, &a), Error);
    EXPECT_NO_THROW(check_reduction(r, Dtype::boolean));
  }
}
