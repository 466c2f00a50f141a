// The numbers behind the function table: elementary functions, conversions of narrow floats, wrapping integers, Philox.
//
// Problem: an evaluator, a vectorised kernel, its scalar tail and a device kernel must give the same bits, on every
// machine (of NaN only that it is one; its sign and payload are the processor's). A C library's exp differs between
// machines and between its scalar and vector forms. So every function is written here in basic operations (+ - * /,
// sqrt, comparisons, shifts), which IEEE 754 rounds the same everywhere, in straight lines without branches, so that a
// compiler turns a plain loop over one of them into vector code: comparisons are joined with & and |, and `choose`
// selects by masks, because `? :` becomes a branch that is not always undone. No fused multiply-add is used or
// allowed: compile with -ffp-contract=off, never with -ffast-math. -fno-math-errno changes no bits and is what lets
// sqrt and rsqrt vectorise.
//
// f32 functions compute in f64 with short polynomials and round once: at most 0.51 ulp. f64 functions use two-part
// reductions (Cody and Waite) and, for pow and gelu, pairs of f64 (Dekker); bounds are in functions.cpp. Polynomials
// are the Taylor series of exp and atanh on short intervals: no fitted constant needs to be trusted.
//
// This file includes nothing of Weft: its text is also pasted in front of generated kernels.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define WEFT_FN static __host__ __device__ __forceinline__
#else
#define WEFT_FN static inline __attribute__((always_inline, unused))
#endif

namespace wm {

// ---- bits

WEFT_FN uint64_t bits(double x) {
  uint64_t b;
  memcpy(&b, &x, 8);
  return b;
}
WEFT_FN uint32_t bits(float x) {
  uint32_t b;
  memcpy(&b, &x, 4);
  return b;
}
WEFT_FN double f64_of(uint64_t b) {
  double x;
  memcpy(&x, &b, 8);
  return x;
}
WEFT_FN float f32_of(uint32_t b) {
  float x;
  memcpy(&x, &b, 4);
  return x;
}

WEFT_FN uint64_t choose(bool c, uint64_t a, uint64_t b) {
  const uint64_t mask = 0 - static_cast<uint64_t>(c);
  return (a & mask) | (b & ~mask);
}
WEFT_FN uint32_t choose(bool c, uint32_t a, uint32_t b) {
  const uint32_t mask = 0 - static_cast<uint32_t>(c);
  return (a & mask) | (b & ~mask);
}
WEFT_FN double choose(bool c, double a, double b) { return f64_of(choose(c, bits(a), bits(b))); }
WEFT_FN float choose(bool c, float a, float b) { return f32_of(choose(c, bits(a), bits(b))); }

WEFT_FN double infinity() { return f64_of(0x7ff0000000000000u); }
WEFT_FN double not_a_number() { return f64_of(0x7ff8000000000000u); }

// ---- conversions of narrow floats: round to nearest even, equal in bits to base/dtype.
// A normal result comes from adding half of the last kept bit to the f32's bits; a subnormal one from adding the power
// of two whose f32 ulp is the narrow type's smallest step, so that the processor's own addition rounds.

WEFT_FN uint32_t narrow(float x, int drop, int rebias, float smallest_normal, float step_magic, uint32_t overflow,
                        uint32_t nan) {
  const uint32_t a = bits(x) & 0x7fffffffu;
  const uint32_t rounded = a + ((1u << (drop - 1)) - 1) + (a >> drop & 1);
  uint32_t normal = (rounded - (static_cast<uint32_t>(rebias) << 23)) >> drop;
  normal = choose(normal < overflow, normal, overflow);
  const uint32_t subnormal = bits(f32_of(a) + step_magic) - bits(step_magic);
  return choose(a > 0x7f800000u, nan, choose(a < bits(smallest_normal), subnormal, normal));
}

WEFT_FN uint16_t to_f16(float x) {
  const uint32_t nan = 0x7e00u | (bits(x) >> 13 & 0x3ffu);
  return static_cast<uint16_t>(narrow(x, 13, 127 - 15, 0x1p-14f, 0.5f, 0x7c00u, nan) | (bits(x) >> 16 & 0x8000u));
}
WEFT_FN uint8_t to_f8e4m3(float x) {
  return static_cast<uint8_t>(narrow(x, 20, 127 - 7, 0x1p-6f, 0x1p14f, 0x7fu, 0x7fu) | (bits(x) >> 24 & 0x80u));
}
WEFT_FN uint8_t to_f8e5m2(float x) {
  return static_cast<uint8_t>(narrow(x, 21, 127 - 15, 0x1p-14f, 0x1p7f, 0x7cu, 0x7fu) | (bits(x) >> 24 & 0x80u));
}
WEFT_FN uint16_t to_bf16(float x) {
  const uint32_t b = bits(x), rounded = (b + 0x7fffu + (b >> 16 & 1)) >> 16;
  return static_cast<uint16_t>(choose((b & 0x7fffffffu) > 0x7f800000u, b >> 16 | 0x40u, rounded));
}

// Magnitude bits moved into f32's place; a subnormal is read by giving it a hidden bit and subtracting that.
WEFT_FN float widen(uint32_t magnitude, uint32_t sign, int lift, int rebias, uint32_t first_normal) {
  const uint32_t placed = magnitude << lift;
  const uint32_t normal = placed + (static_cast<uint32_t>(rebias) << 23);
  const uint32_t base = static_cast<uint32_t>(rebias + 1) << 23;
  const uint32_t subnormal = bits(f32_of(placed + base) - f32_of(base));
  return f32_of(choose(magnitude < first_normal, subnormal, normal) | sign);
}

WEFT_FN float from_f16(uint16_t h) {
  const uint32_t m = h & 0x7fffu, sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t special = sign | 0x7f800000u | (m & 0x3ffu) << 13 | static_cast<uint32_t>(m > 0x7c00u) << 22;
  return f32_of(choose(m >= 0x7c00u, special, bits(widen(m, sign, 13, 127 - 15, 0x400u))));
}
WEFT_FN float from_f8e4m3(uint8_t h) {
  const uint32_t m = h & 0x7fu, sign = static_cast<uint32_t>(h & 0x80u) << 24;
  return f32_of(choose(m == 0x7fu, sign | 0x7ff00000u, bits(widen(m, sign, 20, 127 - 7, 8u))));
}
WEFT_FN float from_f8e5m2(uint8_t h) {
  const uint32_t m = h & 0x7fu, sign = static_cast<uint32_t>(h & 0x80u) << 24;
  const uint32_t special = sign | 0x7f800000u | (m & 3u) << 21 | static_cast<uint32_t>(m > 0x7cu) << 22;
  return f32_of(choose(m >= 0x7cu, special, bits(widen(m, sign, 21, 127 - 15, 4u))));
}
WEFT_FN float from_bf16(uint16_t h) {
  const uint32_t b = static_cast<uint32_t>(h) << 16;
  return f32_of(b | static_cast<uint32_t>((b & 0x7fffffffu) > 0x7f800000u) << 22);
}

// from_f16(to_f16(x)) for every x, ten times faster: adding and subtracting 2^(e + 13), e the exponent of |x|, lets the
// processor's addition round to f16's step 2^(e - 10), and to 2^-24 below f16's normal numbers.
WEFT_FN float round_f16(float x) {
  const uint32_t a = bits(x) & 0x7fffffffu, sign = bits(x) & 0x80000000u, exponent = a & 0x7f800000u;
  const float lift = f32_of((exponent < 113u << 23 ? 113u << 23 : exponent) + (13u << 23));
  const uint32_t rounded = bits((f32_of(a) + lift) - lift);
  const uint32_t finite = a >= 0x477ff000u ? 0x7f800000u : rounded;  // 65520 and beyond: infinity
  return f32_of((a > 0x7f800000u ? (0x7fc00000u | (a & 0x7fe000u)) : finite) | sign);
}
WEFT_FN float round_bf16(float x) { return from_bf16(to_bf16(x)); }
WEFT_FN float round_f8e4m3(float x) { return from_f8e4m3(to_f8e4m3(x)); }
WEFT_FN float round_f8e5m2(float x) { return from_f8e5m2(to_f8e5m2(x)); }

// f32 on the way from a wider value to a narrow type: rounded to odd (the last bit says that something was lost), so
// that the second rounding decides as one rounding would (Boldo and Melquiond).
WEFT_FN float sticky(double x) {
  const float f = static_cast<float>(x);
  const double back = static_cast<double>(f);
  const uint32_t b = bits(f);
  const uint64_t magnitude = bits(x) & 0x7fffffffffffffffu, returned = bits(back) & 0x7fffffffffffffffu;
  const uint32_t toward_zero = b - static_cast<uint32_t>(returned > magnitude);
  const bool exact = back == x, nan = x != x;
  return f32_of(choose(exact | nan, b, toward_zero | 1u));
}
WEFT_FN float sticky(float x) { return x; }
WEFT_FN float sticky(int64_t x) {
  const int64_t lost = x & 0x7ff, kept = (x & ~int64_t{0x7ff}) | (lost != 0 ? 0x400 : 0);
  const bool exact = (x >= -(int64_t{1} << 53)) & (x <= int64_t{1} << 53);
  return sticky(static_cast<double>(exact ? x : kept));
}
WEFT_FN float sticky(uint64_t x) {
  const uint64_t lost = x & 0xfff, kept = (x & ~uint64_t{0xfff}) | (lost != 0 ? 0x800u : 0u);
  return sticky(static_cast<double>(x <= uint64_t{1} << 53 ? x : kept));
}

// Toward zero; NaN gives 0, what does not fit gives the nearest end. Narrow integers wrap from there.
WEFT_FN int64_t to_i64(double x) {
  const bool high = x >= 0x1p63, low = x < -0x1p63, fits = (x >= -0x1p63) & (x < 0x1p63);
  const uint64_t v = static_cast<uint64_t>(static_cast<int64_t>(choose(fits, x, 0.0)));
  const uint64_t least = uint64_t{1} << 63;
  return static_cast<int64_t>(choose(high, least - 1, choose(low, least, v)));
}
WEFT_FN uint64_t to_u64(double x) {
  const bool above = x >= 0x1p64, upper = (x >= 0x1p63) & (x < 0x1p64);
  const double rest = x - 0x1p63;
  const uint64_t high = static_cast<uint64_t>(to_i64(choose(upper, rest, 0.0))) + (uint64_t{1} << 63);
  return choose(above, UINT64_MAX, choose(upper, high, static_cast<uint64_t>(to_i64(x))));
}

// ---- integers wrap in their type. Division floors; by zero it gives 0, the remainder gives the dividend.

template <int bytes>
struct Unsigned;
template <>
struct Unsigned<1> {
  using type = uint32_t;
};
template <>
struct Unsigned<2> {
  using type = uint32_t;
};
template <>
struct Unsigned<4> {
  using type = uint32_t;
};
template <>
struct Unsigned<8> {
  using type = uint64_t;
};
template <class T>
using Wide = typename Unsigned<static_cast<int>(sizeof(T))>::type;

template <class T>
WEFT_FN T add(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
}
template <class T>
WEFT_FN T sub(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
}
template <class T>
WEFT_FN T mul(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
}
template <class T>
WEFT_FN T neg(T a) {
  return sub(T(0), a);
}
WEFT_FN float square(float x) { return x * x; }
WEFT_FN double square(double x) { return x * x; }
template <class T>
WEFT_FN T square(T x) {
  return mul(x, x);
}
template <class T>
WEFT_FN T floor_div(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0) && b == T(-1)) return neg(a);
  const T q = static_cast<T>(a / b);
  return static_cast<T>(q - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0));
}
template <class T>
WEFT_FN T floor_mod(T a, T b) {
  if (b == 0) return a;
  if (T(-1) < T(0) && b == T(-1)) return 0;
  const T m = static_cast<T>(a % b);
  return static_cast<T>(m != 0 && (m < 0) != (b < 0) ? m + b : m);
}
// A negative exponent floors the fraction toward zero: 0 but for bases 1 and -1.
template <class T>
WEFT_FN T int_pow(T a, T b) {
  if (b < 0) return a == 1 ? T(1) : a == T(-1) ? (b % 2 != 0 ? a : T(1)) : T(0);
  T result = 1;
  for (; b != 0; b = static_cast<T>(b >> 1)) {
    if (b & 1) result = mul(result, a);
    a = mul(a, a);
  }
  return result;
}

// ---- simple functions. NaN propagates through min, max, relu.

WEFT_FN float abs(float x) { return f32_of(bits(x) & 0x7fffffffu); }
WEFT_FN double abs(double x) { return f64_of(bits(x) & 0x7fffffffffffffffu); }
template <class T>
WEFT_FN T int_abs(T x) {
  return x < 0 ? neg(x) : x;
}
template <class T>
WEFT_FN T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
WEFT_FN T max(T a, T b) {
  return a > b ? a : b;
}
template <class T>
WEFT_FN T relu(T x) {
  return x < T(0) ? T(0) : x;
}
template <class T>
WEFT_FN T select(bool c, T a, T b) {
  return c ? a : b;
}
WEFT_FN float select(bool c, float a, float b) { return choose(c, a, b); }
WEFT_FN double select(bool c, double a, double b) { return choose(c, a, b); }
WEFT_FN float relu(float x) { return f32_of(bits(x) & (0 - static_cast<uint32_t>(!(x < 0.0f)))); }
WEFT_FN double relu(double x) { return f64_of(bits(x) & (0 - static_cast<uint64_t>(!(x < 0.0)))); }
WEFT_FN float min(float a, float b) { return choose(a != a, a, choose(b != b, b, choose(a < b, a, b))); }
WEFT_FN float max(float a, float b) { return choose(a != a, a, choose(b != b, b, choose(a > b, a, b))); }
WEFT_FN double min(double a, double b) { return choose(a != a, a, choose(b != b, b, choose(a < b, a, b))); }
WEFT_FN double max(double a, double b) { return choose(a != a, a, choose(b != b, b, choose(a > b, a, b))); }
WEFT_FN float sqrt(float x) { return __builtin_sqrtf(x); }
WEFT_FN double sqrt(double x) { return __builtin_sqrt(x); }
WEFT_FN float rsqrt(float x) { return 1.0f / sqrt(x); }
WEFT_FN double rsqrt(double x) { return 1.0 / sqrt(x); }
WEFT_FN double clamp(double x, double limit) {  // to [-limit, limit]; NaN stays
  const double m = f64_of(bits(x) & 0x7fffffffffffffffu);
  return f64_of(bits(choose(m > limit, limit, m)) | (bits(x) & 0x8000000000000000u));
}
WEFT_FN double copy_sign(double magnitude, double sign) {
  return f64_of((bits(magnitude) & 0x7fffffffffffffffu) | (bits(sign) & 0x8000000000000000u));
}

// ---- exp: x = n ln2 + r, exp(x) = 2^n (1 + q), q = exp(r) - 1 by Taylor. n is in the low bits of x/ln2 + magic.

WEFT_FN double magic() { return 0x1.8p52; }
WEFT_FN double ln2_high() { return 0x1.62e42fee00000p-1; }  // 32 bits, so that n * ln2_high() is exact
WEFT_FN double ln2_low() { return 0x1.a39ef35793c76p-33; }
WEFT_FN double power_of_two(double n_plus_magic) { return f64_of((bits(n_plus_magic) + 1023u) << 52); }
WEFT_FN double nearest_power(double x) { return x * 0x1.71547652b82fep+0 + magic(); }  // n + magic

// Degree 13, error below 2^-57 for |r| <= ln2 / 2.
WEFT_FN double exp_minus_one(double r) {
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  return r + r * r * p;
}
// Degree 8, error below 2^-31: for results that are rounded to f32.
WEFT_FN double exp_minus_one_short(double r) {
  double p = 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  return r + r * r * p;
}

// exp(x + rest) for |rest| far below 1; saturates to inf and 0, NaN stays.
WEFT_FN double exp_sum(double x, double rest) {
  const double inside = clamp(x, 746.0), addend = choose(abs(x) > 746.0, 0.0, rest);
  const double t = nearest_power(inside), n = t - magic();
  const double half = n * 0.5 + magic();  // 2^n in two factors: n goes beyond one exponent field
  const double r = ((inside - n * ln2_high()) - n * ln2_low()) + addend;
  return (1.0 + exp_minus_one(r)) * power_of_two(half) * power_of_two((n - (half - magic())) + magic());
}
WEFT_FN double exp(double x) { return exp_sum(x, 0.0); }

// For f32 results: |x| is cut at 160, where f32 is long inf or 0.
WEFT_FN double exp_short(double x) {
  const double inside = clamp(x, 160.0);
  const double t = nearest_power(inside), n = t - magic();
  const double r = (inside - n * ln2_high()) - n * ln2_low();
  return (1.0 + exp_minus_one_short(r)) * power_of_two(t);
}
WEFT_FN float exp(float x) { return static_cast<float>(exp_short(x)); }

// ---- log: x = 2^k m, m in [sqrt(1/2), sqrt(2)); s = (m - 1) / (m + 1); log m = 2 atanh(s).

struct Split {
  double m, k;
};
WEFT_FN Split split_power(double x) {  // x positive, finite, normal
  const uint64_t from_half_root = bits(x) - 0x3fe6a09e667f3bcdu + (uint64_t{1024} << 52);
  const uint64_t k = from_half_root >> 52;  // k + 1024
  Split s;
  s.k = f64_of(0x4330000000000000u | k) - (0x1p52 + 1024.0);
  s.m = f64_of(bits(x) - (k << 52) + (uint64_t{1024} << 52));
  return s;
}
// The limits and NaNs of log, whatever `inner` made of them.
WEFT_FN double log_ends(double x, double inner) {
  const double number = choose(x < 0.0, not_a_number(), choose(x == 0.0, -infinity(), inner));
  return choose(!(x < infinity()), x, number);
}

WEFT_FN double log(double x) {
  const bool tiny = x < 0x1p-1022;
  const double lifted = x * 0x1p54;
  const Split p = split_power(choose(tiny, lifted, x));
  const double k = p.k - choose(tiny, 54.0, 0.0);
  const double f = p.m - 1.0, s = f / (2.0 + f), z = s * s;
  double series = 2.0 / 23.0;  // 2 z/3 + 2 z^2/5 + ...: error below 2^-58
  series = series * z + 2.0 / 21.0;
  series = series * z + 2.0 / 19.0;
  series = series * z + 2.0 / 17.0;
  series = series * z + 2.0 / 15.0;
  series = series * z + 2.0 / 13.0;
  series = series * z + 2.0 / 11.0;
  series = series * z + 2.0 / 9.0;
  series = series * z + 2.0 / 7.0;
  series = series * z + 2.0 / 5.0;
  series = (series * z + 2.0 / 3.0) * z;
  const double half_square = 0.5 * f * f;  // 2 s = f - s f = f - half_square + s half_square
  const double small = s * (half_square + series) + k * ln2_low();
  return log_ends(x, k * ln2_high() - ((half_square - small) - f));
}

// For f32 results: error below 2^-44.
WEFT_FN double log_short(double x) {
  const Split p = split_power(x);
  const double s = (p.m - 1.0) / (p.m + 1.0), z = s * s;
  double series = 2.0 / 15.0;
  series = series * z + 2.0 / 13.0;
  series = series * z + 2.0 / 11.0;
  series = series * z + 2.0 / 9.0;
  series = series * z + 2.0 / 7.0;
  series = series * z + 2.0 / 5.0;
  series = series * z + 2.0 / 3.0;
  return p.k * ln2_high() + (s * 2.0 + (s * z * series + p.k * ln2_low()));
}
WEFT_FN float log(float x) { return static_cast<float>(log_ends(x, log_short(x))); }

// ---- pairs of f64: high + low, |low| at most half an ulp of high

struct Pair {
  double high, low;
};
WEFT_FN Pair quick_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}  // |a| >= |b| or a == 0
WEFT_FN Pair sum(double a, double b) {
  const double s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
WEFT_FN double upper_half(double a) {
  const double c = a * 134217729.0;
  return c - (c - a);
}
WEFT_FN Pair product(double a, double b) {
  const double p = a * b, ah = upper_half(a), al = a - ah, bh = upper_half(b), bl = b - bh;
  return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

// log(x) to about 2^-65, for positive normal x.
WEFT_FN Pair log_pair(double x, double shift) {
  const Split p = split_power(x);
  const double k = p.k + shift, f = p.m - 1.0;
  const Pair d = sum(p.m, 1.0);
  const double s = f / d.high;
  const Pair back = product(s, d.high);
  const double s_low = (((f - back.high) - back.low) - s * d.low) / d.high;
  Pair z = product(s, s);
  z.low += 2.0 * s * s_low;
  Pair third = product(z.high, 1.0 / 3.0);
  third.low += z.high * 0x1.5555555555555p-56 + z.low * (1.0 / 3.0);
  double series = 1.0 / 23.0;
  series = series * z.high + 1.0 / 21.0;
  series = series * z.high + 1.0 / 19.0;
  series = series * z.high + 1.0 / 17.0;
  series = series * z.high + 1.0 / 15.0;
  series = series * z.high + 1.0 / 13.0;
  series = series * z.high + 1.0 / 11.0;
  series = series * z.high + 1.0 / 9.0;
  series = series * z.high + 1.0 / 7.0;
  series = series * z.high + 1.0 / 5.0;
  Pair w = quick_sum(third.high, series * z.high * z.high);  // atanh(s) = s (1 + w)
  w.low += third.low;
  Pair sw = product(s, w.high);
  sw.low += s * w.low + s_low * w.high;
  const Pair l = quick_sum(s, sw.high);
  const Pair h = quick_sum(k * ln2_high(), 2.0 * l.high);
  return quick_sum(h.high, h.low + (k * ln2_low() + 2.0 * (l.low + (s_low + sw.low))));
}

// ---- pow, with the special cases of C's: x^0 = 1^y = 1, signs of odd powers, NaN for fractions of negative numbers.

WEFT_FN bool is_whole(double magnitude) { return (magnitude >= 0x1p52) | ((magnitude + 0x1p52) - 0x1p52 == magnitude); }

WEFT_FN double pow_ends(double x, double y, double inner) {  // inner: |x|^y for finite x that is not 0
  const double ax = abs(x), ay = abs(y);
  const bool whole = is_whole(ay), odd = whole & (ay < 0x1p53) & !is_whole(ay * 0.5), rising = y > 0.0;
  const bool zero = ax == 0.0, infinite = ax == infinity(), one = (y == 0.0) | (x == 1.0), nan = (x != x) | (y != y);
  const bool undefined = (x < 0.0) & (ax < infinity()) & !whole;
  const double of_zero = choose(rising, 0.0, infinity()), of_infinity = choose(rising, infinity(), 0.0);
  const double magnitude = choose(zero, of_zero, choose(infinite, of_infinity, inner));
  const double with_sign = choose(odd, copy_sign(magnitude, x), magnitude);
  return choose(one, 1.0, choose(undefined | nan, not_a_number(), with_sign));
}

WEFT_FN double pow(double x, double y) {
  const double ax = abs(x), exponent = clamp(y, 0x1p70);  // beyond that every x but 1 gives 0 or inf
  const bool tiny = ax < 0x1p-1022;
  const double lifted = ax * 0x1p54;
  const Pair l = log_pair(choose(tiny, lifted, ax), choose(tiny, -54.0, 0.0));
  Pair e = product(exponent, l.high);
  e.low += exponent * l.low;
  e = quick_sum(e.high, e.low);
  return pow_ends(x, y, exp_sum(e.high, e.low));
}
WEFT_FN float pow(float x, float y) {
  const double exponent = clamp(y, 0x1p70);
  return static_cast<float>(pow_ends(x, y, exp_short(exponent * log_short(abs(static_cast<double>(x))))));
}

// ---- tanh(|x|) = (E - 1) / (E + 1), E - 1 = (2^n - 1) + 2^n q for E = exp(2 |x|): exact where it cancels.

WEFT_FN double tanh(double x) {
  const double twice = 2.0 * abs(x), inside = choose(twice > 44.0, 44.0, twice);
  const double t = nearest_power(inside), n = t - magic(), scale = power_of_two(t);
  const double q = exp_minus_one((inside - n * ln2_high()) - n * ln2_low());
  const double minus_one = (scale - 1.0) + scale * q;
  return copy_sign(minus_one / (minus_one + 2.0), x);
}
WEFT_FN float tanh(float x) {
  const double twice = 2.0 * abs(static_cast<double>(x)), inside = choose(twice > 44.0, 44.0, twice);
  const double t = nearest_power(inside), n = t - magic(), scale = power_of_two(t);
  const double q = exp_minus_one_short((inside - n * ln2_high()) - n * ln2_low());
  const double minus_one = (scale - 1.0) + scale * q;
  return static_cast<float>(copy_sign(minus_one / (minus_one + 2.0), x));
}

// ---- sigmoid = 1 / (1 + exp(-x)), by exp(-|x|) so that nothing overflows; silu = x sigmoid(x); and
// gelu = x / 2 (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3), which does not cancel for x < 0.

WEFT_FN double sigmoid_of(double x, double e) {
  const double top = choose(x < 0.0, e, 1.0);
  return top / (1.0 + e);
}
WEFT_FN double sigmoid(double x) { return sigmoid_of(x, exp(-abs(x))); }
WEFT_FN float sigmoid(float x) { return static_cast<float>(sigmoid_of(x, exp_short(-abs(static_cast<double>(x))))); }
// x sigmoid(v) from h = exp(-|v| / 2): for v < 0 h goes in twice, so that no factor is subnormal before the end.
WEFT_FN double gate(double x, double v, double h) {
  const double factor = choose(v < 0.0, h, 1.0);
  return (x * factor) / (1.0 + h * h) * factor;
}
WEFT_FN double silu(double x) { return gate(x, x, exp(-0.5 * abs(x))); }
WEFT_FN float silu(float x) {
  const double w = x;
  return static_cast<float>(w * sigmoid_of(w, exp_short(-abs(w))));
}

// The argument as a pair: an error of one ulp in 2 u = -700 would be one of 700 in the result.
WEFT_FN double gelu(double x) {
  const double c = clamp(x, 40.0);
  const Pair square = product(c, c);
  Pair cubic = product(square.high, 0.044715);
  cubic.low += square.low * 0.044715 + square.high * 0x1.441355475a31ap-59;
  const Pair one = sum(1.0, cubic.high);
  Pair u = product(0x1.9884533d43651p+0, one.high);  // 2 sqrt(2/pi), and its rest
  u.low += 0x1.9884533d43651p+0 * (one.low + cubic.low) - 0x1.cbc0d30ebfd15p-54 * one.high;
  Pair v = product(c, u.high);
  v.low += c * u.low;
  return gate(x, v.high, exp_sum(-0.5 * abs(v.high), choose(v.high < 0.0, 0.5, -0.5) * v.low));
}
WEFT_FN float gelu(float x) {
  const double w = x, c = clamp(w, 40.0);
  const double v = 0x1.9884533d43651p+0 * (c + 0.044715 * (c * c * c));
  return static_cast<float>(w * sigmoid_of(v, exp_short(-abs(v))));
}

// ---- Philox4x32-10 (Salmon et al., SC 2011): key (seed low, high), counter (i/4 low, i/4 high, k, 0), word i % 4.

struct Counter {
  uint32_t a, b, c, d;
};
WEFT_FN Counter philox_round(Counter x, uint64_t seed, uint32_t round) {
  const uint32_t low = static_cast<uint32_t>(seed) + round * 0x9E3779B9u;
  const uint32_t high = static_cast<uint32_t>(seed >> 32) + round * 0xBB67AE85u;
  const uint64_t p = uint64_t{0xD2511F53u} * x.a, q = uint64_t{0xCD9E8D57u} * x.c;
  const uint32_t p_high = static_cast<uint32_t>(p >> 32), q_high = static_cast<uint32_t>(q >> 32);
  return {q_high ^ x.b ^ low, static_cast<uint32_t>(q), p_high ^ x.d ^ high, static_cast<uint32_t>(p)};
}
WEFT_FN Counter two_rounds(Counter x, uint64_t seed, uint32_t round) {
  return philox_round(philox_round(x, seed, round), seed, round + 1);
}
WEFT_FN float uniform(uint64_t seed, uint32_t k, uint64_t element) {
  Counter x = {static_cast<uint32_t>(element >> 2), static_cast<uint32_t>(element >> 34), k, 0};
  x = two_rounds(two_rounds(two_rounds(two_rounds(two_rounds(x, seed, 0), seed, 2), seed, 4), seed, 6), seed, 8);
  const uint32_t odd = 0 - static_cast<uint32_t>(element & 1), upper = 0 - static_cast<uint32_t>(element >> 1 & 1);
  const uint32_t first = (x.b & odd) | (x.a & ~odd), second = (x.d & odd) | (x.c & ~odd);
  return static_cast<float>(static_cast<int32_t>(((second & upper) | (first & ~upper)) >> 8)) * 0x1p-24f;
}

}  // namespace wm
