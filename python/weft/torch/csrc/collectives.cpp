// c10d's collectives as calls of weft.h (backend.h).
#include <utility>

#include "backend.h"

namespace weft_torch {
namespace {

// What is written: the user's tensor, or a contiguous one whose elements are copied to it in the end.
struct Output {
  Tensor user, flat;
  Output() = default;
  Output(const Tensor& tensor, bool keep) : user(tensor), flat(tensor) {
    if (!tensor.is_contiguous())
      flat = keep ? tensor.contiguous()
                  : at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous));
  }
  void* data() const { return flat.mutable_data_ptr(); }
  void store() const {
    if (!flat.is_same(user)) user.copy_(flat);
  }
};

// The same for a list of them that is one value.
struct Outputs {
  Tensors users;
  Tensor flat;  // undefined: the users' own memory
  explicit Outputs(Tensors tensors) : users(std::move(tensors)) {
    if (adjacent(users)) return;
    int64_t count = 0;
    for (const Tensor& tensor : users) count += tensor.numel();
    flat = at::empty({count}, users[0].options().memory_format(at::MemoryFormat::Contiguous));
  }
  void* data() const { return flat.defined() ? flat.mutable_data_ptr() : users[0].mutable_data_ptr(); }
  void store() const {
    if (flat.defined()) split_into(flat, users);
  }
};

void expect(int64_t have, int64_t want, const char* what) {
  TORCH_CHECK_VALUE(have == want, "weft: ", what, " has ", have, " elements, ", want, " are expected");
}

void expect_ranks(size_t have, int size, const char* what) {
  TORCH_CHECK_VALUE(have == static_cast<size_t>(size), "weft: ", what, " has ", have, " tensors, the group has ", size,
                    " ranks");
}

void expect_root(int64_t root, int size) {
  TORCH_CHECK_VALUE(root >= 0 && root < size, "weft: root ", root, " of a group of ", size);
}

}  // namespace

WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  expect_root(root, size_);
  single(tensors, "broadcast");
  const Tensor user = rank_ == root ? checked(tensors[0], "the tensor") : checked_output(tensors[0], "the tensor");
  const Output output(user, rank_ == root);
  return start(c10d::OpType::BROADCAST, "weft:broadcast", tensors, tensors, options.asyncOp,
               [output, root, here = rank_](weft_comm* comm) {
                 View view(output.flat);
                 check(weft_broadcast(comm, view.get(), root, nullptr));
                 if (here != root) output.store();
               });
}

namespace {

void all_reduce(weft_comm* comm, const Output& output, const Reduction& reduction) {
  const Tensor given = reduction.given(output.flat);
  check(weft_all_reduce_flat(comm, given.const_data_ptr(), output.data(), output.flat.numel(), dtype_of(output.flat),
                             reduction.combine));
  output.store();
}

}  // namespace

WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Tensor user = checked_output(single(tensors, "all_reduce"), "the tensor");
  TORCH_CHECK_VALUE(!tensors[0].is_complex() || c10d::isComplexViewAsRealAllowed(options.reduceOp),
                    "weft: all_reduce of complex numbers with this reduction has no meaning");
  const Reduction reduction = reduction_of(options.reduceOp, user);
  const Output output(user, true);
  return start(c10d::OpType::ALLREDUCE, "weft:all_reduce", tensors, tensors, options.asyncOp,
               [output, reduction](weft_comm* comm) { all_reduce(comm, output, reduction); });
}

WorkPtr Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK_VALUE(!tensors.empty(), "weft: all_reduce_coalesced of no tensors");
  std::vector<std::pair<Output, Reduction>> each;
  for (const Tensor& tensor : checked_all(tensors, "a tensor", true))
    each.emplace_back(Output(tensor, true), reduction_of(options.reduceOp, tensor));
  return start(c10d::OpType::ALLREDUCE_COALESCED, "weft:all_reduce", tensors, tensors, options.asyncOp,
               [each](weft_comm* comm) {
                 for (const auto& [output, reduction] : each) all_reduce(comm, output, reduction);
               });
}

WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  expect_root(root, size_);
  single(tensors, "reduce");
  const bool receives = rank_ == root;
  const Tensor user = receives ? checked_output(tensors[0], "the tensor") : checked(tensors[0], "the tensor");
  TORCH_CHECK_VALUE(!tensors[0].is_complex() || c10d::isComplexViewAsRealAllowed(options.reduceOp),
                    "weft: reduce of complex numbers with this reduction has no meaning");
  const Reduction reduction = reduction_of(options.reduceOp, user);
  const Output output(user, true);
  return start(c10d::OpType::REDUCE, "weft:reduce", tensors, tensors, options.asyncOp, [=](weft_comm* comm) {
    const Tensor given = reduction.given(output.flat);
    View send(given), recv(output.flat);
    check(weft_reduce(comm, send.get(), receives ? recv.get() : nullptr, reduction.combine, root, nullptr));
    if (receives) output.store();
  });
}

// ---- gathers
WorkPtr Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const Tensor input = checked(single(inputs, "all_gather"), "the input").contiguous();
  TORCH_CHECK_VALUE(outputs.size() == 1, "weft: all_gather takes one list of outputs, ", outputs.size(), " were given");
  expect_ranks(outputs[0].size(), size_, "the list of outputs");
  const Tensors users = checked_all(outputs[0], "an output", true);
  same_dtype(users[0], input);
  const std::vector<int64_t> counts = counts_of(users);
  expect(counts[static_cast<size_t>(rank_)], input.numel(), "this rank's output");
  const Outputs all(users);
  return start(c10d::OpType::ALLGATHER, "weft:all_gather", inputs, outputs[0], options.asyncOp,
               [all, input, counts](weft_comm* comm) {
                 const void* given = input.const_data_ptr();
                 if (all_equal(counts))
                   check(weft_all_gather_flat(comm, given, all.data(), counts[0], dtype_of(input)));
                 else
                   check(weft_all_gather_v_flat(comm, given, all.data(), counts.data(), dtype_of(input)));
                 all.store();
               });
}

namespace {

std::pair<Output, Tensor> gather_pair(const Tensor& output, const Tensor& input, int size) {
  const Tensor from = checked(input, "the input").contiguous();
  const Tensor to = checked_output(output, "the output");
  same_dtype(to, from);
  expect(to.numel(), from.numel() * size, "the output");
  return {Output(to, false), from};
}

void all_gather(weft_comm* comm, const std::pair<Output, Tensor>& tensors) {
  const auto& [output, input] = tensors;
  check(weft_all_gather_flat(comm, input.const_data_ptr(), output.data(), input.numel(), dtype_of(input)));
  output.store();
}

}  // namespace

WorkPtr Backend::_allgather_base(Tensor& output, Tensor& input, const c10d::AllgatherOptions& options) {
  const auto tensors = gather_pair(output, input, size_);
  return start(c10d::OpType::_ALLGATHER_BASE, "weft:_all_gather_base", {input}, {output}, options.asyncOp,
               [tensors](weft_comm* comm) { all_gather(comm, tensors); });
}

WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "weft: ", inputs.size(), " inputs and ", outputs.size(),
                    " outputs");
  std::vector<std::pair<Output, Tensor>> each;
  for (size_t i = 0; i < inputs.size(); ++i) each.push_back(gather_pair(outputs[i], inputs[i], size_));
  return start(c10d::OpType::COALESCED, "weft:all_gather_into_tensor_coalesced", inputs, outputs, options.asyncOp,
               [each](weft_comm* comm) {
                 for (const auto& tensors : each) all_gather(comm, tensors);
               });
}

// outputs[rank][i] is rank's inputs[i].
WorkPtr Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                     const c10d::AllgatherOptions& options) {
  expect_ranks(outputs.size(), size_, "the list of lists");
  std::vector<std::pair<Outputs, Tensor>> each;
  Tensors results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor input = checked(inputs[i], "an input").contiguous();
    Tensors users;
    for (Tensors& list : outputs) {
      TORCH_CHECK_VALUE(list.size() == inputs.size(), "weft: ", inputs.size(), " inputs, a list of ", list.size());
      users.push_back(checked_output(list[i], "an output"));
      expect(users.back().numel(), input.numel(), "an output");
      same_dtype(users.back(), input);
      results.push_back(list[i]);
    }
    each.emplace_back(Outputs(users), input);
  }
  return start(
      c10d::OpType::ALLGATHER_COALESCED, "weft:all_gather", inputs, results, options.asyncOp, [each](weft_comm* comm) {
        for (const auto& [all, input] : each) {
          check(weft_all_gather_flat(comm, input.const_data_ptr(), all.data(), input.numel(), dtype_of(input)));
          all.store();
        }
      });
}

WorkPtr Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  expect_root(root, size_);
  const Tensor input = checked(single(inputs, "gather"), "the input").contiguous();
  std::optional<Outputs> all;
  if (rank_ == root) {
    TORCH_CHECK_VALUE(outputs.size() == 1, "weft: gather takes one list of outputs at the root");
    expect_ranks(outputs[0].size(), size_, "the list of outputs");
    for (const Tensor& output : outputs[0])
      expect(output.numel() * (output.is_complex() ? 2 : 1), input.numel(), "an output");
    all.emplace(checked_all(outputs[0], "an output", true));
    same_dtype(all->users[0], input);
  } else {
    TORCH_CHECK_VALUE(outputs.empty() || outputs[0].empty(), "weft: gather takes outputs at the root only");
  }
  return start(c10d::OpType::GATHER, "weft:gather", inputs, rank_ == root ? outputs[0] : Tensors{}, options.asyncOp,
               [=, size = size_](weft_comm* comm) {
                 View send(input), recv;
                 if (all) recv.set(all->data(), input.numel() * size, input);
                 check(weft_gather(comm, send.get(), all ? recv.get() : nullptr, root, nullptr));
                 if (all) all->store();
               });
}

WorkPtr Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  expect_root(root, size_);
  single(outputs, "scatter");
  const Output output(checked_output(outputs[0], "the output"), false);
  Tensor flat;
  Tensors kept;
  if (rank_ == root) {
    TORCH_CHECK_VALUE(inputs.size() == 1, "weft: scatter takes one list of inputs at the root");
    expect_ranks(inputs[0].size(), size_, "the list of inputs");
    const Tensors given = checked_all(inputs[0], "an input", false);
    for (const Tensor& input : given) expect(input.numel(), output.flat.numel(), "an input");
    same_dtype(given[0], output.flat);
    kept = given;
    flat = adjacent(given) ? given[0] : flat_of(given);  // the first one's address is the whole's
  } else {
    TORCH_CHECK_VALUE(inputs.empty() || inputs[0].empty(), "weft: scatter takes inputs at the root only");
  }
  return start(c10d::OpType::SCATTER, "weft:scatter", rank_ == root ? inputs[0] : Tensors{}, outputs, options.asyncOp,
               [=, size = size_](weft_comm* comm) {
                 View send, recv(output.flat);
                 if (!kept.empty()) send.set(flat.mutable_data_ptr(), output.flat.numel() * size, flat);
                 check(weft_scatter(comm, flat.defined() ? send.get() : nullptr, recv.get(), root, nullptr));
                 output.store();
               });
}

// ---- reduce_scatter
WorkPtr Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                const c10d::ReduceScatterOptions& options) {
  single(outputs, "reduce_scatter");
  TORCH_CHECK_VALUE(inputs.size() == 1, "weft: reduce_scatter takes one list of inputs");
  expect_ranks(inputs[0].size(), size_, "the list of inputs");
  const Output output(checked_output(outputs[0], "the output"), false);
  const Tensors given = checked_all(inputs[0], "an input", false);
  same_dtype(given[0], output.flat);
  const std::vector<int64_t> counts = counts_of(given);
  expect(output.flat.numel(), counts[static_cast<size_t>(rank_)], "the output");
  const Reduction reduction = reduction_of(options.reduceOp, output.flat);
  // Parts that lie one behind the other are used where they are: the first one's address is the whole's.
  const Tensor send = adjacent(given) && !reduction.factor ? given[0] : reduction.given(flat_of(given));
  return start(
      c10d::OpType::REDUCE_SCATTER, "weft:reduce_scatter", inputs[0], outputs, options.asyncOp,
      [output, given, send, counts, reduction](weft_comm* comm) {
        const weft_dtype dtype = dtype_of(output.flat);
        const void* from = send.const_data_ptr();
        if (all_equal(counts))
          check(weft_reduce_scatter_flat(comm, from, output.data(), counts[0], dtype, reduction.combine));
        else
          check(weft_reduce_scatter_v_flat(comm, from, output.data(), counts.data(), dtype, reduction.combine));
        output.store();
      });
}

namespace {

struct ScatterPair {
  Output output;
  Tensor input;
  Reduction reduction;
};

ScatterPair scatter_pair(const Tensor& output, const Tensor& input, int size, const c10d::ReduceOp& op) {
  const Tensor to = checked_output(output, "the output"), from = checked(input, "the input");
  same_dtype(to, from);
  expect(from.numel(), to.numel() * size, "the input");
  return {Output(to, false), from.contiguous(), reduction_of(op, to)};
}

void reduce_scatter_one(weft_comm* comm, const ScatterPair& pair) {
  const Tensor given = pair.reduction.given(pair.input);
  check(weft_reduce_scatter_flat(comm, given.const_data_ptr(), pair.output.data(), pair.output.flat.numel(),
                                 dtype_of(given), pair.reduction.combine));
  pair.output.store();
}

}  // namespace

WorkPtr Backend::_reduce_scatter_base(Tensor& output, Tensor& input, const c10d::ReduceScatterOptions& options) {
  const ScatterPair pair = scatter_pair(output, input, size_, options.reduceOp);
  return start(c10d::OpType::_REDUCE_SCATTER_BASE, "weft:_reduce_scatter_base", {input}, {output}, options.asyncOp,
               [pair](weft_comm* comm) { reduce_scatter_one(comm, pair); });
}

WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "weft: ", inputs.size(), " inputs and ", outputs.size(),
                    " outputs");
  std::vector<ScatterPair> each;
  for (size_t i = 0; i < inputs.size(); ++i)
    each.push_back(scatter_pair(outputs[i], inputs[i], size_, options.reduceOp));
  return start(c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, "weft:reduce_scatter_tensor_coalesced", inputs, outputs,
               options.asyncOp, [each](weft_comm* comm) {
                 for (const ScatterPair& pair : each) reduce_scatter_one(comm, pair);
               });
}

}  // namespace weft_torch
