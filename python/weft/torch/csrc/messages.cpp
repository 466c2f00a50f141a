// send and recv, and calls that are made together (backend.h).
#include "backend.h"

namespace weft_torch {
namespace {

struct Parcel {
  Tensor user, flat;
  View view;
};

// Several works as one.
class Together : public c10d::Work {
 public:
  Together(std::vector<WorkPtr> members, std::vector<Tensor> outputs)
      : c10d::Work(-1, c10d::OpType::COALESCED), members_(std::move(members)), outputs_(std::move(outputs)) {}
  bool isCompleted() override {
    return std::all_of(members_.begin(), members_.end(), [](const WorkPtr& work) { return work->isCompleted(); });
  }
  bool isSuccess() const override {
    return std::all_of(members_.begin(), members_.end(), [](const WorkPtr& work) { return work->isSuccess(); });
  }
  std::vector<Tensor> result() override { return outputs_; }
  void synchronize() override {}
  void abort() override {
    for (const WorkPtr& work : members_) work->abort();
  }
  bool wait(std::chrono::milliseconds timeout) override {
    const auto end = std::chrono::steady_clock::now() + timeout;
    for (const WorkPtr& work : members_) {
      if (timeout == kNoTimeout) {
        work->wait();
        continue;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      work->wait(std::max(left, std::chrono::milliseconds(1)));
    }
    return true;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto all = c10::List<c10::intrusive_ptr<c10::ivalue::Future>>(
        c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
    for (const WorkPtr& work : members_) all.push_back(work->getFuture());
    return c10::collectAll(all)->then(
        [outputs = outputs_](c10::ivalue::Future& done) {
          done.value();  // throws the first failure
          return c10::IValue(outputs);
        },
        c10::ListType::create(c10::TensorType::get()));
  }

 private:
  std::vector<WorkPtr> members_;
  std::vector<Tensor> outputs_;
};

}  // namespace

WorkPtr Backend::start_message(c10d::OpType type, const char* title, Tensors& tensors, int peer, int tag) {
  const bool sends = type == c10d::OpType::SEND;
  Tensor tensor = single(tensors, sends ? "send" : "recv");
  TORCH_CHECK_VALUE(peer == WEFT_ANY_SOURCE || (peer >= 0 && peer < size_), "weft: rank ", peer, " of a group of ",
                    size_);
  TORCH_CHECK_VALUE(tag >= 0, "weft: tag ", tag, "; tags are not negative");
  auto parcel = std::make_shared<Parcel>();
  parcel->user = sends ? checked(tensor, "what is sent") : checked_output(tensor, "what is received into");
  parcel->flat = parcel->user.contiguous();
  parcel->view.set(parcel->flat.mutable_data_ptr(), parcel->flat.numel(), parcel->flat);
  Post::Message message;
  message.work = c10::make_intrusive<Work>(post_, type, title, tensors, tensors, sequence_, sends ? -1 : peer, nullptr);
  message.start = [=](weft_comm* comm, int* source, weft_work** work) {
    return sends ? weft_send(comm, parcel->view.get(), peer, tag, work)
                 : weft_recv(comm, parcel->view.get(), peer, tag, source, nullptr, work);
  };
  if (!sends)
    message.store = [parcel] {
      if (!parcel->flat.is_same(parcel->user)) parcel->user.copy_(parcel->flat);
    };
  message.text = c10::str(sends ? "send " : "receive ", parcel->flat.numel(), " elements ", sends ? "to " : "from ",
                          peer == WEFT_ANY_SOURCE ? "any rank" : c10::str("rank ", peer), ", tag ", tag);
  const auto work = message.work;
  post_->submit(std::move(message));
  if (together_) together_->push_back(work);
  return work;
}

WorkPtr Backend::send(Tensors& tensors, int to, int tag) {
  return start_message(c10d::OpType::SEND, "weft:send", tensors, to, tag);
}
WorkPtr Backend::recv(Tensors& tensors, int from, int tag) {
  return start_message(c10d::OpType::RECV, "weft:recv", tensors, from, tag);
}
WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  return start_message(c10d::OpType::RECVANYSOURCE, "weft:recvAnySource", tensors, WEFT_ANY_SOURCE, tag);
}

void Backend::startCoalescing() {
  TORCH_CHECK(!together_, "weft: calls are coalesced already; end that first");
  together_.emplace();
}

WorkPtr Backend::endCoalescing() {
  TORCH_CHECK(together_, "weft: nothing is coalesced");
  const std::vector<WorkPtr> members = *std::exchange(together_, std::nullopt);
  Tensors outputs;
  for (const WorkPtr& work : members)
    for (const Tensor& tensor : work->result()) outputs.push_back(tensor);
  return c10::make_intrusive<Together>(members, outputs);
}

}  // namespace weft_torch
