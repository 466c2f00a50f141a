// Element types: the table, and conversions by integer arithmetic.
//
// A narrow float is (exponent bits, mantissa bits, has infinity); one decoder and one encoder work on the bits of f64,
// which holds every value of every narrow type and every sum of two rounding halves exactly, so each conversion rounds
// once, from the value given. They are the slow and obvious form; expr/functions_impl.h has the vectorisable one, and a
// test holds the two equal. NaNs stay NaNs: quiet, sign kept, the upper payload bits kept where the type has them (as
// the processor's own conversions do); fp8 has one NaN per sign.
#include "weft/base/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "weft/base/error.h"

namespace weft {
namespace {

struct Row {
  Dtype dtype;
  std::string_view name;
  int64_t bytes;
  bool is_float, is_integer, is_signed;
};

constexpr Row rows[] = {
    {Dtype::f64, "f64", 8, true, false, true},        {Dtype::f32, "f32", 4, true, false, true},
    {Dtype::f16, "f16", 2, true, false, true},        {Dtype::bf16, "bf16", 2, true, false, true},
    {Dtype::f8e4m3, "f8e4m3", 1, true, false, true},  {Dtype::f8e5m2, "f8e5m2", 1, true, false, true},
    {Dtype::i64, "i64", 8, false, true, true},        {Dtype::i32, "i32", 4, false, true, true},
    {Dtype::i16, "i16", 2, false, true, true},        {Dtype::i8, "i8", 1, false, true, true},
    {Dtype::u64, "u64", 8, false, true, false},       {Dtype::u32, "u32", 4, false, true, false},
    {Dtype::u16, "u16", 2, false, true, false},       {Dtype::u8, "u8", 1, false, true, false},
    {Dtype::boolean, "bool", 1, false, false, false}, {Dtype::f64x2, "f64x2", 16, true, false, true},
};

const Row& row(Dtype dtype) {
  const auto at = static_cast<size_t>(dtype);
  WEFT_CHECK(at < std::size(rows), "dtype number {}", at);
  return rows[at];
}

struct Format {
  int exponent_bits, mantissa_bits;
  bool infinity;  // false: the largest exponent holds numbers too, all ones is NaN (f8e4m3)
};
constexpr Format f16_format{5, 10, true}, bf16_format{8, 7, true}, e4m3_format{4, 3, false}, e5m2_format{5, 2, true};

constexpr int f64_mantissa = 52, f64_bias = 1023;
constexpr uint64_t f64_mantissa_mask = (uint64_t{1} << f64_mantissa) - 1;

// The NaN of a format for a f64 NaN's payload: quiet bit set, upper payload bits kept; fp8 formats have only all ones.
uint32_t encode_nan(Format f, uint64_t mantissa) {
  const uint32_t exponent = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
  if (f.mantissa_bits < 7) return exponent | ((1u << f.mantissa_bits) - 1);
  return exponent | (1u << (f.mantissa_bits - 1)) | static_cast<uint32_t>(mantissa >> (f64_mantissa - f.mantissa_bits));
}

uint32_t largest_finite(Format f) {
  const uint32_t all = (1u << (f.exponent_bits + f.mantissa_bits)) - 1;
  return f.infinity ? (all >> f.mantissa_bits << f.mantissa_bits) - 1 : all - 1;
}

// Magnitude bits of a finite, non-zero f64, rounded to nearest even; beyond the largest number: the code above it,
// which is infinity, or NaN where the format has no infinity.
uint32_t encode_finite(Format f, int exponent, uint64_t significand) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  int biased = exponent + bias;  // value = significand * 2^(exponent - 52)
  int drop = f64_mantissa - f.mantissa_bits;
  if (biased < 1) {  // subnormal: fewer bits, no hidden one
    drop += 1 - biased;
    biased = 0;
  }
  if (drop > 63) return 0;  // below half of the smallest subnormal
  const uint64_t half = uint64_t{1} << (drop - 1), rest = significand & ((half << 1) - 1);
  uint64_t kept = significand >> drop;
  kept += rest > half || (rest == half && (kept & 1));
  if (biased > 0) kept += static_cast<uint64_t>(biased - 1) << f.mantissa_bits;  // the hidden bit adds the missing one
  const uint64_t limit = uint64_t{largest_finite(f)} + 1;
  return static_cast<uint32_t>(kept < limit ? kept : limit);
}

uint32_t encode(Format f, double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value), mantissa = bits & f64_mantissa_mask;
  const uint32_t sign = static_cast<uint32_t>(bits >> 63) << (f.exponent_bits + f.mantissa_bits);
  const int exponent = static_cast<int>(bits >> f64_mantissa & 0x7ff);
  if (exponent == 0x7ff) return sign | (mantissa ? encode_nan(f, mantissa) : largest_finite(f) + 1);
  if (exponent == 0) return sign;  // zero, or far below every narrow subnormal
  return sign | encode_finite(f, exponent - f64_bias, mantissa | (uint64_t{1} << f64_mantissa));
}

double decode(Format f, uint32_t bits) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const uint32_t mantissa = bits & ((1u << f.mantissa_bits) - 1);
  const uint32_t exponent = bits >> f.mantissa_bits & ((1u << f.exponent_bits) - 1);
  const uint64_t sign = uint64_t{bits >> (f.exponent_bits + f.mantissa_bits) & 1} << 63;
  const bool top = exponent == (1u << f.exponent_bits) - 1;
  const bool is_nan = f.infinity ? top && mantissa : top && mantissa == (1u << f.mantissa_bits) - 1;
  if (is_nan) {
    const uint64_t payload = uint64_t{mantissa} << (f64_mantissa - f.mantissa_bits);
    return std::bit_cast<double>(sign | 0x7ff8000000000000u | payload);
  }
  if (f.infinity && top) return std::bit_cast<double>(sign | 0x7ff0000000000000u);
  const double magnitude =
      exponent ? std::ldexp((1u << f.mantissa_bits) + mantissa, static_cast<int>(exponent) - bias - f.mantissa_bits)
               : std::ldexp(mantissa, 1 - bias - f.mantissa_bits);
  return sign ? -magnitude : magnitude;
}

// f32 from a value that f32 holds exactly; NaN payloads move by hand so that no processor mode matters.
float narrow_exact(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  if (value == value) return static_cast<float>(value);
  return std::bit_cast<float>(static_cast<uint32_t>(bits >> 63 << 31 | 0x7fc00000u | (bits & f64_mantissa_mask) >> 29));
}

double widen(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value == value) return static_cast<double>(value);
  return std::bit_cast<double>(uint64_t{bits >> 31} << 63 | 0x7ff8000000000000u | uint64_t{bits & 0x7fffffu} << 29);
}

template <typename T>
T get(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void put(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Toward zero; NaN is 0, what does not fit is the nearest end. C++ leaves these undefined, so they are defined here.
int64_t truncate_i64(double value) {
  if (value != value) return 0;
  if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (value < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

uint64_t truncate_u64(double value) {
  if (value >= 0x1p64) return std::numeric_limits<uint64_t>::max();
  if (value >= 0x1p63) return static_cast<uint64_t>(value);
  return static_cast<uint64_t>(truncate_i64(value));
}

[[noreturn]] void no_pairs() {
  throw Error(ErrorKind::unsupported, "f64x2 is a pair, not one number", "load and store its two halves as f64");
}

}  // namespace

const std::vector<Dtype>& all_dtypes() {
  static const std::vector<Dtype> all = [] {
    std::vector<Dtype> list;
    for (const Row& r : rows)
      if (r.dtype != Dtype::f64x2) list.push_back(r.dtype);
    return list;
  }();
  return all;
}

std::string_view name(Dtype dtype) { return row(dtype).name; }

std::optional<Dtype> parse_dtype(std::string_view text) {
  for (const Row& r : rows)
    if (r.name == text) return r.dtype;
  return std::nullopt;
}

int64_t size_bytes(Dtype dtype) { return row(dtype).bytes; }
bool is_float(Dtype dtype) { return row(dtype).is_float; }
bool is_integer(Dtype dtype) { return row(dtype).is_integer; }
bool is_signed(Dtype dtype) { return row(dtype).is_signed; }

Dtype compute_dtype(Dtype dtype) { return is_float(dtype) && size_bytes(dtype) < 4 ? Dtype::f32 : dtype; }
Dtype accumulate_dtype(Dtype dtype) { return compute_dtype(dtype); }

Dtype fold_dtype(Dtype dtype) {
  if (is_integer(dtype)) return is_signed(dtype) ? Dtype::i64 : Dtype::u64;
  return compute_dtype(dtype);
}

float f16_to_f32(uint16_t bits) { return narrow_exact(decode(f16_format, bits)); }
uint16_t f32_to_f16(float value) { return static_cast<uint16_t>(encode(f16_format, widen(value))); }
float bf16_to_f32(uint16_t bits) { return narrow_exact(decode(bf16_format, bits)); }
uint16_t f32_to_bf16(float value) { return static_cast<uint16_t>(encode(bf16_format, widen(value))); }
float f8e4m3_to_f32(uint8_t bits) { return narrow_exact(decode(e4m3_format, bits)); }
uint8_t f32_to_f8e4m3(float value) { return static_cast<uint8_t>(encode(e4m3_format, widen(value))); }
float f8e5m2_to_f32(uint8_t bits) { return narrow_exact(decode(e5m2_format, bits)); }
uint8_t f32_to_f8e5m2(float value) { return static_cast<uint8_t>(encode(e5m2_format, widen(value))); }

double load_f64(Dtype dtype, const void* at) {
  switch (dtype) {
    case Dtype::f64: return get<double>(at);
    case Dtype::f32: return get<float>(at);
    case Dtype::f16: return decode(f16_format, get<uint16_t>(at));
    case Dtype::bf16: return decode(bf16_format, get<uint16_t>(at));
    case Dtype::f8e4m3: return decode(e4m3_format, get<uint8_t>(at));
    case Dtype::f8e5m2: return decode(e5m2_format, get<uint8_t>(at));
    case Dtype::u64: return static_cast<double>(get<uint64_t>(at));
    case Dtype::f64x2: no_pairs();
    default: return static_cast<double>(load_i64(dtype, at));
  }
}

int64_t load_i64(Dtype dtype, const void* at) {
  switch (dtype) {
    case Dtype::i64: return get<int64_t>(at);
    case Dtype::i32: return get<int32_t>(at);
    case Dtype::i16: return get<int16_t>(at);
    case Dtype::i8: return get<int8_t>(at);
    case Dtype::u64: return static_cast<int64_t>(get<uint64_t>(at));
    case Dtype::u32: return get<uint32_t>(at);
    case Dtype::u16: return get<uint16_t>(at);
    case Dtype::u8: return get<uint8_t>(at);
    case Dtype::boolean: return get<uint8_t>(at) != 0;
    default: return truncate_i64(load_f64(dtype, at));
  }
}

void store_f64(Dtype dtype, void* at, double value) {
  switch (dtype) {
    case Dtype::f64: return put(at, value);
    case Dtype::f32: return put(at, static_cast<float>(value));
    case Dtype::f16: return put(at, static_cast<uint16_t>(encode(f16_format, value)));
    case Dtype::bf16: return put(at, static_cast<uint16_t>(encode(bf16_format, value)));
    case Dtype::f8e4m3: return put(at, static_cast<uint8_t>(encode(e4m3_format, value)));
    case Dtype::f8e5m2: return put(at, static_cast<uint8_t>(encode(e5m2_format, value)));
    case Dtype::u64: return put(at, truncate_u64(value));
    case Dtype::boolean: return put(at, static_cast<uint8_t>(value != 0));
    case Dtype::f64x2: no_pairs();
    default: return store_i64(dtype, at, truncate_i64(value));
  }
}

void store_i64(Dtype dtype, void* at, int64_t value) {
  switch (dtype) {
    case Dtype::i64:
    case Dtype::u64: return put(at, value);
    case Dtype::i32:
    case Dtype::u32: return put(at, static_cast<uint32_t>(value));
    case Dtype::i16:
    case Dtype::u16: return put(at, static_cast<uint16_t>(value));
    case Dtype::i8:
    case Dtype::u8: return put(at, static_cast<uint8_t>(value));
    case Dtype::boolean: return put(at, static_cast<uint8_t>(value != 0));
    case Dtype::f32: return put(at, static_cast<float>(value));  // from the integer: one rounding, not two
    default: break;
  }
  // Narrow types: an i64 beyond 2^53 would round on its way to f64. Setting the lowest bit where bits were lost
  // ("round to odd") keeps halves and ties apart, so that the second rounding decides as the only one would.
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const int drop = std::bit_width(magnitude) > 53 ? std::bit_width(magnitude) - 53 : 0;
  uint64_t kept = magnitude >> drop;
  if (dtype == Dtype::f64) return put(at, static_cast<double>(value));
  kept |= (kept << drop) != magnitude;
  const double exact = std::ldexp(static_cast<double>(kept), drop);
  store_f64(dtype, at, value < 0 ? -exact : exact);
}

}  // namespace weft
