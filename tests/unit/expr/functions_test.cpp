// The function table: error bounds against wider arithmetic, special values, conversions against base, vector code.
#include "weft/expr/functions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <random>

#include "tests/support/source_dir.h"
#include "weft/base/dtype.h"
#include "weft/base/file.h"
#include "weft/expr/functions_impl.h"
#include "weft/expr/philox.h"

using namespace weft;
using namespace weft::expr;

namespace {

using Real = long double;
Real exact_sigmoid(Real x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
Real exact_gelu(Real x) {
  return x * exact_sigmoid(2 * sqrtl(2 / 3.14159265358979323846264338327950288L) * (x + 0.044715L * x * x * x));
}

struct Case {
  const char* name;
  double (*f64)(double);
  float (*f32)(float);
  Real (*exact)(Real);
  double low, high;  // where the function is neither constant nor saturated
};
#define WEFT_CASE(NAME, EXACT, LOW, HIGH)                                                                            \
  Case {                                                                                                             \
#NAME,                                                                                                           \
        [](double x) { return wm::NAME(x); },                                                                        \
                                           [](float x) { return wm::NAME(x); },                                      \
                                                                             [](Real x) -> Real { return EXACT; },   \
                                                                                                                LOW, \
                                                                                                                HIGH \
  }
const Case cases[] = {WEFT_CASE(exp, expl(x), -746, 711),
                      WEFT_CASE(log, logl(x), 0.0, 4),
                      WEFT_CASE(tanh, tanhl(x), -3, 3),
                      WEFT_CASE(sigmoid, exact_sigmoid(x), -746, 40),
                      WEFT_CASE(silu, x* exact_sigmoid(x), -746, 40),
                      WEFT_CASE(gelu, exact_gelu(x), -22, 10),
                      WEFT_CASE(sqrt, sqrtl(x), 0, 4),
                      WEFT_CASE(rsqrt, 1 / sqrtl(x), 0, 4),
                      WEFT_CASE(abs, fabsl(x), -1, 1),
                      WEFT_CASE(relu, x < 0 ? 0 * x : x, -1, 1)};

// Distance in units in the last place of a result of `bits` bits whose smallest step is 2^least.
double ulps(Real got, Real want, int bits, int least, Real overflow) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(got) || std::isinf(want)) return got == want || std::abs(want) > overflow ? 0 : INFINITY;
  int exponent = 0;
  std::frexp(want, &exponent);
  return static_cast<double>(std::abs(got - want) / std::ldexp(Real(1), std::max(exponent - bits, least)));
}
double ulps64(double got, Real want) { return ulps(got, want, 53, -1074, 0x1.fffffffffffff7p+1023L); }
double ulps32(float got, Real want) { return ulps(got, want, 24, -149, 0x1.fffffefp+127L); }

}  // namespace

TEST(Functions, F64BoundsHoldOnDenseSamples) {
  for (const Case& c : cases) {
    const double bound = find_function(c.name)->ulp_f64;
    std::mt19937_64 random(1);
    for (int i = 0; i < 60000; ++i) {
      const double x = i % 2 ? c.low + (c.high - c.low) * (static_cast<double>(random()) * 0x1p-64)
                             : std::bit_cast<double>(random());
      ASSERT_LE(ulps64(c.f64(x), c.exact(x)), bound) << c.name << " of " << x;
    }
  }
}

TEST(Functions, F32BoundsHoldOnSamplesOrOnEveryPattern) {
  const bool slow = std::getenv("WEFT_SLOW") != nullptr;
  const uint64_t step = slow ? 1 : 48611;  // a prime: visits every exponent and odd mantissas
  for (const Case& c : cases) {
    const double bound = find_function(c.name)->ulp_f32;
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) {
      const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
      ASSERT_LE(ulps32(c.f32(x), c.exact(x)), bound) << c.name << " of " << x;
    }
  }
}

TEST(Functions, PowBoundsHold) {
  std::mt19937_64 random(5);
  const auto unit = [&] { return static_cast<double>(random()) * 0x1p-64; };
  const Function& pow = *find_function("pow");
  for (int i = 0; i < 200000; ++i) {
    double x = std::exp((unit() - 0.5) * 1400), y = (unit() - 0.5) * 1400 / std::abs(std::log(x));
    if (i % 4 == 0) x = std::bit_cast<double>(random()), y = std::bit_cast<double>(random());
    if (i % 4 == 1) x = 0.5 + 1.5 * unit(), y = (unit() - 0.5) * 3000;
    ASSERT_LE(ulps64(wm::pow(x, y), powl(x, y)), pow.ulp_f64) << x << " ^ " << y;
    const float fx = static_cast<float>(i % 4 ? std::exp((unit() - 0.5) * 170) : x),
                fy = static_cast<float>(i % 4 ? (unit() - 0.5) * 200 / std::abs(std::log(fx)) : y);
    ASSERT_LE(ulps32(wm::pow(fx, fy), powl(fx, fy)), pow.ulp_f32) << fx << " ^ " << fy;
  }
}

// C's table of special cases, by comparison with the C library, signs of zeros included.
TEST(Functions, PowSpecialCases) {
  const double special[] = {0.0,      -0.0,      1,   -1,    2,      -2,     3,       -3,     0.5,        -0.5,
                            INFINITY, -INFINITY, NAN, 1e300, -1e300, 1e-310, -1e-310, 0x1p53, 0x1p53 + 2, -0x1p52 - 1};
  for (double x : special) {
    for (double y : special) {
      const double got = wm::pow(x, y), want = std::pow(x, y);
      ASSERT_LE(ulps64(got, want), 1) << x << " ^ " << y;
      ASSERT_TRUE(std::isnan(want) || std::signbit(got) == std::signbit(want)) << x << " ^ " << y;
      const float single = wm::pow(static_cast<float>(x), static_cast<float>(y)),
                  wanted = std::pow(static_cast<float>(x), static_cast<float>(y));
      ASSERT_LE(ulps32(single, wanted), 1) << x << " ^ " << y;
    }
  }
}

TEST(Functions, NanPropagatesAndLimitsAreReached) {
  for (const Case& c : cases) {
    EXPECT_TRUE(std::isnan(c.f64(NAN))) << c.name;
    EXPECT_TRUE(std::isnan(c.f32(NAN))) << c.name;
  }
  for (auto [a, b] : {std::pair<double, double>{NAN, 1.0}, std::pair<double, double>{1.0, NAN}}) {
    EXPECT_TRUE(std::isnan(wm::min(a, b)) && std::isnan(wm::max(a, b)));
    EXPECT_TRUE(std::isnan(wm::min(static_cast<float>(a), static_cast<float>(b))));
  }
  EXPECT_EQ(wm::exp(INFINITY), INFINITY);
  EXPECT_EQ(wm::exp(-INFINITY), 0.0);
  EXPECT_EQ(wm::exp(-745.2), 0.0);
  EXPECT_EQ(wm::exp(-744.5), std::exp(-744.5));
  EXPECT_EQ(wm::log(0.0), -INFINITY);
  EXPECT_TRUE(std::isnan(wm::log(-1.0)));
  EXPECT_EQ(wm::tanh(-INFINITY), -1.0);
  EXPECT_TRUE(std::signbit(wm::tanh(-0.0)));
  EXPECT_EQ(wm::sigmoid(-INFINITY), 0.0);
  EXPECT_EQ(wm::gelu(INFINITY), INFINITY);
  EXPECT_EQ(wm::rsqrt(0.0f), INFINITY);
}

TEST(Functions, ConversionsEqualThoseOfBase) {
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    const auto h = static_cast<uint16_t>(bits);
    ASSERT_EQ(wm::bits(wm::from_f16(h)), wm::bits(f16_to_f32(h))) << bits;
    ASSERT_EQ(wm::bits(wm::from_bf16(h)), wm::bits(bf16_to_f32(h))) << bits;
    const auto b = static_cast<uint8_t>(bits);
    ASSERT_EQ(wm::bits(wm::from_f8e4m3(b)), wm::bits(f8e4m3_to_f32(b))) << bits;
    ASSERT_EQ(wm::bits(wm::from_f8e5m2(b)), wm::bits(f8e5m2_to_f32(b))) << bits;
  }
}

namespace {

void expect_same_narrowing(float x) {
  ASSERT_EQ(wm::to_f16(x), f32_to_f16(x)) << x;
  ASSERT_EQ(wm::to_bf16(x), f32_to_bf16(x)) << x;
  ASSERT_EQ(wm::to_f8e4m3(x), f32_to_f8e4m3(x)) << x;
  ASSERT_EQ(wm::to_f8e5m2(x), f32_to_f8e5m2(x)) << x;
}

}  // namespace

// Around every f16, bf16 and fp8 value and every middle of two, one f32 to each side; and a walk over all f32.
TEST(Functions, NarrowingEqualsThatOfBaseAtEveryBorder) {
  for (uint32_t bits = 0; bits < 1u << 17; ++bits) {
    const float half = f16_to_f32(static_cast<uint16_t>(bits >> 1)),
                next = f16_to_f32(static_cast<uint16_t>((bits >> 1) + 1));
    const float f = bits & 1 ? half / 2 + next / 2 : half;
    const float b = std::bit_cast<float>(bits << 15);  // every bf16 and every middle
    for (float x : {f, b})
      for (float y : {x, std::nextafterf(x, INFINITY), std::nextafterf(x, -INFINITY)}) expect_same_narrowing(y);
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 9973)
    expect_same_narrowing(std::bit_cast<float>(static_cast<uint32_t>(bits)));
}

namespace {

template <class T>
uint64_t stored(Dtype dtype, T x) {
  uint64_t memory = 0;
  if constexpr (std::is_same_v<T, double>)
    store_f64(dtype, &memory, x);
  else
    store_i64(dtype, &memory, x);
  return memory;
}

template <class T>
void expect_single_rounding(T x) {
  ASSERT_EQ(wm::to_f16(wm::sticky(x)), stored(Dtype::f16, x)) << x;
  ASSERT_EQ(wm::to_bf16(wm::sticky(x)), stored(Dtype::bf16, x)) << x;
  ASSERT_EQ(wm::to_f8e4m3(wm::sticky(x)), stored(Dtype::f8e4m3, x)) << x;
  ASSERT_EQ(wm::to_f8e5m2(wm::sticky(x)), stored(Dtype::f8e5m2, x)) << x;
}

}  // namespace

TEST(Functions, WideValuesRoundOnceToNarrowTypes) {
  std::mt19937_64 random(9);
  for (uint32_t bits = 0; bits < 1u << 16; bits += 3) {
    const double a = f16_to_f32(static_cast<uint16_t>(bits)), b = f16_to_f32(static_cast<uint16_t>(bits + 1)),
                 middle = a / 2 + b / 2;
    for (double x : {middle, std::nextafter(middle, INFINITY), std::nextafter(middle, -INFINITY)})
      expect_single_rounding(x);
  }
  for (int i = 0; i < 100000; ++i) {
    expect_single_rounding(std::bit_cast<double>(random()));
    expect_single_rounding(static_cast<int64_t>(random() >> (i % 64)));
    expect_single_rounding(
        -static_cast<int64_t>((uint64_t{257} << 54) + (random() & 3)));  // middles of bf16, and just beside
  }
  for (uint64_t x : {~uint64_t{0}, (uint64_t{257} << 55) + 1, uint64_t{257} << 55, (uint64_t{257} << 55) - 1}) {
    const float want = bf16_to_f32(f32_to_bf16(wm::sticky(x)));
    EXPECT_EQ(want, x > uint64_t{257} << 55 ? (x == ~uint64_t{0} ? 0x1p64f : 258 * 0x1p55f) : 256 * 0x1p55f) << x;
  }
}

TEST(Functions, FloatsToIntegersAsInBase) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 50000; ++i) {
    const double x = i % 2 ? std::bit_cast<double>(random())
                           : std::ldexp(static_cast<double>(static_cast<int64_t>(random())), i % 9 - 4);
    ASSERT_EQ(static_cast<uint64_t>(wm::to_i64(x)), stored(Dtype::i64, x)) << x;
    ASSERT_EQ(wm::to_u64(x), stored(Dtype::u64, x)) << x;
  }
  for (double x : {0x1p63, -0x1p63, 0x1p64, std::nextafter(0x1p63, 0), std::nextafter(0x1p64, 0), -1.5, 1.5, -0.0}) {
    EXPECT_EQ(static_cast<uint64_t>(wm::to_i64(x)), stored(Dtype::i64, x)) << x;
    EXPECT_EQ(wm::to_u64(x), stored(Dtype::u64, x)) << x;
  }
}

TEST(Functions, IntegersFloorAndWrap) {
  EXPECT_EQ(wm::add<int8_t>(127, 1), -128);
  EXPECT_EQ(wm::mul<int16_t>(300, 300), static_cast<int16_t>(90000));
  EXPECT_EQ(wm::mul<uint16_t>(65535, 65535), 1);
  EXPECT_EQ(wm::sub<uint8_t>(0, 1), 255);
  EXPECT_EQ(wm::mul<int64_t>(INT64_MAX, 2), -2);
  EXPECT_EQ(wm::floor_div<int32_t>(-7, 2), -4);
  EXPECT_EQ(wm::floor_mod<int32_t>(-7, 2), 1);
  EXPECT_EQ(wm::floor_div<int32_t>(INT32_MIN, -1), INT32_MIN);
  EXPECT_EQ(wm::floor_mod<int64_t>(INT64_MIN, -1), 0);
  EXPECT_EQ(wm::floor_div<int8_t>(-128, -1), -128);
  EXPECT_EQ(wm::floor_div<int32_t>(5, 0), 0);
  EXPECT_EQ(wm::floor_mod<int32_t>(5, 0), 5);
  EXPECT_EQ(wm::int_pow<int32_t>(-3, 3), -27);
  EXPECT_EQ(wm::int_pow<uint8_t>(3, 6), static_cast<uint8_t>(729));
  EXPECT_EQ(wm::int_pow<int32_t>(-1, -3), -1);
  EXPECT_EQ(wm::int_pow<int32_t>(2, -1), 0);
  EXPECT_EQ(wm::int_abs<int8_t>(-128), -128);
}

TEST(Functions, PhiloxInVectorFormIsTheSame) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t seed = random(), element = random() >> (i % 64);
    const auto k = static_cast<uint32_t>(random());
    ASSERT_EQ(wm::uniform(seed, k, element), uniform(seed, k, element));
  }
}

TEST(Functions, TableAndEmbeddedText) {
  EXPECT_EQ(find_function("gelu")->arity, 1);
  EXPECT_EQ(find_function("select")->arity, 3);
  EXPECT_EQ(find_function("sin"), nullptr);
  EXPECT_EQ(functions_source(), read_file(checkout_dir() + "/weft/expr/functions_impl.h"));
  EXPECT_EQ(functions_source().find("weft/"), std::string_view::npos) << "the text must include nothing of Weft";
}

// A plain loop over each function becomes vector code with the options that generated kernels get.
TEST(Functions, PlainLoopsVectorise) {
  if (std::system("g++ --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no g++ here";
  const std::string base = ::testing::TempDir() + "weft_vectorise_" + std::to_string(getpid());
  std::ofstream out(base + ".cpp");
  out << functions_source();
  int line = static_cast<int>(std::count(functions_source().begin(), functions_source().end(), '\n')) + 1, last = line;
  const auto loop = [&](const std::string& to, const std::string& from, const std::string& value) {
    out << fmt::format(
        "void f{0}({1}* __restrict y, const {2}* __restrict x, const {2}* __restrict z, long n) {{ for (long i = 0; i "
        "< n; ++i) y[i] = {3}; }}\n",
        last++, to, from, value);
  };
  for (const char* type : {"float", "double"}) {
    for (const Case& c : cases) loop(type, type, fmt::format("wm::{}(x[i])", c.name));
    for (const char* two : {"min", "max", "pow"}) loop(type, type, fmt::format("wm::{}(x[i], z[i])", two));
    loop(type, type, "wm::select(x[i] < z[i], x[i], z[i])");
  }
  for (const char* t : {"f16", "bf16"})
    loop("float", "uint16_t", fmt::format("wm::from_{}(x[i])", t)),
        loop("uint16_t", "float", fmt::format("wm::to_{}(x[i])", t));
  for (const char* t : {"f8e4m3", "f8e5m2"})
    loop("float", "uint8_t", fmt::format("wm::from_{}(x[i])", t)),
        loop("uint8_t", "float", fmt::format("wm::to_{}(x[i])", t));
  loop("float", "double", "wm::sticky(x[i])");
  loop("float", "float", "wm::uniform(7, 1, static_cast<uint64_t>(n + i))");
  out.close();
  const std::string command = fmt::format(
      "g++ -std=c++20 -O3 -mavx2 -ffp-contract=off -fno-math-errno -w -c {0}.cpp -o {0}.o "
      "-fopt-info-vec-optimized={0}.txt",
      base);
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string report = read_file(base + ".txt");
  for (; line < last; ++line)
    EXPECT_NE(report.find(fmt::format(":{}:", line)), std::string::npos) << "line " << line << " of " << base << ".cpp";
  if (HasFailure()) return;  // what was compiled says why
  for (const char* end : {".cpp", ".o", ".txt"}) std::remove((base + end).c_str());
}
