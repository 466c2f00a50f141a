// Included by body_ops*.cpp with WEFT_LOOPS naming the instance: the loops themselves, each a plain one that the
// compiler vectorises. What an element is goes through functions_impl.h, as in generated code.
#include <type_traits>

#include "weft/expr/body_ops.h"
#include "weft/expr/functions_impl.h"

#define WEFT_OF static inline __attribute__((always_inline))

namespace weft::expr {
namespace {

template <class T>
constexpr bool real = std::is_floating_point_v<T>;

#define WEFT_UNARY(NAME, EXPR) \
  struct NAME {                \
    template <class T>         \
    WEFT_OF T of(T x) {        \
      EXPR;                    \
    }                          \
  };
#define WEFT_BINARY(NAME, EXPR) \
  struct NAME {                 \
    template <class T>          \
    WEFT_OF T of(T x, T y) {    \
      EXPR;                     \
    }                           \
  };
#define WEFT_COMPARE(NAME, OP)     \
  struct NAME {                    \
    template <class T>             \
    WEFT_OF uint8_t of(T x, T y) { \
      return x OP y;               \
    }                              \
  };

WEFT_UNARY(Neg, if constexpr (real<T>) return -x; else return wm::neg(x))
WEFT_UNARY(Square, if constexpr (real<T>) return x * x; else return wm::mul(x, x))
WEFT_UNARY(Abs, if constexpr (real<T>) return wm::abs(x); else return wm::int_abs(x))
WEFT_UNARY(Relu, return wm::relu(x))
WEFT_UNARY(Sqrt, return wm::sqrt(x))
WEFT_UNARY(Rsqrt, return wm::rsqrt(x))
WEFT_UNARY(Exp, return wm::exp(x))
WEFT_UNARY(Log, return wm::log(x))
WEFT_UNARY(Tanh, return wm::tanh(x))
WEFT_UNARY(Sigmoid, return wm::sigmoid(x))
WEFT_UNARY(Silu, return wm::silu(x))
WEFT_UNARY(Gelu, return wm::gelu(x))
WEFT_BINARY(Add, if constexpr (real<T>) return x + y; else return wm::add(x, y))
WEFT_BINARY(Sub, if constexpr (real<T>) return x - y; else return wm::sub(x, y))
WEFT_BINARY(Mul, if constexpr (real<T>) return x * y; else return wm::mul(x, y))
WEFT_BINARY(Div, if constexpr (real<T>) return x / y; else return wm::floor_div(x, y))
WEFT_BINARY(Mod, return wm::floor_mod(x, y))
WEFT_BINARY(Pow, if constexpr (real<T>) return wm::pow(x, y); else return wm::int_pow(x, y))
WEFT_BINARY(Min, return wm::min(x, y))
WEFT_BINARY(Max, return wm::max(x, y))
WEFT_COMPARE(Lt, <)
WEFT_COMPARE(Gt, >)
WEFT_COMPARE(Le, <=)
WEFT_COMPARE(Ge, >=)
WEFT_COMPARE(Eq, ==)
WEFT_COMPARE(Ne, !=)

struct And {
  template <class T>
  WEFT_OF T of(T x, T y) {
    return x & y;
  }
};
struct Or {
  template <class T>
  WEFT_OF T of(T x, T y) {
    return x | y;
  }
};
struct Not {
  template <class T>
  WEFT_OF T of(T x) {
    return x ^ T(1);
  }
};

template <class F, class To, class From>
void one(void* d, const void* a, const void*, const void*, int64_t n) {
  To* __restrict to = static_cast<To*>(d);
  const From* __restrict from = static_cast<const From*>(a);
  for (int64_t i = 0; i < n; ++i) to[i] = F::of(from[i]);
}
template <class F, class T>
void unary(void* d, const void* a, const void* b, const void* c, int64_t n) {
  one<F, T, T>(d, a, b, c, n);
}
template <class F, class T>
void binary(void* d, const void* a, const void* b, const void*, int64_t n) {
  T* __restrict to = static_cast<T*>(d);
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  for (int64_t i = 0; i < n; ++i) to[i] = F::of(x[i], y[i]);
}
template <class F, class T>
void compare(void* d, const void* a, const void* b, const void*, int64_t n) {
  uint8_t* __restrict to = static_cast<uint8_t*>(d);
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  for (int64_t i = 0; i < n; ++i) to[i] = F::of(x[i], y[i]);
}
struct Choice {};
template <class, class T>
void choice(void* d, const void* a, const void* b, const void* c, int64_t n) {
  T* __restrict to = static_cast<T*>(d);
  const uint8_t* which = static_cast<const uint8_t*>(a);
  const T *x = static_cast<const T*>(b), *y = static_cast<const T*>(c);
  for (int64_t i = 0; i < n; ++i) to[i] = wm::select(which[i] != 0, x[i], y[i]);
}

void uniform(void* d, const void* a, const void* b, const void* c, int64_t n) {
  float* __restrict to = static_cast<float*>(d);
  const auto seed = static_cast<uint64_t>(*static_cast<const int64_t*>(a));
  const auto stream = static_cast<uint32_t>(*static_cast<const int64_t*>(b));
  const auto first = static_cast<uint64_t>(*static_cast<const int64_t*>(c));
  for (int64_t i = 0; i < n; ++i) to[i] = wm::uniform(seed, stream, first + static_cast<uint64_t>(i));
}
void position(void* d, const void*, const void*, const void* c, int64_t n) {
  const int64_t first = *static_cast<const int64_t*>(c);
  for (int64_t i = 0; i < n; ++i) static_cast<int64_t*>(d)[i] = first + i;
}
void position_of(void* d, const void* a, const void* b, const void* c, int64_t n) {
  const int64_t inner = *static_cast<const int64_t*>(a), extent = *static_cast<const int64_t*>(b);
  const int64_t first = *static_cast<const int64_t*>(c);
  for (int64_t i = 0; i < n; ++i) static_cast<int64_t*>(d)[i] = wm::floor_mod(wm::floor_div(first + i, inner), extent);
}

// ---- tables

template <template <class, class> class L, class F>
Loop of_floats(Dtype t) {
  return t == Dtype::f32 ? L<F, float>::loop : t == Dtype::f64 ? L<F, double>::loop : nullptr;
}
template <template <class, class> class L, class F>
Loop of_integers(Dtype t) {
  switch (t) {
    case Dtype::i64: return L<F, int64_t>::loop;
    case Dtype::i32: return L<F, int32_t>::loop;
    case Dtype::i16: return L<F, int16_t>::loop;
    case Dtype::i8: return L<F, int8_t>::loop;
    case Dtype::u64: return L<F, uint64_t>::loop;
    case Dtype::u32: return L<F, uint32_t>::loop;
    case Dtype::u16: return L<F, uint16_t>::loop;
    case Dtype::u8: return L<F, uint8_t>::loop;
    default: return nullptr;
  }
}
template <template <class, class> class L, class F>
Loop of_numbers(Dtype t) {
  return is_float(t) ? of_floats<L, F>(t) : of_integers<L, F>(t);
}
template <template <class, class> class L, class F>
Loop with_bool(Dtype t) {
  return t == Dtype::boolean ? L<F, uint8_t>::loop : of_numbers<L, F>(t);
}
template <class F, class T>
struct Unary {
  static constexpr Loop loop = unary<F, T>;
};
template <class F, class T>
struct Binary {
  static constexpr Loop loop = binary<F, T>;
};
template <class F, class T>
struct Compare {
  static constexpr Loop loop = compare<F, T>;
};
template <class F, class T>
struct Choose {
  static constexpr Loop loop = choice<F, T>;
};

Loop operation(Code code, Dtype t) {
  switch (code) {
    case Code::add: return of_numbers<Binary, Add>(t);
    case Code::sub: return of_numbers<Binary, Sub>(t);
    case Code::mul: return of_numbers<Binary, Mul>(t);
    case Code::div: return of_numbers<Binary, Div>(t);
    case Code::mod: return of_integers<Binary, Mod>(t);
    case Code::pow: return of_numbers<Binary, Pow>(t);
    case Code::square: return of_numbers<Unary, Square>(t);
    case Code::neg: return of_numbers<Unary, Neg>(t);
    case Code::lt: return with_bool<Compare, Lt>(t);
    case Code::gt: return with_bool<Compare, Gt>(t);
    case Code::le: return with_bool<Compare, Le>(t);
    case Code::ge: return with_bool<Compare, Ge>(t);
    case Code::eq: return with_bool<Compare, Eq>(t);
    case Code::ne: return with_bool<Compare, Ne>(t);
    case Code::and_: return binary<And, uint8_t>;
    case Code::or_: return binary<Or, uint8_t>;
    case Code::not_: return unary<Not, uint8_t>;
    case Code::abs: return of_numbers<Unary, Abs>(t);
    case Code::min: return of_numbers<Binary, Min>(t);
    case Code::max: return of_numbers<Binary, Max>(t);
    case Code::relu: return of_numbers<Unary, Relu>(t);
    case Code::select: return with_bool<Choose, Choice>(t);
    case Code::sqrt: return of_floats<Unary, Sqrt>(t);
    case Code::rsqrt: return of_floats<Unary, Rsqrt>(t);
    case Code::exp: return of_floats<Unary, Exp>(t);
    case Code::log: return of_floats<Unary, Log>(t);
    case Code::tanh: return of_floats<Unary, Tanh>(t);
    case Code::sigmoid: return of_floats<Unary, Sigmoid>(t);
    case Code::silu: return of_floats<Unary, Silu>(t);
    case Code::gelu: return of_floats<Unary, Gelu>(t);
    case Code::uniform: return uniform;
    case Code::position: return position;
    case Code::position_of: return position_of;
    default: return nullptr;
  }
}

// ---- conversions

template <class To>
struct Cast {
  template <class From>
  WEFT_OF To of(From x) {
    if constexpr (real<From> && std::is_same_v<To, uint64_t>)
      return wm::to_u64(x);
    else if constexpr (real<From> && !real<To>)
      return static_cast<To>(wm::to_i64(x));
    else
      return static_cast<To>(x);
  }
};
struct Truth {
  template <class From>
  WEFT_OF uint8_t of(From x) {
    return x != 0;
  }
};

// The f32 that says what a narrower type needs to know of x.
template <class From>
WEFT_OF float widest(From x) {
  if constexpr (real<From> || std::is_same_v<From, uint64_t>)
    return wm::sticky(x);
  else
    return wm::sticky(static_cast<int64_t>(x));
}
struct RoundF16 {
  template <class From>
  WEFT_OF float of(From x) {
    return wm::round_f16(widest(x));
  }
};
struct RoundBf16 {
  template <class From>
  WEFT_OF float of(From x) {
    return wm::round_bf16(widest(x));
  }
};
struct RoundE4m3 {
  template <class From>
  WEFT_OF float of(From x) {
    return wm::round_f8e4m3(widest(x));
  }
};
struct RoundE5m2 {
  template <class From>
  WEFT_OF float of(From x) {
    return wm::round_f8e5m2(widest(x));
  }
};

template <class F, class To>
struct FromEach {
  template <class, class From>
  struct L {
    static constexpr Loop loop = one<F, To, From>;
  };
};
template <class F, class To>
Loop from_any(Dtype from) {
  return with_bool<FromEach<F, To>::template L, void>(from);
}

Loop convert(Dtype from, Dtype to) {
  switch (to) {
    case Dtype::f64: return from_any<Cast<double>, double>(from);
    case Dtype::f32: return from_any<Cast<float>, float>(from);
    case Dtype::i64: return from_any<Cast<int64_t>, int64_t>(from);
    case Dtype::i32: return from_any<Cast<int32_t>, int32_t>(from);
    case Dtype::i16: return from_any<Cast<int16_t>, int16_t>(from);
    case Dtype::i8: return from_any<Cast<int8_t>, int8_t>(from);
    case Dtype::u64: return from_any<Cast<uint64_t>, uint64_t>(from);
    case Dtype::u32: return from_any<Cast<uint32_t>, uint32_t>(from);
    case Dtype::u16: return from_any<Cast<uint16_t>, uint16_t>(from);
    case Dtype::u8: return from_any<Cast<uint8_t>, uint8_t>(from);
    case Dtype::boolean: return from_any<Truth, uint8_t>(from);
    default: return nullptr;
  }
}

Loop round(Dtype from, Dtype narrow) {
  switch (narrow) {
    case Dtype::f16: return from_any<RoundF16, float>(from);
    case Dtype::bf16: return from_any<RoundBf16, float>(from);
    case Dtype::f8e4m3: return from_any<RoundE4m3, float>(from);
    case Dtype::f8e5m2: return from_any<RoundE5m2, float>(from);
    default: return nullptr;
  }
}

#define WEFT_NARROW(NAME, BITS)                             \
  struct Load_##NAME {                                      \
    WEFT_OF float of(BITS x) { return wm::from_##NAME(x); } \
  };                                                        \
  struct Store_##NAME {                                     \
    WEFT_OF BITS of(float x) { return wm::to_##NAME(x); }   \
  };
WEFT_NARROW(f16, uint16_t)
WEFT_NARROW(bf16, uint16_t)
WEFT_NARROW(f8e4m3, uint8_t)
WEFT_NARROW(f8e5m2, uint8_t)

Loop load(Dtype memory) {
  switch (memory) {
    case Dtype::f16: return one<Load_f16, float, uint16_t>;
    case Dtype::bf16: return one<Load_bf16, float, uint16_t>;
    case Dtype::f8e4m3: return one<Load_f8e4m3, float, uint8_t>;
    case Dtype::f8e5m2: return one<Load_f8e5m2, float, uint8_t>;
    case Dtype::boolean: return one<Truth, uint8_t, uint8_t>;
    default: return nullptr;
  }
}
Loop store(Dtype memory) {
  switch (memory) {
    case Dtype::f16: return one<Store_f16, uint16_t, float>;
    case Dtype::bf16: return one<Store_bf16, uint16_t, float>;
    case Dtype::f8e4m3: return one<Store_f8e4m3, uint8_t, float>;
    case Dtype::f8e5m2: return one<Store_f8e5m2, uint8_t, float>;
    default: return nullptr;
  }
}

}  // namespace

extern const Loops WEFT_LOOPS;
const Loops WEFT_LOOPS = {operation, convert, round, load, store};

}  // namespace weft::expr
