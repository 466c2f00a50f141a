#include "weft/api/sweep.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define WEFT_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WEFT_CLONES
#endif

namespace weft::api {
namespace {

WEFT_CLONES float read_all(const float* data, int64_t count) {
  float lane[64] = {};
  for (int64_t i = 0; i < count; i += 64)
    for (int j = 0; j < 64; j++) lane[j] += data[i + j];
  float sum = 0;
  for (const float value : lane) sum += value;
  return sum;
}

WEFT_CLONES void write_all(float* data, int64_t count, float value) {
  for (int64_t i = 0; i < count; i += 64)
    for (int j = 0; j < 64; j++) data[i + j] = value + static_cast<float>(j);
}

void stream_all(float* data, int64_t count, float value) {
#if defined(__x86_64__)
  const __m128 v = _mm_set1_ps(value);
  for (int64_t i = 0; i < count; i += 16)
    for (int j = 0; j < 16; j += 4) _mm_stream_ps(data + i + j, v);
  _mm_sfence();
#else
  write_all(data, count, value);
#endif
}

WEFT_CLONES void arithmetic_rounds(int64_t rounds, float* lane) {
  for (int64_t round = 0; round < rounds; round++)
    for (int j = 0; j < 64; j++) lane[j] = lane[j] * 0.999f + 1.0f / (__builtin_sqrtf(lane[j] * lane[j]) + 1.0f);
}

}  // namespace

float sweep(Sweep kind, float* data, int64_t bytes) {
  const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
  if (kind == Sweep::read) return read_all(data, count);
  if (kind == Sweep::write)
    write_all(data, count, 1.5f);
  else
    stream_all(data, count, 1.5f);
  return 0;
}

double arithmetic(int64_t rounds, float* sink) {
  float lane[64];
  for (int j = 0; j < 64; j++) lane[j] = static_cast<float>(j);
  arithmetic_rounds(rounds, lane);
  for (const float value : lane) *sink += value;
  return static_cast<double>(rounds) * 64 * 6;
}

}  // namespace weft::api
