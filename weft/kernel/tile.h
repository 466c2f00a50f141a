// Tiles: matrix products on whole operands. y[batch, rows, cols] = x[batch, rows, inner] * w[inner, cols], row-major.
//
// f32, bf16 and s8 go to oneDNN (whose interface differs between 2.x and 3.x: one file knows it), f16 and fp8 are
// converted per tile to f32, f64 and the other integers take a plain blocked product, which is also the oracle.
// Accumulation: f32 for floats up to f32, f64 for f64, i64 modulo 2^64 for integers (the result wraps in its dtype).
#pragma once

#include "weft/kernel/kernel.h"

namespace weft::kernel {

struct MatmulArgs {
  Dtype dtype;
  int64_t batch = 1, rows = 0, inner = 0, cols = 0;
  const void* x = nullptr;
  int64_t x_row_stride = 0;  // strides in elements; 0: dense
  const void* w = nullptr;
  int64_t w_row_stride = 0;
  bool w_batched = false;  // w[batch, inner, cols]
  void* y = nullptr;
  int64_t y_row_stride = 0;
  int threads = 1;
};
void matmul(const MatmulArgs& args);           // the fastest there is for the dtype
void matmul_plain(const MatmulArgs& args);     // the oracle
Work matmul_work(const MatmulArgs& args);      // of the whole product: every operand read once, y written once
std::string_view matmul_backend(Dtype dtype);  // "onednn", "converted", "plain": what matmul() would use

}  // namespace weft::kernel
