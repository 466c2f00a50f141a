// What bandwidth is there for loops like the ones that are generated: plain loads, plain stores, streaming stores.
//
// Ways: STREAM (sums and copies, whose read and write shares cannot be told apart), a library's memset and memcpy (they
// switch to streaming stores by size, which hides what is asked), or three loops of our own, each of one kind. The last
// is taken; one source is compiled for each width of vectors and the processor picks.
#include "weft/api/sweep.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
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

}  // namespace weft::api
