#pragma once
// Sanitized programs run several times slower: bounds on time that a test promises are stretched by this factor, and by
// nothing else.
#include <cstdint>

namespace weft {
#if defined(__SANITIZE_THREAD__)
constexpr int64_t patience = 10;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int64_t patience = 5;
#else
constexpr int64_t patience = 1;
#endif
}  // namespace weft
