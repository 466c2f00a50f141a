// xxhash's XXH3, which is fast on short keys and long files alike. Inlined from its header.
#define XXH_INLINE_ALL
#include "weft/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace weft {

uint64_t hash64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string hash_hex(std::string_view bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

}  // namespace weft
