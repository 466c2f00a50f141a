// Loops that only move bytes: what calibration times. Compiled for the widest vectors the CPU has.
#pragma once

#include <cstdint>

namespace weft::api {

enum class Sweep : uint8_t { read, write, write_stream };
// One pass over `bytes` (a multiple of 4096). Returns a value that keeps reads alive.
float sweep(Sweep kind, float* data, int64_t bytes);

}  // namespace weft::api
