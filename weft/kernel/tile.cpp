// Matrix products: which library, and the plain product that every library is compared with.
//
// The problem: a matmul next to a collective must be as fast as the field's, in five float types and nine integer ones.
// Ways: write micro-kernels (a life's work, and oneDNN has them), call a BLAS (f32 and f64 only), call oneDNN. We call
// oneDNN for what it has on this processor, convert narrow floats tile by tile to f32 where it has not, and keep a
// plain blocked product for the rest, which is the oracle as well. The plain product adds in ascending order of the
// inner index, in f32 for floats up to f32, in f64, or modulo 2^64; libraries may choose another order (to tolerance).
#include "weft/kernel/tile.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "weft/kernel/convert.h"
#include "weft/kernel/onednn.h"

namespace weft::kernel {

namespace {

// Dense strides written out; a product whose w is shared by all batches is one with more rows.
MatmulArgs normalised(MatmulArgs a) {
  if (!a.x_row_stride) a.x_row_stride = a.inner;
  if (!a.w_row_stride) a.w_row_stride = a.cols;
  if (!a.y_row_stride) a.y_row_stride = a.cols;
  if (!a.w_batched) {
    a.rows *= a.batch;
    a.batch = 1;
  }
  a.threads = std::max(a.threads, 1);
  return a;
}

void check_matmul(const MatmulArgs& a) {
  if (a.dtype == Dtype::f64x2) throw Error(ErrorKind::unsupported, "matmul of pairs (f64x2)", "multiply f64 values");
  for (const int64_t size : {a.batch, a.rows, a.inner, a.cols})
    if (size < 0)
      throw Error(ErrorKind::user, fmt::format("matmul with a negative size {}", size), "sizes are 0 or more");
  const auto dense = [](int64_t stride, int64_t row) { return stride == 0 || stride >= row; };
  if (!dense(a.x_row_stride, a.inner) || !dense(a.w_row_stride, a.cols) || !dense(a.y_row_stride, a.cols))
    throw Error(ErrorKind::user,
                fmt::format("matmul strides {}, {}, {} are less than the rows {}, {}, {}", a.x_row_stride,
                            a.w_row_stride, a.y_row_stride, a.inner, a.cols, a.cols),
                "rows may not overlap");
}

Dtype product_dtype(Dtype dtype) {  // what the plain product multiplies and adds in
  if (dtype == Dtype::f64) return Dtype::f64;
  return is_float(dtype) ? Dtype::f32 : Dtype::u64;
}

char* at(const void* base, int64_t element, Dtype dtype) {
  return static_cast<char*>(const_cast<void*>(base)) + element * size_bytes(dtype);
}

constexpr int64_t row_block = 4, col_block = 256;

// acc[row_block][col_block] = x[rows, inner] * w[inner, cols] for up to row_block rows and col_block columns.
template <typename T>
void plain_block(const T* x, const T* w, int64_t rows, int64_t inner, int64_t cols, T (*acc)[col_block]) {
  for (int64_t i = 0; i < rows; i++) std::fill_n(acc[i], cols, T(0));
  for (int64_t k = 0; k < inner; k++)
    for (int64_t i = 0; i < rows; i++) {
      const T a = x[i * inner + k];
      for (int64_t j = 0; j < cols; j++) acc[i][j] += a * w[k * cols + j];
    }
}

// Rows [begin, end) of one batch. Both operands are packed into the product's type first: the panel of w once, rows of
// x per panel.
template <typename T>
void plain_rows(const MatmulArgs& a, int64_t batch, int64_t begin, int64_t end) {
  const Dtype wide = product_dtype(a.dtype);
  const int64_t panel_cols = std::min(col_block, a.cols);
  const std::unique_ptr<T[]> panel(new T[static_cast<size_t>(a.inner * panel_cols)]),
      rows(new T[static_cast<size_t>(row_block * a.inner)]);
  T acc[row_block][col_block];
  for (int64_t j = 0; j < a.cols; j += col_block) {
    const int64_t cols = std::min(col_block, a.cols - j);
    for (int64_t k = 0; k < a.inner; k++)
      convert(a.dtype, at(a.w, ((a.w_batched ? batch : 0) * a.inner + k) * a.w_row_stride + j, a.dtype), wide,
              panel.get() + k * cols, cols);
    for (int64_t i = begin; i < end; i += row_block) {
      const int64_t count = std::min(row_block, end - i);
      for (int64_t r = 0; r < count; r++)
        convert(a.dtype, at(a.x, (batch * a.rows + i + r) * a.x_row_stride, a.dtype), wide, rows.get() + r * a.inner,
                a.inner);
      plain_block<T>(rows.get(), panel.get(), count, a.inner, cols, acc);
      for (int64_t r = 0; r < count; r++)
        convert(wide, acc[r], a.dtype, at(a.y, (batch * a.rows + i + r) * a.y_row_stride + j, a.dtype), cols);
    }
  }
}

template <typename T>
void plain(const MatmulArgs& a) {
  const bool small = static_cast<double>(a.rows) * a.inner * a.cols < 1e6;
  const int64_t workers = small ? 1 : std::min<int64_t>(a.threads, (a.rows + row_block - 1) / row_block);
  for (int64_t batch = 0; batch < a.batch; batch++) {
    std::vector<std::thread> others;
    for (int64_t t = 1; t < workers; t++)
      others.emplace_back(
          [&a, batch, t, workers] { plain_rows<T>(a, batch, t * a.rows / workers, (t + 1) * a.rows / workers); });
    plain_rows<T>(a, batch, 0, a.rows / std::max<int64_t>(workers, 1));
    for (std::thread& other : others) other.join();
  }
}

// Narrow floats through f32: a panel of w stays converted while the rows of x pass by.
void converted(const MatmulArgs& a) {
  constexpr int64_t tile_rows = 256, tile_cols = 1024;
  const int64_t rows = std::min(tile_rows, a.rows), cols = std::min(tile_cols, a.cols);
  const std::unique_ptr<float[]> x(new float[static_cast<size_t>(rows * a.inner)]),
      w(new float[static_cast<size_t>(a.inner * cols)]), y(new float[static_cast<size_t>(rows * cols)]);
  for (int64_t b = 0; b < a.batch; b++)
    for (int64_t j = 0; j < a.cols; j += tile_cols) {
      const int64_t width = std::min(tile_cols, a.cols - j);
      for (int64_t k = 0; k < a.inner; k++)
        convert(a.dtype, at(a.w, ((a.w_batched ? b : 0) * a.inner + k) * a.w_row_stride + j, a.dtype), Dtype::f32,
                w.get() + k * width, width);
      for (int64_t i = 0; i < a.rows; i += tile_rows) {
        const int64_t height = std::min(tile_rows, a.rows - i);
        for (int64_t r = 0; r < height; r++)
          convert(a.dtype, at(a.x, (b * a.rows + i + r) * a.x_row_stride, a.dtype), Dtype::f32, x.get() + r * a.inner,
                  a.inner);
        matmul({Dtype::f32, 1, height, a.inner, width, x.get(), 0, w.get(), 0, false, y.get(), 0, a.threads});
        for (int64_t r = 0; r < height; r++)
          convert(Dtype::f32, y.get() + r * width, a.dtype, at(a.y, (b * a.rows + i + r) * a.y_row_stride + j, a.dtype),
                  width);
      }
    }
}

bool nothing_to_multiply(const MatmulArgs& a) {
  if (a.batch == 0 || a.rows == 0 || a.cols == 0) return true;
  if (a.inner > 0) return false;
  for (int64_t i = 0; i < a.batch * a.rows; i++)  // an empty sum
    std::memset(at(a.y, i * a.y_row_stride, a.dtype), 0, static_cast<size_t>(a.cols * size_bytes(a.dtype)));
  return true;
}

bool is_narrow_float(Dtype dtype) { return is_float(dtype) && size_bytes(dtype) < 4; }

}  // namespace

void matmul_plain(const MatmulArgs& args) {
  check_matmul(args);
  const MatmulArgs a = normalised(args);
  if (nothing_to_multiply(a)) return;
  switch (product_dtype(a.dtype)) {
    case Dtype::f64: return plain<double>(a);
    case Dtype::f32: return plain<float>(a);
    default: return plain<uint64_t>(a);
  }
}

Work matmul_work(const MatmulArgs& a) {
  const double bytes = static_cast<double>(size_bytes(a.dtype)), rows = static_cast<double>(a.batch) * a.rows;
  const double w = static_cast<double>(a.w_batched ? a.batch : 1) * a.inner * a.cols;
  return {(rows * a.inner + w) * bytes, rows * a.cols * bytes, 2 * rows * a.inner * a.cols};
}

std::string_view matmul_backend(Dtype dtype) {
  if (onednn_has(dtype)) return "onednn";
  return is_narrow_float(dtype) && onednn_has(Dtype::f32) ? "converted" : "plain";
}

void matmul(const MatmulArgs& args) {
  check_matmul(args);
  const MatmulArgs a = normalised(args);
  if (nothing_to_multiply(a)) return;
  if (onednn_has(a.dtype)) return onednn_matmul(a);
  if (is_narrow_float(a.dtype) && onednn_has(Dtype::f32)) return converted(a);
  matmul_plain(args);
}

}  // namespace weft::kernel
