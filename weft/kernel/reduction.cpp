// Reductions: how two sources that meet become one, and the value that changes nothing.
//
// Plans name one of nine operations and sixteen dtypes. Ways: a virtual class per pair (slow, much text), or one loop
// template over (operation, element). We take the template; narrow floats are a third kind of element that is read into
// f32, combined and rounded once. NaN propagates through min and max, on either side, as IEEE 754-2019 minimum does
// (MPI leaves it open, NCCL and torch propagate): a result must not depend on which rank had the NaN. Of two equal
// zeros of different sign the right one is taken. bool is a two-valued integer: sum is or, prod is and.
#include <cmath>
#include <cstring>
#include <limits>

#include "weft/expr/functions_impl.h"
#include "weft/kernel/kernel.h"

namespace weft::kernel {

namespace {

struct Row {
  Reduction reduction;
  std::string_view name;
};
constexpr Row rows[] = {
    {Reduction::sum, "sum"},
    {Reduction::prod, "prod"},
    {Reduction::min, "min"},
    {Reduction::max, "max"},
    {Reduction::bit_and, "bit_and"},
    {Reduction::bit_or, "bit_or"},
    {Reduction::bit_xor, "bit_xor"},
    {Reduction::logical_and, "logical_and"},
    {Reduction::logical_or, "logical_or"},
};

// One element of memory type `Memory`, computed with as `Value`.
template <typename T>
struct Plain {
  using Memory = T;
  using Value = T;
  static T load(T x) { return x; }
  static T store(T x) { return x; }
};
struct Bool {
  using Memory = uint8_t;
  using Value = uint8_t;
  static uint8_t load(uint8_t x) { return x != 0; }
  static uint8_t store(uint8_t x) { return x != 0; }
};
template <typename Bits, float (*widen)(Bits), Bits (*narrow)(float)>
struct Narrow {
  using Memory = Bits;
  using Value = float;
  static float load(Bits x) { return widen(x); }
  static Bits store(float x) { return narrow(x); }
};
using F16 = Narrow<uint16_t, wm::from_f16, wm::to_f16>;
using BF16 = Narrow<uint16_t, wm::from_bf16, wm::to_bf16>;
using F8E4 = Narrow<uint8_t, wm::from_f8e4m3, wm::to_f8e4m3>;
using F8E5 = Narrow<uint8_t, wm::from_f8e5m2, wm::to_f8e5m2>;

template <typename T, typename U>
T plus(T a, T b) {
  return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
}
template <typename T, typename U>
T times(T a, T b) {
  return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
}

template <Reduction reduction, typename T>
T apply(T a, T b) {
  // Integers wrap: computed without sign, in a type wide enough not to be promoted to a signed int.
  using Wrap =
      std::conditional_t<std::is_floating_point_v<T>, T, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;
  if constexpr (reduction == Reduction::sum) return plus<T, Wrap>(a, b);
  if constexpr (reduction == Reduction::prod) return times<T, Wrap>(a, b);
  if constexpr (reduction == Reduction::min) return a < b || a != a ? a : b;
  if constexpr (reduction == Reduction::max) return a > b || a != a ? a : b;
  if constexpr (reduction == Reduction::logical_and) return a != T(0) && b != T(0);
  if constexpr (reduction == Reduction::logical_or) return a != T(0) || b != T(0);
  if constexpr (!std::is_floating_point_v<T>) {
    if constexpr (reduction == Reduction::bit_and) return a & b;
    if constexpr (reduction == Reduction::bit_or) return a | b;
    if constexpr (reduction == Reduction::bit_xor) return a ^ b;
  }
  return b;
}

template <Reduction reduction, typename E>
void combine_elements(void* into, const void* from, int64_t count) {
  auto* a = static_cast<typename E::Memory*>(into);
  const auto* b = static_cast<const typename E::Memory*>(from);
  for (int64_t i = 0; i < count; i++)
    a[i] = E::store(apply<reduction, typename E::Value>(E::load(a[i]), E::load(b[i])));
}

template <typename E>
void combine_as(Reduction reduction, void* into, const void* from, int64_t count) {
  switch (reduction) {
    case Reduction::sum: return combine_elements<Reduction::sum, E>(into, from, count);
    case Reduction::prod: return combine_elements<Reduction::prod, E>(into, from, count);
    case Reduction::min: return combine_elements<Reduction::min, E>(into, from, count);
    case Reduction::max: return combine_elements<Reduction::max, E>(into, from, count);
    case Reduction::bit_and: return combine_elements<Reduction::bit_and, E>(into, from, count);
    case Reduction::bit_or: return combine_elements<Reduction::bit_or, E>(into, from, count);
    case Reduction::bit_xor: return combine_elements<Reduction::bit_xor, E>(into, from, count);
    case Reduction::logical_and: return combine_elements<Reduction::logical_and, E>(into, from, count);
    case Reduction::logical_or: return combine_elements<Reduction::logical_or, E>(into, from, count);
  }
}

bool is_bitwise(Reduction r) { return r == Reduction::bit_and || r == Reduction::bit_or || r == Reduction::bit_xor; }

double float_identity(Reduction reduction, Dtype dtype) {
  const double largest =
      dtype == Dtype::f8e4m3 ? 448 : std::numeric_limits<double>::infinity();  // e4m3 has no infinity
  switch (reduction) {
    case Reduction::prod:
    case Reduction::logical_and: return 1;
    case Reduction::min: return largest;
    case Reduction::max: return -largest;
    default: return 0;
  }
}

int64_t integer_identity(Reduction reduction, Dtype dtype) {
  const int bits = static_cast<int>(size_bytes(dtype)) * 8;
  const bool is_bool = dtype == Dtype::boolean;
  const int64_t largest = is_bool            ? 1
                          : is_signed(dtype) ? INT64_MAX >> (64 - bits)
                                             : static_cast<int64_t>(UINT64_MAX >> (64 - bits));
  switch (reduction) {
    case Reduction::prod:
    case Reduction::logical_and: return 1;
    case Reduction::min: return largest;
    case Reduction::max: return is_signed(dtype) && !is_bool ? -largest - 1 : 0;
    case Reduction::bit_and: return is_bool ? 1 : -1;
    default: return 0;
  }
}

}  // namespace

std::string_view name(Reduction reduction) {
  for (const Row& row : rows)
    if (row.reduction == reduction) return row.name;
  fail(ErrorKind::internal, "reduction {} has no name", static_cast<int>(reduction));
}

std::optional<Reduction> parse_reduction(std::string_view text) {
  for (const Row& row : rows)
    if (row.name == text) return row.reduction;
  return std::nullopt;
}

void check_reduction(Reduction reduction, Dtype dtype) {
  const bool integral = is_integer(dtype) || dtype == Dtype::boolean;
  if (is_bitwise(reduction) && !integral)
    throw Error(
        ErrorKind::plan,
        fmt::format("{} of {} elements: bits are combined of integers only", name(reduction), weft::name(dtype)),
        "use sum, prod, min or max, or an integer dtype", "V1");
}

void store_identity(Reduction reduction, Dtype dtype, void* at) {
  check_reduction(reduction, dtype);
  if (dtype == Dtype::f64x2) {
    store_identity(reduction, Dtype::f64, at);
    store_identity(reduction, Dtype::f64, static_cast<char*>(at) + 8);
  } else if (is_float(dtype)) {
    store_f64(dtype, at, float_identity(reduction, dtype));
  } else {
    store_i64(dtype, at, integer_identity(reduction, dtype));
  }
}

void combine(Reduction reduction, Dtype dtype, void* into, const void* from, int64_t count) {
  check_reduction(reduction, dtype);
  switch (dtype) {
    case Dtype::f64: return combine_as<Plain<double>>(reduction, into, from, count);
    case Dtype::f32: return combine_as<Plain<float>>(reduction, into, from, count);
    case Dtype::f16: return combine_as<F16>(reduction, into, from, count);
    case Dtype::bf16: return combine_as<BF16>(reduction, into, from, count);
    case Dtype::f8e4m3: return combine_as<F8E4>(reduction, into, from, count);
    case Dtype::f8e5m2: return combine_as<F8E5>(reduction, into, from, count);
    case Dtype::i64: return combine_as<Plain<int64_t>>(reduction, into, from, count);
    case Dtype::i32: return combine_as<Plain<int32_t>>(reduction, into, from, count);
    case Dtype::i16: return combine_as<Plain<int16_t>>(reduction, into, from, count);
    case Dtype::i8: return combine_as<Plain<int8_t>>(reduction, into, from, count);
    case Dtype::u64: return combine_as<Plain<uint64_t>>(reduction, into, from, count);
    case Dtype::u32: return combine_as<Plain<uint32_t>>(reduction, into, from, count);
    case Dtype::u16: return combine_as<Plain<uint16_t>>(reduction, into, from, count);
    case Dtype::u8: return combine_as<Plain<uint8_t>>(reduction, into, from, count);
    case Dtype::boolean: return combine_as<Bool>(reduction, into, from, count);
    case Dtype::f64x2: return combine_as<Plain<double>>(reduction, into, from, 2 * count);
  }
}

}  // namespace weft::kernel
