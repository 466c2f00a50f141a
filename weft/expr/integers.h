// Integer operations that both scalar evaluation and plans use. Internal to expr.
//
// Division floors and the remainder has the divisor's sign, as in Python: -7 / 2 = -4, -7 % 2 = 1. So part numbers and
// ranks wrap the same way on both sides of zero. Sums and products wrap modulo 2^64 here; callers that must notice
// use the overflow builtins.
#pragma once

#include <bit>
#include <cstdint>

namespace weft::expr::integers {

inline int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrap_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// b is not 0. The quotient of the least integer by -1 wraps to itself.
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) return wrap_sub(0, a);
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
inline int64_t floor_mod(int64_t a, int64_t b) {
  if (((a | b) >> 31) == 0)
    return static_cast<uint32_t>(a) % static_cast<uint32_t>(b);  // ranks and parts: a quarter of the time
  if (b == -1) return 0;
  const int64_t m = a % b;
  return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

// 0 <= b. Shifting everything out gives 0 (or -1 for a negative number shifted right).
inline int64_t shift_left(int64_t a, int64_t b) {
  return b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}
inline int64_t shift_right(int64_t a, int64_t b) { return a >> (b > 63 ? 63 : b); }

inline int64_t log2c(int64_t x) { return x <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(x - 1)); }  // ceil(log2 x)
inline int64_t p2floor(int64_t x) {
  return x <= 0 ? 0 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(x)));
}

}  // namespace weft::expr::integers
