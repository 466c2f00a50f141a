// torch.distributed's backend "weft": c10d's operations as calls of weft.h.
//
// Only weft.h and libweft.so are used, so this builds against whichever torch is installed. Tensors are checked before
// anything is sent. Contiguous ones are used where they lie; of others a contiguous copy travels, and results are
// written back by strides. Every operation makes a Work (engine.h); blocking ones (asyncOp false) run at once.
#pragma once

#include <atomic>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "post.h"

namespace weft_torch {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class Backend : public c10d::Backend {
 public:
  // Collective over the group. `store` belongs to the group; `timeout` is of every wait.
  Backend(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout);
  ~Backend() override;

  const std::string getBackendName() const override { return "weft"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void abort() override;
  void shutdown() override;
  // A group of some of these ranks; only they take part. They need no parent afterwards.
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override;
  // What is called between the two is one work. Nothing waits in between, so messages may stand in any order.
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(Tensor& output, Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(Tensor& output, Tensor& input, const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

 private:
  using Call = std::function<void(weft_comm*)>;
  WorkPtr start(c10d::OpType type, const char* title, const Tensors& inputs, Tensors outputs, bool asynchronous,
                Call call);
  // One side of a message; peer WEFT_ANY_SOURCE: any.
  WorkPtr start_message(c10d::OpType type, const char* title, Tensors& tensors, int peer, int tag);
  // Ranks of the group that have not set their key within the time.
  std::vector<int> missing(const std::string& key, std::chrono::milliseconds timeout, bool all);

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<Options> options_;
  std::chrono::milliseconds timeout_;
  std::string keys_;     // what its keys in the store begin with
  std::string meeting_;  // a path of this group's own
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Post> post_;
  std::atomic<uint64_t> sequence_ = 0;
  uint64_t monitored_ = 0;
  std::optional<std::vector<WorkPtr>> together_;  // since startCoalescing
};

// ---- allocator.cpp: torch's CPU tensors in memory that peers map
// From now on, for the life of this process. Empty, or why not.
std::string take_allocator();
weft_arena* arena();  // null: the allocator was not taken
bool in_arena(const Tensor& tensor);

// ---- tensors.cpp: what torch's tensors are to weft.h
weft_dtype dtype_of(const Tensor& tensor);
// A dense CPU tensor of a dtype that Weft has, else ValueError or NotImplementedError; complex ones as pairs of reals.
Tensor checked(const Tensor& tensor, const char* what);
// The same for a tensor that is written: not one where elements share memory.
Tensor checked_output(const Tensor& tensor, const char* what);
Tensors checked_all(const Tensors& tensors, const char* what, bool output);
const Tensor& single(const Tensors& tensors, const char* what);
void same_dtype(const Tensor& a, const Tensor& b);
Tensor flat_of(const Tensors& parts);                       // their elements one after the other
void split_into(const Tensor& flat, const Tensors& parts);  // and back
std::vector<int64_t> counts_of(const Tensors& parts);
bool all_equal(const std::vector<int64_t>& counts);
bool adjacent(const Tensors& parts);  // contiguous, and one behind the other in memory

// Contiguous memory as a tensor of weft.h; it points into itself.
class View {
 public:
  View() = default;
  explicit View(const Tensor& tensor) { set(tensor.mutable_data_ptr(), tensor.numel(), tensor); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  void set(void* data, int64_t count, const Tensor& like);
  weft_tensor* get() { return &tensor_; }

 private:
  weft_tensor tensor_ = {};
  int64_t count_ = 0;
};

// A reduction as Weft has it; PREMUL_SUM is a factor for what this rank gives.
struct Reduction {
  weft_combine combine = WEFT_SUM;
  std::optional<Tensor> factor;
  Tensor given(const Tensor& input) const;  // rounded once to the input's dtype
};
Reduction reduction_of(const c10d::ReduceOp& op, const Tensor& sample);

}  // namespace weft_torch
