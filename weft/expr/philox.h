// Philox4x32-10 (Salmon et al., SC 2011), keyed by (seed, k) and the global element index, so that no rewrite, no rank
// count and no cut changes a mask. key = (seed low, seed high), counter = (i/4 low, i/4 high, k, 0), word i % 4,
// u = (word >> 8) * 2^-24.
#pragma once

#include <cstdint>

namespace weft::expr {

uint32_t philox_word(uint64_t seed, uint32_t k, uint64_t element);
float uniform(uint64_t seed, uint32_t k, uint64_t element);  // in [0, 1)

}  // namespace weft::expr
