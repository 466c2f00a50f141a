// Checks of torch's tensors, and lists of them as one flat tensor (backend.h).
#include <ATen/MemoryOverlap.h>

#include "backend.h"

namespace weft_torch {
namespace {

struct DtypeRow {
  at::ScalarType torch;
  weft_dtype weft;
  uint8_t code, bits;  // DLPack's
};
constexpr DtypeRow dtype_rows[] = {
    {at::kDouble, WEFT_F64, 2, 64},
    {at::kFloat, WEFT_F32, 2, 32},
    {at::kHalf, WEFT_F16, 2, 16},
    {at::kBFloat16, WEFT_BF16, 4, 16},
    {at::kFloat8_e4m3fn, WEFT_F8E4M3, 10, 8},
    {at::kFloat8_e5m2, WEFT_F8E5M2, 12, 8},
    {at::kLong, WEFT_I64, 0, 64},
    {at::kInt, WEFT_I32, 0, 32},
    {at::kShort, WEFT_I16, 0, 16},
    {at::kChar, WEFT_I8, 0, 8},
    {at::kUInt64, WEFT_U64, 1, 64},
    {at::kUInt32, WEFT_U32, 1, 32},
    {at::kUInt16, WEFT_U16, 1, 16},
    {at::kByte, WEFT_U8, 1, 8},
    {at::kBool, WEFT_BOOL, 6, 8},
};

const DtypeRow& row_of(const Tensor& tensor) {
  for (const DtypeRow& row : dtype_rows)
    if (row.torch == tensor.scalar_type()) return row;
  C10_THROW_ERROR(NotImplementedError, c10::str("unsupported: weft has no dtype ", tensor.scalar_type()));
}

}  // namespace

weft_dtype dtype_of(const Tensor& tensor) { return row_of(tensor).weft; }

void View::set(void* data, int64_t count, const Tensor& like) {
  const DtypeRow& row = row_of(like);
  count_ = count;
  tensor_.data = data;
  tensor_.device.device_type = 1;
  tensor_.ndim = 1;
  tensor_.dtype.code = row.code, tensor_.dtype.bits = row.bits, tensor_.dtype.lanes = 1;
  tensor_.shape = &count_;
}

Tensor checked(const Tensor& tensor, const char* what) {
  TORCH_CHECK_VALUE(tensor.defined(), "weft: ", what, " is undefined");
  if (tensor.layout() != at::kStrided)
    C10_THROW_ERROR(NotImplementedError,
                    c10::str("unsupported: weft: ", what, " has layout ", tensor.layout(), "; give dense tensors"));
  TORCH_CHECK_VALUE(tensor.device().is_cpu(), "weft: ", what, " is on ", tensor.device(),
                    "; give CPU tensors, or mix backends: init_process_group(\"cpu:weft,cuda:nccl\")");
  const Tensor real = tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
  dtype_of(real);
  return real;
}

Tensor checked_output(const Tensor& tensor, const char* what) {
  TORCH_CHECK_VALUE(!tensor.is_conj() && !tensor.is_neg(), "weft: ", what, " is a conjugate or negative view");
  Tensor real = checked(tensor, what);
  TORCH_CHECK_VALUE(at::has_internal_overlap(real) != at::MemOverlap::Yes, "weft: elements of ", what,
                    " share memory (an expanded tensor); give a tensor of its own, such as .clone()");
  return real;
}

Tensors checked_all(const Tensors& tensors, const char* what, bool output) {
  Tensors out;
  out.reserve(tensors.size());
  for (const Tensor& tensor : tensors) out.push_back(output ? checked_output(tensor, what) : checked(tensor, what));
  for (const Tensor& tensor : out) same_dtype(out[0], tensor);
  return out;
}

const Tensor& single(const Tensors& tensors, const char* what) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "weft: ", what, " takes one tensor, ", tensors.size(), " were given");
  return tensors[0];
}

void same_dtype(const Tensor& a, const Tensor& b) {
  TORCH_CHECK_VALUE(a.scalar_type() == b.scalar_type(), "weft: tensors of one call have dtypes ", a.scalar_type(),
                    " and ", b.scalar_type());
}

Tensor flat_of(const Tensors& parts) {
  int64_t count = 0;
  for (const Tensor& part : parts) count += part.numel();
  Tensor flat = at::empty({count}, parts.at(0).options());
  int64_t at = 0;
  for (const Tensor& part : parts) {
    flat.narrow(0, at, part.numel()).view(part.sizes()).copy_(part);
    at += part.numel();
  }
  return flat;
}

void split_into(const Tensor& flat, const Tensors& parts) {
  int64_t at = 0;
  for (const Tensor& part : parts) {
    part.copy_(flat.narrow(0, at, part.numel()).view(part.sizes()));
    at += part.numel();
  }
}

std::vector<int64_t> counts_of(const Tensors& parts) {
  std::vector<int64_t> counts;
  for (const Tensor& part : parts) counts.push_back(part.numel());
  return counts;
}

bool all_equal(const std::vector<int64_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t count) { return count == counts[0]; });
}

bool adjacent(const Tensors& parts) {
  const auto* at = static_cast<const char*>(parts.at(0).const_data_ptr());
  for (const Tensor& part : parts) {
    if (!part.is_contiguous() || part.const_data_ptr() != at) return false;
    at += part.nbytes();
  }
  return true;
}

Tensor Reduction::given(const Tensor& input) const {
  if (!factor) return input;
  const at::ScalarType dtype = input.scalar_type();
  return at::isFloatingType(dtype) ? input * *factor : (input.to(at::kDouble) * *factor).to(dtype);
}

Reduction reduction_of(const c10d::ReduceOp& op, const Tensor& sample) {
  const bool truth = sample.scalar_type() == at::kBool;
  Reduction out;
  switch (op.op_) {
    case c10d::ReduceOp::SUM: out.combine = truth ? WEFT_LOGICAL_OR : WEFT_SUM; return out;
    case c10d::ReduceOp::PRODUCT: out.combine = truth ? WEFT_LOGICAL_AND : WEFT_PROD; return out;
    case c10d::ReduceOp::AVG: out.combine = WEFT_AVG; break;
    case c10d::ReduceOp::MIN: out.combine = WEFT_MIN; return out;
    case c10d::ReduceOp::MAX: out.combine = WEFT_MAX; return out;
    case c10d::ReduceOp::BAND: out.combine = WEFT_BIT_AND; break;
    case c10d::ReduceOp::BOR: out.combine = WEFT_BIT_OR; break;
    case c10d::ReduceOp::BXOR: out.combine = WEFT_BIT_XOR; break;
    case c10d::ReduceOp::PREMUL_SUM: {
      const auto* extra = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
      TORCH_CHECK_VALUE(extra, "weft: PREMUL_SUM without its factor; make it by dist._make_nccl_premul_sum");
      out.factor = extra->tensor_factor.defined() ? extra->tensor_factor.reshape({})
                                                  : at::scalar_tensor(extra->double_factor, at::kDouble);
      break;
    }
    default: C10_THROW_ERROR(NotImplementedError, "unsupported: weft has no such reduction");
  }
  const bool bits = out.combine == WEFT_BIT_AND || out.combine == WEFT_BIT_OR || out.combine == WEFT_BIT_XOR;
  TORCH_CHECK_VALUE(!bits || !at::isFloatingType(sample.scalar_type()),
                    "weft: bit operations combine integers and bool, not ", sample.scalar_type());
  TORCH_CHECK_VALUE(bits || !truth, "weft: AVG and PREMUL_SUM of bool have no meaning; convert to a number first");
  return out;
}

}  // namespace weft_torch
