// Conversion of blocks. Native types convert in plain loops that the compiler vectorises; narrow floats widen through
// tables filled from base/dtype.h (256 KiB for a 16-bit type, built on first use), so they agree with it by construction.
#include "weft/kernel/convert.h"

#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include "weft/base/error.h"

namespace weft::kernel {

namespace {

struct Boolean { uint8_t value; };                // one byte, 0 or 1

// Toward zero; NaN gives 0, what does not fit the nearest end of 64 bits; narrower integers wrap from there.
template <typename F> int64_t truncate(F x) {
  if (x != x) return 0;
  if (x >= static_cast<F>(0x1p63)) return std::numeric_limits<int64_t>::max();
  if (x < -static_cast<F>(0x1p63)) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}
template <typename F> uint64_t truncate_unsigned(F x) {
  if (x >= static_cast<F>(0x1p64)) return std::numeric_limits<uint64_t>::max();
  return x >= static_cast<F>(0x1p63) ? static_cast<uint64_t>(x) : static_cast<uint64_t>(truncate(x));
}

template <typename To, typename From> To cast(From x) {
  if constexpr (std::is_same_v<To, Boolean>) return {static_cast<uint8_t>(x != From(0))};
  else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if constexpr (std::is_same_v<To, uint64_t>) return truncate_unsigned(x);
    else return static_cast<To>(truncate(x));
  } else return static_cast<To>(x);
}

template <typename From, typename To> void loop(const void* from, void* to, int64_t count) {
  const auto* a = static_cast<const From*>(from);
  auto* b = static_cast<To*>(to);
  for (int64_t i = 0; i < count; i++) {
    if constexpr (std::is_same_v<From, Boolean>) b[i] = cast<To>(static_cast<uint8_t>(a[i].value != 0));
    else b[i] = cast<To>(a[i]);
  }
}

template <typename From> bool to_native(const void* from, Dtype to_dtype, void* to, int64_t count) {
  switch (to_dtype) {
    case Dtype::f64: loop<From, double>(from, to, count); return true;
    case Dtype::f32: loop<From, float>(from, to, count); return true;
    case Dtype::i64: loop<From, int64_t>(from, to, count); return true;
    case Dtype::i32: loop<From, int32_t>(from, to, count); return true;
    case Dtype::i16: loop<From, int16_t>(from, to, count); return true;
    case Dtype::i8: loop<From, int8_t>(from, to, count); return true;
    case Dtype::u64: loop<From, uint64_t>(from, to, count); return true;
    case Dtype::u32: loop<From, uint32_t>(from, to, count); return true;
    case Dtype::u16: loop<From, uint16_t>(from, to, count); return true;
    case Dtype::u8: loop<From, uint8_t>(from, to, count); return true;
    case Dtype::boolean: loop<From, Boolean>(from, to, count); return true;
    default: return false;
  }
}

bool native(Dtype from_dtype, const void* from, Dtype to_dtype, void* to, int64_t count) {
  switch (from_dtype) {
    case Dtype::f64: return to_native<double>(from, to_dtype, to, count);
    case Dtype::f32: return to_native<float>(from, to_dtype, to, count);
    case Dtype::i64: return to_native<int64_t>(from, to_dtype, to, count);
    case Dtype::i32: return to_native<int32_t>(from, to_dtype, to, count);
    case Dtype::i16: return to_native<int16_t>(from, to_dtype, to, count);
    case Dtype::i8: return to_native<int8_t>(from, to_dtype, to, count);
    case Dtype::u64: return to_native<uint64_t>(from, to_dtype, to, count);
    case Dtype::u32: return to_native<uint32_t>(from, to_dtype, to, count);
    case Dtype::u16: return to_native<uint16_t>(from, to_dtype, to, count);
    case Dtype::u8: return to_native<uint8_t>(from, to_dtype, to, count);
    case Dtype::boolean: return to_native<Boolean>(from, to_dtype, to, count);
    default: return false;
  }
}

// f32 of every bit pattern of a narrow type.
template <typename Bits, float (*widen)(Bits)> const float* table() {
  static const std::unique_ptr<float[]> values = [] {
    const size_t patterns = size_t{1} << (8 * sizeof(Bits));
    std::unique_ptr<float[]> list(new float[patterns]);
    for (size_t i = 0; i < patterns; i++) list[i] = widen(static_cast<Bits>(i));
    return list;
  }();
  return values.get();
}

template <typename Bits, float (*widen)(Bits)> void widen_block(const void* from, float* to, int64_t count) {
  const float* values = table<Bits, widen>();
  const auto* bits = static_cast<const Bits*>(from);
  for (int64_t i = 0; i < count; i++) to[i] = values[bits[i]];
}

template <typename Bits, Bits (*narrow)(float)> void narrow_block(const float* from, void* to, int64_t count) {
  auto* bits = static_cast<Bits*>(to);
  for (int64_t i = 0; i < count; i++) bits[i] = narrow(from[i]);
}

bool widen(Dtype from_dtype, const void* from, float* to, int64_t count) {
  switch (from_dtype) {
    case Dtype::f16: widen_block<uint16_t, f16_to_f32>(from, to, count); return true;
    case Dtype::bf16: widen_block<uint16_t, bf16_to_f32>(from, to, count); return true;
    case Dtype::f8e4m3: widen_block<uint8_t, f8e4m3_to_f32>(from, to, count); return true;
    case Dtype::f8e5m2: widen_block<uint8_t, f8e5m2_to_f32>(from, to, count); return true;
    default: return false;
  }
}

bool narrow(const float* from, Dtype to_dtype, void* to, int64_t count) {
  switch (to_dtype) {
    case Dtype::f16: narrow_block<uint16_t, f32_to_f16>(from, to, count); return true;
    case Dtype::bf16: narrow_block<uint16_t, f32_to_bf16>(from, to, count); return true;
    case Dtype::f8e4m3: narrow_block<uint8_t, f32_to_f8e4m3>(from, to, count); return true;
    case Dtype::f8e5m2: narrow_block<uint8_t, f32_to_f8e5m2>(from, to, count); return true;
    default: return false;
  }
}

bool is_narrow(Dtype dtype) { return is_float(dtype) && size_bytes(dtype) < 4; }

// f64 and integers to narrow floats: one rounding, so not by way of f32.
void one_by_one(Dtype from_dtype, const void* from, Dtype to_dtype, void* to, int64_t count) {
  const auto* a = static_cast<const char*>(from);
  auto* b = static_cast<char*>(to);
  const int64_t from_bytes = size_bytes(from_dtype), to_bytes = size_bytes(to_dtype);
  for (int64_t i = 0; i < count; i++) {
    if (is_float(from_dtype) || from_dtype == Dtype::u64) store_f64(to_dtype, b + i * to_bytes, load_f64(from_dtype, a + i * from_bytes));
    else store_i64(to_dtype, b + i * to_bytes, load_i64(from_dtype, a + i * from_bytes));
  }
}

}  // namespace

void convert(Dtype from_dtype, const void* from, Dtype to_dtype, void* to, int64_t count) {
  if (from_dtype == to_dtype) {
    std::memmove(to, from, static_cast<size_t>(count * size_bytes(to_dtype)));
    return;
  }
  if (from_dtype == Dtype::f64x2 || to_dtype == Dtype::f64x2)
    throw Error(ErrorKind::unsupported, fmt::format("conversion of {} to {}", name(from_dtype), name(to_dtype)), "pairs are only copied and added");
  if (native(from_dtype, from, to_dtype, to, count)) return;
  if (to_dtype == Dtype::f32 && widen(from_dtype, from, static_cast<float*>(to), count)) return;
  if (from_dtype == Dtype::f32 && narrow(static_cast<const float*>(from), to_dtype, to, count)) return;
  if (!is_narrow(from_dtype)) return one_by_one(from_dtype, from, to_dtype, to, count);
  constexpr int64_t block = 256;                  // a narrow type to any other: by f32, which holds it exactly
  float wide[block];
  for (int64_t i = 0; i < count; i += block) {
    const int64_t n = count - i < block ? count - i : block;
    widen(from_dtype, static_cast<const char*>(from) + i * size_bytes(from_dtype), wide, n);
    convert(Dtype::f32, wide, to_dtype, static_cast<char*>(to) + i * size_bytes(to_dtype), n);
  }
}

}  // namespace weft::kernel
