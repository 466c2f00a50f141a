// Conversion of blocks, in plain loops over the element conversions of expr/functions_impl.h, which generated kernels
// use too: the same bits, and the compiler makes vector code of them. Every narrow float widens to f32 exactly;
// everything narrows by way of an f32 that remembers whether something was lost, so each conversion rounds once.
#include "weft/kernel/convert.h"

#include <cstring>
#include <type_traits>

#include "weft/base/error.h"
#include "weft/expr/functions_impl.h"

namespace weft::kernel {

namespace {

// What lies in memory, per dtype, where the C++ type alone does not tell.
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};
struct F8E4 {
  uint8_t bits;
};
struct F8E5 {
  uint8_t bits;
};
struct Bool {
  uint8_t value;
};  // one byte, 0 or 1

float value(F16 x) { return wm::from_f16(x.bits); }
float value(BF16 x) { return wm::from_bf16(x.bits); }
float value(F8E4 x) { return wm::from_f8e4m3(x.bits); }
float value(F8E5 x) { return wm::from_f8e5m2(x.bits); }
uint8_t value(Bool x) { return x.value != 0; }
template <typename T>
T value(T x) {
  return x;
}

template <typename T>
float nearly_f32(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return wm::sticky(x);
  else if constexpr (std::is_same_v<T, uint64_t>)
    return wm::sticky(x);
  else
    return wm::sticky(static_cast<int64_t>(x));
}

template <typename To, typename T>
To element(T x) {
  if constexpr (std::is_same_v<To, F16>)
    return {wm::to_f16(nearly_f32(x))};
  else if constexpr (std::is_same_v<To, BF16>)
    return {wm::to_bf16(nearly_f32(x))};
  else if constexpr (std::is_same_v<To, F8E4>)
    return {wm::to_f8e4m3(nearly_f32(x))};
  else if constexpr (std::is_same_v<To, F8E5>)
    return {wm::to_f8e5m2(nearly_f32(x))};
  else if constexpr (std::is_same_v<To, Bool>)
    return {static_cast<uint8_t>(x != T(0))};
  else if constexpr (std::is_floating_point_v<T> && std::is_same_v<To, uint64_t>)
    return wm::to_u64(x);
  else if constexpr (std::is_floating_point_v<T> && std::is_integral_v<To>)
    return static_cast<To>(wm::to_i64(x));
  else
    return static_cast<To>(x);
}

template <typename From, typename To>
void loop(const void* from, void* to, int64_t count) {
  const auto* a = static_cast<const From*>(from);
  auto* b = static_cast<To*>(to);
  for (int64_t i = 0; i < count; i++) b[i] = element<To>(value(a[i]));
}

using Loop = void (*)(const void*, void*, int64_t);

template <typename From>
Loop loop_to(Dtype to) {
  switch (to) {
    case Dtype::f64: return loop<From, double>;
    case Dtype::f32: return loop<From, float>;
    case Dtype::f16: return loop<From, F16>;
    case Dtype::bf16: return loop<From, BF16>;
    case Dtype::f8e4m3: return loop<From, F8E4>;
    case Dtype::f8e5m2: return loop<From, F8E5>;
    case Dtype::i64: return loop<From, int64_t>;
    case Dtype::i32: return loop<From, int32_t>;
    case Dtype::i16: return loop<From, int16_t>;
    case Dtype::i8: return loop<From, int8_t>;
    case Dtype::u64: return loop<From, uint64_t>;
    case Dtype::u32: return loop<From, uint32_t>;
    case Dtype::u16: return loop<From, uint16_t>;
    case Dtype::u8: return loop<From, uint8_t>;
    case Dtype::boolean: return loop<From, Bool>;
    case Dtype::f64x2: break;
  }
  throw Error(ErrorKind::unsupported, fmt::format("conversion of numbers to {}", name(to)),
              "pairs are only copied and combined with pairs");
}

Loop loop_from(Dtype from, Dtype to) {
  switch (from) {
    case Dtype::f64: return loop_to<double>(to);
    case Dtype::f32: return loop_to<float>(to);
    case Dtype::f16: return loop_to<F16>(to);
    case Dtype::bf16: return loop_to<BF16>(to);
    case Dtype::f8e4m3: return loop_to<F8E4>(to);
    case Dtype::f8e5m2: return loop_to<F8E5>(to);
    case Dtype::i64: return loop_to<int64_t>(to);
    case Dtype::i32: return loop_to<int32_t>(to);
    case Dtype::i16: return loop_to<int16_t>(to);
    case Dtype::i8: return loop_to<int8_t>(to);
    case Dtype::u64: return loop_to<uint64_t>(to);
    case Dtype::u32: return loop_to<uint32_t>(to);
    case Dtype::u16: return loop_to<uint16_t>(to);
    case Dtype::u8: return loop_to<uint8_t>(to);
    case Dtype::boolean: return loop_to<Bool>(to);
    case Dtype::f64x2: break;
  }
  throw Error(ErrorKind::unsupported, fmt::format("conversion of {} to {}", name(from), name(to)),
              "pairs are only copied and combined with pairs");
}

}  // namespace

void convert(Dtype from_dtype, const void* from, Dtype to_dtype, void* to, int64_t count) {
  if (from_dtype == to_dtype)
    std::memmove(to, from, static_cast<size_t>(count * size_bytes(to_dtype)));
  else
    loop_from(from_dtype, to_dtype)(from, to, count);
}

}  // namespace weft::kernel
