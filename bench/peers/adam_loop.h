// Adam on contiguous float32, as a careful engineer writes it by hand: one pass, vectorised by the compiler.
// Used by the peers that have a fast all_reduce and no optimizer, and by the hand-written yardstick.
#pragma once

#include <cmath>
#include <cstdint>

struct AdamStep {
  float lr, b1, b2, eps, c1, c2, scale;
};

inline AdamStep adam_step(double lr, int64_t step, double scale) {
  return {static_cast<float>(lr),
          0.9f,
          0.999f,
          1e-8f,
          static_cast<float>(1 - std::pow(0.9, static_cast<double>(step))),
          static_cast<float>(1 - std::pow(0.999, static_cast<double>(step))),
          static_cast<float>(scale)};
}

inline void adam_update(const AdamStep& s, int64_t count, const float* __restrict g, float* __restrict m,
                        float* __restrict v, float* __restrict w) {
  for (int64_t i = 0; i < count; i++) {
    const float a = g[i] * s.scale;
    const float m1 = s.b1 * m[i] + (1 - s.b1) * a;
    const float v1 = s.b2 * v[i] + (1 - s.b2) * a * a;
    m[i] = m1;
    v[i] = v1;
    w[i] -= s.lr * (m1 / s.c1 / (std::sqrt(v1 / s.c2) + s.eps));
  }
}

// Gradients are rewritten before every timed step: back-to-back runs on lines that are dirty in one's own cache lie.
inline void rewrite(float* data, int64_t count, uint32_t salt) {
  for (int64_t i = 0; i < count; i++) {
    uint32_t h = static_cast<uint32_t>(i) * 2654435761u + salt;
    h ^= h >> 15;
    h *= 2246822519u;
    data[i] = static_cast<float>(h >> 8) * 0x1p-23f - 1;
  }
}
