// The reference of matmul and conv2d: plain loops, sums in the order of the contracted dimensions.
#include "weft/ir/evaluate_op.h"

namespace weft::ir {
namespace {

// A tensor of the result's kind, filled with 0; sums wrap for integers.
Tensor zeros(Dtype dtype, std::vector<int64_t> shape) {
  Column column;
  column.uniform = true;
  column.is_float = is_float(dtype);
  column.f = {0.0};
  column.i = {0};
  return tensor_of(column, dtype, std::move(shape));
}

void add_product(Tensor& out, int64_t at, const Tensor& a, int64_t from_a, const Tensor& b, int64_t from_b) {
  const auto o = static_cast<size_t>(at), x = static_cast<size_t>(from_a), y = static_cast<size_t>(from_b);
  if (is_float(out.dtype))
    out.f[o] += a.f[x] * b.f[y];
  else
    out.i[o] = static_cast<int64_t>(static_cast<uint64_t>(out.i[o]) +
                                    static_cast<uint64_t>(a.i[x]) * static_cast<uint64_t>(b.i[y]));
}

Tensor wrapped(Tensor tensor) {
  for (int64_t& value : tensor.i) value = wrap_to(tensor.dtype, value);
  return tensor;
}

Tensor matmul(const Tensor& a, const Tensor& b, Dtype dtype) {
  std::vector<int64_t> shape = a.shape;
  shape.back() = b.shape.back();
  Tensor out = zeros(dtype, shape);
  const int64_t k = a.shape.back(), n = shape.back();
  const bool batched = b.shape.size() > 2;
  const int64_t rows = k == 0 || n == 0 ? 0 : a.size() / k;
  const int64_t rows_per_batch = batched ? a.shape[a.shape.size() - 2] : rows;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t batch = batched ? row / rows_per_batch : 0;
    for (int64_t j = 0; j < k; ++j)
      for (int64_t column = 0; column < n; ++column)
        add_product(out, row * n + column, a, row * k + j, b, (batch * k + j) * n + column);
  }
  return wrapped(std::move(out));
}

// Stride 1; the kernel's middle stands on the element, zeros outside.
Tensor conv2d(const Tensor& x, const Tensor& w, Dtype dtype) {
  const int64_t batch = x.shape[0], channels = x.shape[1], height = x.shape[2], width = x.shape[3];
  const int64_t outs = w.shape[0], kernel_height = w.shape[2], kernel_width = w.shape[3];
  Tensor out = zeros(dtype, {batch, outs, height, width});
  const auto tap = [&](int64_t b, int64_t o, int64_t h, int64_t v, int64_t c, int64_t dy, int64_t dx) {
    const int64_t y = h + dy - (kernel_height - 1) / 2, z = v + dx - (kernel_width - 1) / 2;
    if (y < 0 || y >= height || z < 0 || z >= width) return;
    add_product(out, ((b * outs + o) * height + h) * width + v, x, ((b * channels + c) * height + y) * width + z, w,
                ((o * channels + c) * kernel_height + dy) * kernel_width + dx);
  };
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t o = 0; o < outs; ++o)
      for (int64_t h = 0; h < height; ++h)
        for (int64_t v = 0; v < width; ++v)
          for (int64_t c = 0; c < channels; ++c)
            for (int64_t dy = 0; dy < kernel_height; ++dy)
              for (int64_t dx = 0; dx < kernel_width; ++dx) tap(b, o, h, v, c, dy, dx);
  return wrapped(std::move(out));
}

}  // namespace

void evaluate_matmul(const Op& op, RankTensors& ranks) {
  const Dtype dtype = ranks.type(op.name).dtype;
  for_each_part(op, ranks,
                [&](const Part& part, const Factors&) { return matmul(part.operands[0], part.operands[1], dtype); });
}

void evaluate_conv2d(const Op& op, RankTensors& ranks) {
  const Dtype dtype = ranks.type(op.name).dtype;
  for_each_part(op, ranks,
                [&](const Part& part, const Factors&) { return conv2d(part.operands[0], part.operands[1], dtype); });
}

}  // namespace weft::ir
