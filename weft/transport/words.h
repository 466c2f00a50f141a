// Storing what another rank has sent so that a reader sees it in order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weft::transport {

// Words of 8 bytes, ascending, each with release.
inline void store_words(std::byte* to, const std::byte* from, int64_t bytes) {
  auto* word = reinterpret_cast<std::atomic<uint64_t>*>(to);
  for (int64_t at = 0; at < bytes; at += 8, ++word) {
    uint64_t value = 0;
    std::memcpy(&value, from + at, sizeof value);
    word->store(value, std::memory_order_release);
  }
}

}  // namespace weft::transport
