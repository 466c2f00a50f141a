// Philox4x32-10, written from the paper: ten rounds of two 32x32 -> 64 bit products, keys bumped by Weyl constants.
#include "weft/expr/philox.h"

namespace weft::expr {

uint32_t philox_word(uint64_t seed, uint32_t k, uint64_t element) {
  const uint64_t block = element / 4;
  uint32_t c[4] = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), k, 0};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(p1),
                              static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(p0)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    key[0] += 0x9E3779B9u, key[1] += 0xBB67AE85u;
  }
  return c[element % 4];
}

float uniform(uint64_t seed, uint32_t k, uint64_t element) {
  return static_cast<float>(philox_word(seed, k, element) >> 8) * 0x1p-24f;
}

}  // namespace weft::expr
