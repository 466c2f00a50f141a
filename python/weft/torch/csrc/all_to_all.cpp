// all_to_all with equal or given counts (backend.h).
//
// All forms are one call with a count per pair: whether counts are equal everywhere is not known on any rank. Weft compares
// every pair's counts before anything moves, so that those that do not fit are one error on all ranks.
#include <numeric>

#include "backend.h"

namespace weft_torch {
namespace {

struct Exchange {
  Tensor send, recv;                  // flat, contiguous
  std::vector<int64_t> given, taken;  // elements to and from each rank
};

void exchange(weft_comm* comm, const Exchange& e) {
  check(weft_all_to_all_v_flat(comm, e.send.const_data_ptr(), e.given.data(), e.recv.mutable_data_ptr(), e.taken.data(),
                               dtype_of(e.send)));
}

// Rows for each rank, in elements. Empty: as many for each.
std::vector<int64_t> counts_from(const std::vector<int64_t>& splits, const Tensor& tensor, int ranks,
                                 const char* what) {
  const int64_t rows = tensor.dim() ? tensor.size(0) : 1;
  if (splits.empty()) {
    TORCH_CHECK_VALUE(tensor.dim() == 0 ? ranks == 1 : rows % ranks == 0, "weft: ", what, ": ", rows,
                      " rows are not a multiple of ", ranks, " ranks; give split sizes");
    return std::vector<int64_t>(static_cast<size_t>(ranks), tensor.numel() / ranks);
  }
  TORCH_CHECK_VALUE(splits.size() == static_cast<size_t>(ranks), "weft: ", what, ": ", splits.size(),
                    " split sizes for ", ranks, " ranks");
  int64_t sum = 0;
  for (const int64_t split : splits) {
    TORCH_CHECK_VALUE(split >= 0, "weft: ", what, ": split size ", split, " is negative");
    sum += split;
  }
  TORCH_CHECK_VALUE(sum == rows, "weft: ", what, ": split sizes add up to ", sum, ", the tensor has ", rows, " rows");
  const int64_t row = rows ? tensor.numel() / rows : 0;
  std::vector<int64_t> counts;
  for (const int64_t split : splits) counts.push_back(split * row);
  return counts;
}

Tensor flat_copy_or_own(const Tensor& tensor) { return tensor.contiguous().view({-1}); }

}  // namespace

WorkPtr Backend::alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_splits,
                               std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  const Tensor to = checked_output(output, "the output"), from = checked(input, "the input");
  same_dtype(to, from);
  Exchange e;
  e.taken = counts_from(output_splits, to, size_, "the output");
  e.given = counts_from(input_splits, from, size_, "the input");
  e.send = flat_copy_or_own(from);
  e.recv = flat_copy_or_own(to);
  return start(c10d::OpType::ALLTOALL_BASE, "weft:all_to_all", {input}, {output}, options.asyncOp,
               [e, to](weft_comm* comm) {
                 exchange(comm, e);
                 if (!to.is_contiguous()) to.copy_(e.recv.view(to.sizes()));
               });
}

WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(inputs.size() == static_cast<size_t>(size_) && outputs.size() == inputs.size(),
                    "weft: all_to_all: ", inputs.size(), " inputs and ", outputs.size(), " outputs in a group of ",
                    size_, " ranks");
  const Tensors from = checked_all(inputs, "an input", false), to = checked_all(outputs, "an output", true);
  same_dtype(to[0], from[0]);
  Exchange e;
  e.given = counts_of(from);
  e.taken = counts_of(to);
  e.send = flat_of(from);
  e.recv = at::empty({std::accumulate(e.taken.begin(), e.taken.end(), int64_t{0})}, e.send.options());
  return start(c10d::OpType::ALLTOALL, "weft:all_to_all", inputs, outputs, options.asyncOp, [e, to](weft_comm* comm) {
    exchange(comm, e);
    split_into(e.recv, to);
  });
}

}  // namespace weft_torch
