// DLPack tensors at the border: which dtype, how many elements, and a contiguous view of any strides.
#pragma once

#include <memory>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/capi/weft.h"

namespace weft::capi {

Dtype dtype_of(const weft_tensor& tensor);  // Error(unsupported) for others, Error(user) for tensors not on the CPU
int64_t elements(const weft_tensor& tensor);
bool is_contiguous(const weft_tensor& tensor);

// The tensor's elements in row-major order: its own memory where it is contiguous, else a copy that store() writes
// back. Bytes between strided elements are not touched.
class Contiguous {
 public:
  Contiguous() = default;
  Contiguous(const weft_tensor& tensor, bool load);
  void* data() const { return copy_ ? copy_.get() : data_; }
  int64_t count() const { return count_; }
  Dtype dtype() const { return dtype_; }
  void store() const;

 private:
  template <typename F>
  void each_run(F&& f) const;
  Dtype dtype_ = Dtype::f32;
  int64_t count_ = 0;
  std::byte* data_ = nullptr;
  std::vector<int64_t> shape_, strides_;  // of a copy
  std::shared_ptr<std::byte[]> copy_;
};

}  // namespace weft::capi
