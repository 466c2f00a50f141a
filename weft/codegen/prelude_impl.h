// ---- what every generated step shares (codegen/prelude_impl.h; sections are left out where they are not used)

#if defined(__clang__)
#define WEFT_EACH_ALONE _Pragma("clang loop vectorize(assume_safety)")
#else
#define WEFT_EACH_ALONE _Pragma("GCC ivdep")
#endif
// Elements do not depend on one another: a target is a source exactly, in place, or lies elsewhere.

namespace {

struct Args {
  const void* const* sources;
  void* const* targets;
  int64_t count;     // elements of this run
  int64_t position;  // of its first element in the whole value
  const void* hoisted;
};

//@ pair
struct f64x2 {
  double a, b;
};
#define WEFT_PAIR(NAME, EXPR)                                    \
  WEFT_FN double NAME##_one(double x, double y) { return EXPR; } \
  WEFT_FN f64x2 NAME(f64x2 x, f64x2 y) { return {NAME##_one(x.a, y.a), NAME##_one(x.b, y.b)}; }
WEFT_PAIR(pair_sum, x + y)
WEFT_PAIR(pair_prod, x* y)
WEFT_PAIR(pair_min, wm::min(x, y))
WEFT_PAIR(pair_max, wm::max(x, y))
WEFT_PAIR(pair_logical_and, static_cast<double>(x != 0 && y != 0))
WEFT_PAIR(pair_logical_or, static_cast<double>(x != 0 || y != 0))

//@ stream
// ---- stores around the caches: whole lines, for data that nobody reads soon
#if defined(__clang__)
typedef float Line __attribute__((vector_size(64)));
WEFT_FN void stream_line(void* to, const void* from) {
  __builtin_nontemporal_store(*static_cast<const Line*>(from), static_cast<Line*>(to));
}
#elif defined(__AVX512F__)
typedef float Line __attribute__((vector_size(64)));
WEFT_FN void stream_line(void* to, const void* from) {
  __builtin_ia32_movntps512(static_cast<float*>(to), *static_cast<const Line*>(from));
}
#elif defined(__AVX__)
typedef float Line __attribute__((vector_size(32)));
WEFT_FN void stream_line(void* to, const void* from) {
  __builtin_ia32_movntps256(static_cast<float*>(to), static_cast<const Line*>(from)[0]);
  __builtin_ia32_movntps256(static_cast<float*>(to) + 8, static_cast<const Line*>(from)[1]);
}
#elif defined(__SSE2__)
typedef float Line __attribute__((vector_size(16)));
WEFT_FN void stream_line(void* to, const void* from) {
  for (int i = 0; i < 4; i++)
    __builtin_ia32_movntps(static_cast<float*>(to) + 4 * i, static_cast<const Line*>(from)[i]);
}
#else
WEFT_FN void stream_line(void* to, const void* from) { __builtin_memcpy(to, from, 64); }
#endif

WEFT_FN bool on_line(const void* at) { return reinterpret_cast<uintptr_t>(at) % 64 == 0; }

// One block: whole lines where the target begins on a line, plain stores elsewhere.
template <int64_t block, class T>
WEFT_FN void stream(T* to, const T* from, int64_t count) {
  constexpr int64_t line = 64 / sizeof(T);
  if (count == block && on_line(to)) {
    for (int64_t j = 0; j < block; j += line) stream_line(to + j, from + j);
  } else if (on_line(to)) {
    int64_t j = 0;
    for (; j + line <= count; j += line) stream_line(to + j, from + j);
    for (; j < count; j++) to[j] = from[j];
  } else {
    for (int64_t j = 0; j < count; j++) to[j] = from[j];
  }
}

// Asks for what the loop reads some blocks later; asking beyond the end of memory does no harm.
template <int64_t block, class T>
WEFT_FN void read_ahead(const T* from) {
  constexpr int64_t line = 64, bytes = block * static_cast<int64_t>(sizeof(T)), distance = 2048;
  const char* at = reinterpret_cast<const char*>(from) + distance;
  for (int64_t j = 0; j < bytes; j += line) __builtin_prefetch(at + j, 0, 3);
}

// Elements in front of the first whole line, at most `count`.
template <class T>
WEFT_FN int64_t before_line(const T* to, int64_t count) {
  const int64_t head = static_cast<int64_t>((64 - reinterpret_cast<uintptr_t>(to) % 64) % 64 / sizeof(T));
  return head < count ? head : count;
}

WEFT_FN void stream_end() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

//@ half
// ---- f16 blocks to and from f32: by the processor's conversions, which give the bits of wm::from_f16 and wm::to_f16
#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512F__)
#define WEFT_HALVES 16
typedef float Wide __attribute__((vector_size(64), aligned(4)));
typedef float WideValue __attribute__((vector_size(64)));
typedef short Narrow __attribute__((vector_size(32), aligned(2)));
typedef short NarrowValue __attribute__((vector_size(32)));
WEFT_FN WideValue widen_16(NarrowValue x) { return __builtin_ia32_vcvtph2ps512_mask(x, WideValue{}, -1, 4); }
WEFT_FN NarrowValue narrow_16(WideValue x) { return __builtin_ia32_vcvtps2ph512_mask(x, 0, NarrowValue{}, -1); }
#elif defined(__GNUC__) && !defined(__clang__) && defined(__F16C__)
#define WEFT_HALVES 8
typedef float Wide __attribute__((vector_size(32), aligned(4)));
typedef float WideValue __attribute__((vector_size(32)));
typedef short Narrow __attribute__((vector_size(16), aligned(2)));
typedef short NarrowValue __attribute__((vector_size(16)));
WEFT_FN WideValue widen_16(NarrowValue x) { return __builtin_ia32_vcvtph2ps256(x); }
WEFT_FN NarrowValue narrow_16(WideValue x) { return __builtin_ia32_vcvtps2ph256(x, 0); }
#endif

WEFT_FN void widen_f16(float* to, const uint16_t* from, int64_t count) {
  int64_t i = 0;
#if defined(WEFT_HALVES)
  for (; i + WEFT_HALVES <= count; i += WEFT_HALVES)
    *reinterpret_cast<Wide*>(to + i) = widen_16(*reinterpret_cast<const Narrow*>(from + i));
#endif
  for (; i < count; i++) to[i] = wm::from_f16(from[i]);
}

WEFT_FN void narrow_f16(uint16_t* to, const float* from, int64_t count) {
  int64_t i = 0;
#if defined(WEFT_HALVES)
  for (; i + WEFT_HALVES <= count; i += WEFT_HALVES)
    *reinterpret_cast<Narrow*>(to + i) = narrow_16(*reinterpret_cast<const Wide*>(from + i));
#endif
  for (; i < count; i++) to[i] = wm::to_f16(from[i]);
}

//@ fold
// ---- folds: element i of a run goes to lane i % 32, then the upper half of the lanes into the lower, five times
template <class T, class Combine>
struct Lanes {
  alignas(64) T lane[32];
};
template <class T, class C>
WEFT_FN void fold_begin(Lanes<T, C>& l, T identity) {
  for (int j = 0; j < 32; j++) l.lane[j] = identity;
}
template <class T, class C>
WEFT_FN void fold_add(Lanes<T, C>& l, const T* values, int64_t count) {
  int64_t i = 0;
  for (; i + 32 <= count; i += 32)
    for (int j = 0; j < 32; j++) l.lane[j] = C::of(l.lane[j], values[i + j]);
  for (int j = 0; i + j < count; j++) l.lane[j] = C::of(l.lane[j], values[i + j]);
}
template <class T, class C>
WEFT_FN T fold_end(Lanes<T, C>& l, T cell) {
  for (int half = 16; half > 0; half /= 2)
    for (int j = 0; j < half; j++) l.lane[j] = C::of(l.lane[j], l.lane[j + half]);
  return C::of(cell, l.lane[0]);
}

//@ draw
// ---- random numbers for up to 128 elements that follow each other: wm::uniform's bits, each counter used four times
constexpr int64_t drawn_quads = 48;  // 128 elements touch 33 blocks of four; whole vectors of 16 are computed

WEFT_FN void uniform_block(float* to, uint64_t seed, uint32_t k, uint64_t first, int64_t count) {
  alignas(64) uint32_t words[4][drawn_quads];
  alignas(64) float drawn[4 * drawn_quads];
  const uint64_t quad = first >> 2;
  const int64_t skip = static_cast<int64_t>(first & 3), needed = (skip + count + 3) >> 2;
  for (int64_t begin = 0; begin < needed; begin += 16) {
    WEFT_EACH_ALONE
    for (int64_t j = begin; j < begin + 16; j++) {
      const uint64_t at = quad + static_cast<uint64_t>(j);
      wm::Counter x = {static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), k, 0};
      for (uint32_t round = 0; round < 10; round += 2) x = wm::two_rounds(x, seed, round);
      words[0][j] = x.a, words[1][j] = x.b, words[2][j] = x.c, words[3][j] = x.d;
    }
    WEFT_EACH_ALONE
    for (int64_t j = begin; j < begin + 16; j++)
      for (int64_t w = 0; w < 4; w++)
        drawn[4 * j + w] = static_cast<float>(static_cast<int32_t>(words[w][j] >> 8)) * 0x1p-24f;
  }
  for (int64_t i = 0; i < count; i++) to[i] = drawn[skip + i];
}
