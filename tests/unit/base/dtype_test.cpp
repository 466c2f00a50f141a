// Conversions: every 8- and 16-bit pattern, every rounding border, and single rounding from f64 and i64.
#include "weft/base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "weft/base/error.h"

using namespace weft;

namespace {

struct Narrow {
  Dtype dtype;
  int bits, exponent_bits, mantissa_bits;
  bool infinity;
};
const Narrow narrow_types[] = {{Dtype::f16, 16, 5, 10, true},
                               {Dtype::bf16, 16, 8, 7, true},
                               {Dtype::f8e4m3, 8, 4, 3, false},
                               {Dtype::f8e5m2, 8, 5, 2, true}};

double load(const Narrow& t, uint32_t bits) { return load_f64(t.dtype, &bits); }
uint32_t store(const Narrow& t, double value) {
  uint32_t bits = 0;
  store_f64(t.dtype, &bits, value);
  return bits;
}

// The value of a pattern, from the definition and nothing else.
double meaning(const Narrow& t, uint32_t bits) {
  const double sign = bits >> (t.bits - 1) ? -1 : 1;
  const int e = bits >> t.mantissa_bits & ((1 << t.exponent_bits) - 1), m = bits & ((1 << t.mantissa_bits) - 1);
  const int bias = (1 << (t.exponent_bits - 1)) - 1, top = (1 << t.exponent_bits) - 1;
  if (e == top && t.infinity) return m ? NAN : sign * INFINITY;
  if (e == top && m == (1 << t.mantissa_bits) - 1) return NAN;
  const double fraction = m / std::exp2(t.mantissa_bits);
  return e ? sign * (1 + fraction) * std::exp2(e - bias) : sign * fraction * std::exp2(1 - bias);
}

}  // namespace

TEST(Dtype, EveryPatternMeansWhatItsBitsSayAndComesBack) {
  for (const Narrow& t : narrow_types) {
    for (uint32_t bits = 0; bits < 1u << t.bits; ++bits) {
      const double value = load(t, bits), expected = meaning(t, bits);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(value)) << name(t.dtype) << " " << bits;
        ASSERT_TRUE(std::isnan(load(t, store(t, value)))) << name(t.dtype) << " " << bits;
        ASSERT_EQ(std::signbit(value), bool(bits >> (t.bits - 1)));
      } else {
        ASSERT_EQ(std::bit_cast<uint64_t>(value), std::bit_cast<uint64_t>(expected)) << name(t.dtype) << " " << bits;
        ASSERT_EQ(store(t, value), bits) << name(t.dtype);
      }
    }
  }
}

// Between two neighbours: the middle goes to the even one, the next f64 below and above it to the nearer one.
TEST(Dtype, RoundsToNearestEvenAtEveryBorder) {
  for (const Narrow& t : narrow_types) {
    const uint32_t largest = (1u << (t.bits - 1)) - 1 - (t.infinity ? 1u << t.mantissa_bits : 1);
    for (uint32_t low = 0; low < largest; ++low) {
      for (uint32_t sign : {0u, 1u << (t.bits - 1)}) {
        const double a = load(t, low | sign), b = load(t, (low + 1) | sign), middle = a / 2 + b / 2;
        ASSERT_EQ(store(t, middle), ((low & 1) ? low + 1 : low) | sign) << name(t.dtype) << " " << low;
        ASSERT_EQ(store(t, std::nextafter(middle, a)), low | sign) << name(t.dtype) << " " << low;
        ASSERT_EQ(store(t, std::nextafter(middle, b)), (low + 1) | sign) << name(t.dtype) << " " << low;
      }
    }
  }
}

TEST(Dtype, OverflowIsInfinityOrNan) {
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_bf16(3.4028235e38f), 0x7f80);
  EXPECT_EQ(f32_to_f8e4m3(464.0f), 0x7e);  // the tie goes to 448, whose mantissa is even
  EXPECT_EQ(f32_to_f8e4m3(464.1f), 0x7f);
  EXPECT_EQ(f32_to_f8e4m3(-INFINITY), 0xff);
  EXPECT_EQ(f32_to_f8e5m2(61439.0f), 0x7b);
  EXPECT_EQ(f32_to_f8e5m2(61440.0f), 0x7c);
  EXPECT_EQ(f32_to_f8e5m2(INFINITY), 0x7c);
  EXPECT_EQ(f32_to_f8e5m2(NAN) & 0x7f, 0x7f);
}

TEST(Dtype, F32ConversionsAgreeWithTheF64Ones) {
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    for (const Narrow& t : narrow_types) {
      const uint32_t wide = store(t, value);
      const uint32_t direct = t.dtype == Dtype::f16      ? f32_to_f16(value)
                              : t.dtype == Dtype::bf16   ? f32_to_bf16(value)
                              : t.dtype == Dtype::f8e4m3 ? f32_to_f8e4m3(value)
                                                         : f32_to_f8e5m2(value);
      ASSERT_EQ(direct, wide) << value << " " << name(t.dtype);
    }
  }
}

// 1 + 2^-11 + 2^-40 is just above the middle of two f16; by way of f32 it would become the middle, and then 1.
TEST(Dtype, RoundsOnceFromF64AndI64) {
  const Narrow f16 = narrow_types[0];
  EXPECT_EQ(store(f16, 1 + 0x1p-11 + 0x1p-40), 0x3c01u);
  uint16_t bits = 0;
  const int64_t wide = (int64_t{1} << 62) + (int64_t{1} << 54) + 1;  // bf16: middle plus one
  store_i64(Dtype::bf16, &bits, wide);
  EXPECT_EQ(bf16_to_f32(bits), std::ldexp(129.0f, 55));
  store_i64(Dtype::bf16, &bits, -wide);
  EXPECT_EQ(bf16_to_f32(bits), -std::ldexp(129.0f, 55));
  float single = 0;
  store_i64(Dtype::f32, &single, (int64_t{1} << 62) + (int64_t{1} << 38) + 1);
  EXPECT_EQ(single, std::ldexp(8388609.0f, 39));
  store_i64(Dtype::f16, &bits, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(bits, 0xfc00);
}

TEST(Dtype, IntegersWrapAndFloatsTruncate) {
  int8_t byte = 0;
  store_i64(Dtype::i8, &byte, 300);
  EXPECT_EQ(byte, 44);
  store_f64(Dtype::i8, &byte, -129.9);
  EXPECT_EQ(byte, 127);
  uint64_t big = 0;
  store_f64(Dtype::u64, &big, 0x1p63 + 2048);
  EXPECT_EQ(big, (uint64_t{1} << 63) + 2048);
  EXPECT_EQ(load_f64(Dtype::u64, &big), 0x1p63 + 2048);
  EXPECT_EQ(load_i64(Dtype::u64, &big), std::numeric_limits<int64_t>::min() + 2048);
  store_f64(Dtype::u64, &big, -1.0);
  EXPECT_EQ(big, ~uint64_t{0});
  int64_t wide = 0;
  for (auto [value, expected] :
       {std::pair<double, int64_t>{NAN, 0}, {INFINITY, INT64_MAX}, {-1e300, INT64_MIN}, {-2.9, -2}}) {
    store_f64(Dtype::i64, &wide, value);
    EXPECT_EQ(wide, expected);
    EXPECT_EQ(load_i64(Dtype::f64, &value), expected);
  }
  uint8_t flag = 7;
  store_f64(Dtype::boolean, &flag, 0.25);
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(load_i64(Dtype::boolean, &flag), 1);
}

TEST(Dtype, EveryIntegerTypeKeepsItsEnds) {
  for (Dtype t : all_dtypes()) {
    if (!is_integer(t)) continue;
    const int bits = static_cast<int>(8 * size_bytes(t));
    const int64_t low = is_signed(t) ? -(int64_t{1} << (bits - 2)) * 2 : 0;
    const int64_t high = bits == 64 ? INT64_MAX : (int64_t{1} << (bits - (is_signed(t) ? 1 : 0))) - 1;
    for (int64_t value : {low, high, int64_t{0}, int64_t{1}}) {
      uint64_t memory = 0;
      store_i64(t, &memory, value);
      EXPECT_EQ(load_i64(t, &memory), value) << name(t);
    }
  }
}

TEST(Dtype, NamesReadBackAndClassesHold) {
  EXPECT_EQ(all_dtypes().size(), 15u);
  for (Dtype t : all_dtypes()) {
    EXPECT_EQ(parse_dtype(name(t)), t);
    EXPECT_EQ(is_float(t) + is_integer(t) + (t == Dtype::boolean), 1);
    EXPECT_EQ(compute_dtype(t), is_float(t) && size_bytes(t) < 4 ? Dtype::f32 : t);
  }
  EXPECT_EQ(parse_dtype("f64x2"), Dtype::f64x2);
  EXPECT_EQ(parse_dtype("float"), std::nullopt);
  EXPECT_EQ(fold_dtype(Dtype::u8), Dtype::u64);
  EXPECT_EQ(fold_dtype(Dtype::i32), Dtype::i64);
  EXPECT_EQ(fold_dtype(Dtype::bf16), Dtype::f32);
  EXPECT_EQ(accumulate_dtype(Dtype::i8), Dtype::i8);
  double pair[2] = {1, 2};
  EXPECT_THROW(load_f64(Dtype::f64x2, pair), Error);
}
