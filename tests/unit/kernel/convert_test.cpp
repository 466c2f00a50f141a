// convert() against base's load and store of single elements, all pairs.
#include "weft/kernel/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "weft/base/error.h"
#include "weft/expr/functions_impl.h"

using namespace weft;
using namespace weft::kernel;

namespace {

const double special[] = {0.0, -0.0, 1,    -1,    0.5,    2.5,      65504,     65520, 448,
                          464, 1e-8, 3e38, 1e300, -1e300, INFINITY, -INFINITY, 300.7, -129.9};

void expect_converted(Dtype from, const char* source, Dtype to, int64_t count) {
  const int64_t bytes = size_bytes(to);
  std::vector<char> got(static_cast<size_t>(count * bytes + 8), 0x5a);
  convert(from, source, to, got.data(), count);
  for (int64_t i = 0; i < count; i++) {
    const char* at = source + i * size_bytes(from);
    char expected[8] = {};
    if (is_float(from))
      store_f64(to, expected, load_f64(from, at));
    else if (from == Dtype::u64 && is_float(to))
      store_f64(to, expected, load_f64(from, at));
    else
      store_i64(to, expected, load_i64(from, at));
    ASSERT_EQ(0, std::memcmp(expected, got.data() + i * bytes, bytes))
        << name(from) << " -> " << name(to) << " element " << i << " = " << load_f64(from, at) << " gave "
        << load_f64(to, got.data() + i * bytes);
  }
  for (int64_t i = 0; i < 8; i++) ASSERT_EQ(got[count * bytes + i], 0x5a) << "wrote behind the block";
}

}  // namespace

TEST(Convert, AllPairsEqualSingleElements) {
  std::mt19937_64 random(7);
  for (const Dtype from : all_dtypes()) {
    std::vector<char> source(600 * size_bytes(from));
    for (int64_t i = 0; i < 600; i++) {
      char* at = source.data() + i * size_bytes(from);
      if (is_float(from))
        store_f64(from, at,
                  i < 18 ? special[i]
                         : std::ldexp(static_cast<int64_t>(random()) * 0x1p-63, static_cast<int>(random() % 30) - 15));
      else
        store_i64(from, at,
                  from == Dtype::u64 ? static_cast<int64_t>(random() & ~uint64_t{0x7ff})
                                     : static_cast<int64_t>(random()) >> (random() % 64));
    }
    for (const Dtype to : all_dtypes())
      for (const int64_t count : {0, 1, 5, 600}) expect_converted(from, source.data(), to, count);
  }
}

TEST(Convert, EveryPatternOfNarrowTypes) {
  for (const Dtype from : {Dtype::f16, Dtype::bf16, Dtype::f8e4m3, Dtype::f8e5m2}) {
    const int64_t patterns = int64_t{1} << (8 * size_bytes(from));
    std::vector<uint16_t> wide(patterns);
    std::vector<uint8_t> bytes(patterns);
    for (int64_t i = 0; i < patterns; i++) wide[i] = static_cast<uint16_t>(i), bytes[i] = static_cast<uint8_t>(i);
    const char* source = size_bytes(from) == 2 ? reinterpret_cast<const char*>(wide.data())
                                               : reinterpret_cast<const char*>(bytes.data());
    expect_converted(from, source, Dtype::f32, patterns);
  }
}

TEST(Convert, NanStaysNan) {
  const double nan = NAN;
  for (const Dtype to : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f8e4m3, Dtype::f8e5m2}) {
    char at[8];
    convert(Dtype::f64, &nan, to, at, 1);
    EXPECT_TRUE(std::isnan(load_f64(to, at))) << name(to);
  }
}

TEST(Convert, PairsAreCopiedOnly) {
  const double pair[2] = {1, 2};
  double to[2];
  convert(Dtype::f64x2, pair, Dtype::f64x2, to, 1);
  EXPECT_EQ(to[1], 2);
  EXPECT_THROW(convert(Dtype::f64x2, pair, Dtype::f64, to, 1), Error);
}

// Held for all 2^32 patterns once; here one in 257 and everything around the borders.
TEST(Convert, RoundingToHalfIsPackingAndUnpacking) {
  const auto expect = [](uint32_t pattern) {
    const float x = wm::f32_of(pattern);
    ASSERT_EQ(wm::bits(wm::round_f16(x)), wm::bits(wm::from_f16(wm::to_f16(x)))) << pattern;
  };
  for (uint64_t i = 0; i <= 0xffffffffu; i += 257) expect(static_cast<uint32_t>(i));
  for (const uint32_t border : {0u, 0x33000000u, 0x33800000u, 0x387fc000u, 0x38800000u, 0x477fe000u, 0x477ff000u,
                                0x47800000u, 0x7f7fffffu, 0x7f800000u, 0x7fc00000u})
    for (uint32_t i = 0; i < 20000; i++)
      for (const uint32_t sign : {0u, 0x80000000u}) {
        expect((border + i) | sign);
        expect((border - i) | sign);
      }
}
