// Fused Adam as generated against a loop of AVX-512 intrinsics, on one core. Off by default: machines are shared. Run
//     test_codegen --gtest_also_run_disabled_tests --gtest_filter='*Speed*'
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "tests/unit/codegen/steps.h"
#include "weft/base/file.h"
#include "weft/codegen/library.h"

#if defined(__x86_64__)
#include <immintrin.h>

using namespace weft;
using namespace weft::kernel;
using namespace weft::test;

namespace {

constexpr double bytes_an_element = 40;  // reads g of two ranks, m, v, w; writes m, v, w and w to two places

struct Constants {
  float b1, c1, b2, c2, correct1, correct2, lr, eps, ranks;
};

__attribute__((target("avx512f"))) void by_hand(const Constants& k, float* const* s, float* const* t, int64_t count,
                                                bool stream) {
  for (int64_t i = 0; i < count; i += 16) {
    const __m512 a =
        _mm512_div_ps(_mm512_add_ps(_mm512_loadu_ps(s[0] + i), _mm512_loadu_ps(s[1] + i)), _mm512_set1_ps(k.ranks));
    const __m512 m = _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(k.b1), _mm512_loadu_ps(s[2] + i)),
                                   _mm512_mul_ps(_mm512_set1_ps(k.c1), a));
    const __m512 v = _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(k.b2), _mm512_loadu_ps(s[3] + i)),
                                   _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(k.c2), a), a));
    const __m512 root = _mm512_add_ps(_mm512_maskz_sqrt_ps(0xffff, _mm512_div_ps(v, _mm512_set1_ps(k.correct2))),
                                      _mm512_set1_ps(k.eps));
    const __m512 u = _mm512_div_ps(_mm512_div_ps(m, _mm512_set1_ps(k.correct1)), root);
    const __m512 w = _mm512_sub_ps(_mm512_loadu_ps(s[4] + i), _mm512_mul_ps(_mm512_set1_ps(k.lr), u));
    _mm512_storeu_ps(t[0] + i, m);
    _mm512_storeu_ps(t[1] + i, v);
    _mm512_storeu_ps(t[2] + i, w);
    for (int to : {3, 4}) stream ? _mm512_stream_ps(t[to] + i, w) : _mm512_storeu_ps(t[to] + i, w);
  }
  if (stream) _mm_sfence();
}

template <typename F>
double best_ns(int rounds, F&& f) {
  double best = 1e30;
  for (int r = 0; r < rounds; r++) {
    const int64_t begin = now_ns();
    f();
    best = std::min(best, static_cast<double>(now_ns() - begin));
  }
  return best;
}

}  // namespace

TEST(Speed, DISABLED_AdamEqualsIntrinsics) {
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "no AVX-512 here";
  const auto library = codegen::generated_library();
  const std::vector<StepCode> codes = library->find({adam_shape(), adam_shape(Store::stream)});
  for (const int64_t count : {int64_t{4096}, int64_t{1} << 23}) {
    std::vector<std::unique_ptr<float, void (*)(void*)>> memory;
    float *s[5], *t[5];
    for (int b = 0; b < 7; b++) {
      memory.emplace_back(static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(count) * 4)), std::free);
      for (int64_t i = 0; i < count; i++) memory.back().get()[i] = 0.01f * static_cast<float>(i % 97 + 1);
      if (b < 5) s[b] = memory.back().get();
      if (b >= 2) t[b - 2] = memory.back().get();
    }
    const expr::ScalarValue scalars[] = {{false, 0, 1e-3}, {true, 3, 3}};
    alignas(64) char hoisted[256];
    const Constants k{0.9f, 0.1f, 0.999f, 0.001f, 0.271f, 0.002997f, 1e-3f, 1e-8f, 2};
    for (const bool stream : {false, true}) {
      const StepCode& code = codes[stream ? 1 : 0];
      code.prepare(scalars, 2, hoisted, code.self);
      const StepArgs args{reinterpret_cast<const void* const*>(s), reinterpret_cast<void* const*>(t), count, 0,
                          hoisted};
      const int rounds = count < 100000 ? 2000 : 15;
      double generated = 1e30, hand = 1e30;
      for (int turn = 0; turn < 3; turn++) {
        generated = std::min(generated, best_ns(rounds, [&] { code.run(&args, code.self); }));
        hand = std::min(hand, best_ns(rounds, [&] { by_hand(k, s, t, count, stream); }));
      }
      printf("%8ld elements%s: generated %.1f GB/s, by hand %.1f GB/s\n", count, stream ? ", streamed" : "",
             bytes_an_element * static_cast<double>(count) / generated,
             bytes_an_element * static_cast<double>(count) / hand);
      EXPECT_LT(generated, 1.1 * hand);
    }
  }
}
#endif
