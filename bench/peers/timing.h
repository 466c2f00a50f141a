// How a call is timed, by Weft and by its peers alike: the same code, so that a ratio compares calls and not clocks.
//
// Calls of up to 1 KiB, and calls that nothing is rewritten for, are timed in batches (a clock costs as much as they
// do); the others one by one behind a barrier. The median of the spans counts: on a shared machine a mean tells mostly
// how often somebody else had the core.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace timing {

// Rewrites what is sent, so that repeated calls do not measure a cache.
inline void touch(void* data, int64_t bytes, uint64_t salt) {
  auto* words = static_cast<uint64_t*>(data);
  const uint64_t value = 0x3c003c003c003c00ull + (salt & 1);
  for (int64_t i = 0; i < bytes / 8; ++i) words[i] = value;
  std::memcpy(static_cast<char*>(data) + bytes / 8 * 8, &value, static_cast<size_t>(bytes % 8));
}

inline uint64_t read_all(const void* data, int64_t bytes) {
  const auto* words = static_cast<const uint64_t*>(data);
  uint64_t sum = 0;
  for (int64_t i = 0; i < bytes / 8; ++i) sum += words[i];
  if (bytes % 8) sum += static_cast<const unsigned char*>(data)[bytes - 1];
  return sum;
}

inline int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Question {
  void* input = nullptr;  // what is rewritten
  int64_t input_bytes = 0, whole_bytes = 0, iterations = 1;
  bool touch = false, read = false;  // read: the call reads its result as well
};

// Nanoseconds of one call of `call`, the median over spans. `barrier` is passed by all ranks together.
template <typename Call, typename Barrier>
double median_call_ns(const Question& q, const Call& call, const Barrier& barrier) {
  constexpr int64_t loop_bytes = 1024, batches = 20;
  const bool loop = q.whole_bytes <= loop_bytes || !(q.touch || q.read);
  const int64_t batch = loop ? std::max<int64_t>(1, q.iterations / batches) : 1;
  std::vector<int64_t> spans;
  for (int64_t i = 0; i < q.iterations;) {
    if (!loop) touch(q.input, q.touch ? q.input_bytes : 0, static_cast<uint64_t>(i));
    if (!loop) barrier();
    const int64_t begin = clock_ns(), end = std::min(q.iterations, i + batch), calls = end - i;
    for (; i < end; ++i) {
      if (loop && q.touch) touch(q.input, q.input_bytes, static_cast<uint64_t>(i));
      call();
    }
    spans.push_back((clock_ns() - begin) / calls);
  }
  std::nth_element(spans.begin(), spans.begin() + static_cast<std::ptrdiff_t>(spans.size() / 2), spans.end());
  return static_cast<double>(spans[spans.size() / 2]);
}

}  // namespace timing
