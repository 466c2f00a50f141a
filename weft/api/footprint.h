// What this process and the processes below it hold in memory, shared pages counted once.
#pragma once

#include <cstdint>

namespace weft::api {

// The sum of their proportional set sizes (a page that k of them map counts 1/k in each). What cannot be read counts 0.
int64_t footprint_bytes();

}  // namespace weft::api
