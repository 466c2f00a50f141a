// Content hashes (xxhash, 64 and 128 bits): for plan identity, agreement, and file caches. Not cryptographic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

uint64_t hash64(std::string_view bytes, uint64_t seed = 0);
std::string hash_hex(std::string_view bytes);  // 128 bits, 32 hex digits

}  // namespace weft
