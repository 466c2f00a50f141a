// One communicator of weft.h and the calls that wait for it, in order.
//
// Problem: torch wants works that complete by themselves (futures, hooks), and a blocking call that costs microseconds.
// Ways: a thread that runs everything (a hand-off of tens of microseconds for every call), or the caller runs
// everything (futures would not complete). We take both: a blocking call runs on the caller's thread when nothing is
// before it; an asynchronous one is queued for a worker thread, and whoever waits for it first runs the queue himself.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "weft.h"

namespace weft_torch {

class Work;

// What runs works: an engine, or the post of a group.
class Runner {
 public:
  virtual ~Runner() = default;
  // Runs or awaits what stands before `work`, and it. false: the time has passed (0: none is set).
  virtual bool complete(Work& work, std::chrono::milliseconds timeout) = 0;
  virtual void abort(const std::string& why) = 0;  // all calls fail, also those in progress; returns at once
};

// Throws what a status means in torch: ValueError, NotImplementedError, DistBackendError.
void check(weft_status status);

class Work : public c10d::Work {
 public:
  // `call` runs once, in the order of submission (none: the runner knows); `outputs` are the work's result and its
  // future's value.
  Work(std::shared_ptr<Runner> runner, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
       std::vector<at::Tensor> outputs, uint64_t sequence, int source, std::function<void(weft_comm*)> call);
  bool isCompleted() override;
  bool isSuccess() const override;
  int sourceRank() const override { return source_; }
  std::vector<at::Tensor> result() override { return outputs_; }
  void synchronize() override {}
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }

  // The runner's side.
  bool done() const;
  void run(weft_comm* comm, std::exception_ptr refused);
  void complete(std::exception_ptr failure, int source);  // once; source: -1 leaves it

 private:
  void settle(c10::ivalue::Future& future);  // what the work came to

  std::shared_ptr<Runner> runner_;
  std::vector<at::Tensor> outputs_;
  uint64_t sequence_;
  int source_;
  std::function<void(weft_comm*)> call_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

class Engine : public Runner, public std::enable_shared_from_this<Engine> {
 public:
  using Open = std::function<weft_comm*()>;
  // `open` makes the communicator: before the first call, on the thread that runs it.
  explicit Engine(Open open) : open_(std::move(open)) {}
  ~Engine() override;

  void open();  // now
  void submit(const c10::intrusive_ptr<Work>& work, bool asynchronous);
  bool complete(Work& work, std::chrono::milliseconds timeout) override;
  void abort(const std::string& why) override;
  void close();  // no more calls; waits for the one in progress

 private:
  void work_off();
  bool is_mine() const { return runner_ == std::this_thread::get_id(); }
  void run_front(std::unique_lock<std::mutex>& lock);
  void run(Work& work);

  Open open_;
  weft_comm* comm_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<c10::intrusive_ptr<Work>> queue_;
  bool running_ = false, stop_ = false;
  std::string aborted_;
  std::thread::id runner_;  // who runs a call now
  std::thread worker_;
};

}  // namespace weft_torch
