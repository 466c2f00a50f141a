// Packing and unpacking of strided tensors (tensor.h).
#include "weft/capi/tensor.h"

#include <cstring>

#include "weft/base/error.h"

namespace weft::capi {
namespace {

constexpr int cpu = 1;  // kDLCPU

struct CodeRow {
  int code, bits;
  Dtype dtype;
};
constexpr CodeRow rows[] = {{0, 64, Dtype::i64},    {0, 32, Dtype::i32},    {0, 16, Dtype::i16},   {0, 8, Dtype::i8},
                            {1, 64, Dtype::u64},    {1, 32, Dtype::u32},    {1, 16, Dtype::u16},   {1, 8, Dtype::u8},
                            {2, 64, Dtype::f64},    {2, 32, Dtype::f32},    {2, 16, Dtype::f16},   {4, 16, Dtype::bf16},
                            {6, 8, Dtype::boolean}, {10, 8, Dtype::f8e4m3}, {12, 8, Dtype::f8e5m2}};

}  // namespace

Dtype dtype_of(const weft_tensor& tensor) {
  if (static_cast<int>(tensor.device.device_type) != cpu)
    throw Error(ErrorKind::user,
                fmt::format("a tensor on DLPack device type {}", static_cast<int>(tensor.device.device_type)),
                "give tensors in CPU memory (device type 1)");
  for (const CodeRow& row : rows)
    if (row.code == tensor.dtype.code && row.bits == tensor.dtype.bits && tensor.dtype.lanes == 1) return row.dtype;
  throw Error(ErrorKind::unsupported,
              fmt::format("DLPack type (code {}, {} bits, {} lanes)", static_cast<int>(tensor.dtype.code),
                          static_cast<int>(tensor.dtype.bits), static_cast<int>(tensor.dtype.lanes)),
              "integers, bool, f64, f32, f16, bf16, f8e4m3fn, f8e5m2");
}

int64_t elements(const weft_tensor& tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor.ndim; ++d) {
    if (tensor.shape[d] < 0) throw Error(ErrorKind::user, fmt::format("a tensor with extent {}", tensor.shape[d]));
    count *= tensor.shape[d];
  }
  return count;
}

bool is_contiguous(const weft_tensor& tensor) {
  if (!tensor.strides || elements(tensor) <= 1) return true;
  int64_t stride = 1;
  for (int d = tensor.ndim - 1; d >= 0; --d) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != stride) return false;
    stride *= tensor.shape[d];
  }
  return true;
}

Contiguous::Contiguous(const weft_tensor& tensor, bool load)
    : dtype_(dtype_of(tensor)),
      count_(elements(tensor)),
      data_(static_cast<std::byte*>(tensor.data) + (tensor.data ? tensor.byte_offset : 0)) {
  if (is_contiguous(tensor)) return;
  shape_.assign(tensor.shape, tensor.shape + tensor.ndim);
  strides_.assign(tensor.strides, tensor.strides + tensor.ndim);
  const int64_t size = size_bytes(dtype_);
  copy_.reset(new std::byte[static_cast<size_t>(count_ * size)]);
  if (load)
    each_run(
        [&](int64_t at, std::byte* from) { std::memcpy(copy_.get() + at * size, from, static_cast<size_t>(size)); });
}

// f(row-major position, address) of every element.
template <typename F>
void Contiguous::each_run(F&& f) const {
  std::vector<int64_t> index(shape_.size(), 0);
  const int64_t size = size_bytes(dtype_);
  for (int64_t at = 0; at < count_; ++at) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * strides_[d];
    f(at, data_ + offset * size);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == shape_[d];) index[d] = 0;
  }
}

void Contiguous::store() const {
  if (!copy_) return;
  const int64_t size = size_bytes(dtype_);
  each_run([&](int64_t at, std::byte* to) { std::memcpy(to, copy_.get() + at * size, static_cast<size_t>(size)); });
}

}  // namespace weft::capi
