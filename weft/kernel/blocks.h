// Inside kernel/: what the evaluators of kernels and of steps share.
#pragma once

#include <span>
#include <vector>

#include "weft/kernel/kernel.h"

namespace weft::kernel {

constexpr int64_t block_elements = 512;  // a multiple of FoldLanes::lanes; ten f64 values fit the L1 cache

// Memory for blocks, of one thread: code is shared by threads, blocks are not. Grows, never shrinks.
class Scratch {
 public:
  // `count` blocks of block_elements elements of at most 16 bytes, 64-aligned. Valid until the next call.
  void reserve(size_t count);
  char* block(size_t index) { return base_ + index * block_bytes; }
  static constexpr int64_t block_bytes = block_elements * 16;

 private:
  std::vector<char> storage_;
  char* base_ = nullptr;
};
Scratch& thread_scratch();

// A tile kernel's run: count elements of y. Scalars as in Run.
void run_tile(const Typed& typed, std::span<const expr::ScalarValue> scalars, const void* x, const void* w, void* y,
              int64_t count);

}  // namespace weft::kernel
