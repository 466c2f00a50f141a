// Running calls in order, on the caller's thread or the worker's (engine.h).
#include "engine.h"

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <utility>

namespace weft_torch {

void check(weft_status status) {
  if (status == WEFT_OK) return;
  const std::string message = weft_last_error();
  if (status == WEFT_ERROR_USER) C10_THROW_ERROR(ValueError, message);
  if (status == WEFT_ERROR_UNSUPPORTED) C10_THROW_ERROR(NotImplementedError, message);
  C10_THROW_ERROR(DistBackendError, message);
}

Work::Work(std::shared_ptr<Runner> runner, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
           std::vector<at::Tensor> outputs, uint64_t sequence, int source, std::function<void(weft_comm*)> call)
    : c10d::Work(-1, type, title, inputs),
      runner_(std::move(runner)),
      outputs_(std::move(outputs)),
      sequence_(sequence),
      source_(source),
      call_(std::move(call)) {}

bool Work::done() const {
  std::lock_guard lock(mutex_);
  return completed_;
}
bool Work::isCompleted() { return done(); }
bool Work::isSuccess() const {
  std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

bool Work::wait(std::chrono::milliseconds timeout) {
  if (!done() && !runner_->complete(*this, timeout))
    C10_THROW_ERROR(DistBackendError,
                    c10::str("weft: ", c10d::opTypeToString(opType_), " (call ", sequence_, ") is not complete after ",
                             timeout.count(), " ms; another rank may not have made it"));
  std::exception_ptr failure;
  {
    std::lock_guard lock(mutex_);
    failure = exception_;
  }
  if (failure) std::rethrow_exception(failure);
  return true;
}

void Work::abort() { runner_->abort("a work was aborted"); }

void Work::settle(c10::ivalue::Future& future) {
  if (exception_)
    future.setError(exception_);
  else
    future.markCompleted(c10::IValue(outputs_));
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  std::unique_lock lock(mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  const bool complete = completed_;
  const auto future = future_;
  lock.unlock();
  if (complete) settle(*future);
  return future;
}

void Work::run(weft_comm* comm, std::exception_ptr failure) {
  if (!failure) {
    try {
      c10::AutoGradMode no_grad(false);
      call_(comm);
    } catch (...) { failure = std::current_exception(); }
  }
  call_ = nullptr;
  complete(failure, -1);
}

// Callbacks of the future may submit further calls, so nothing is locked while they run.
void Work::complete(std::exception_ptr failure, int source) {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    std::lock_guard lock(mutex_);
    future = future_;
    if (source >= 0) source_ = source;
    exception_ = failure;
    completed_ = true;
    if (recordFunctionEndCallback_) std::exchange(recordFunctionEndCallback_, nullptr)();
  }
  cv_.notify_all();
  if (future) settle(*future);
}

Engine::~Engine() { close(); }

void Engine::open() {
  if (!comm_) comm_ = open_();
}

void Engine::run(Work& work) {
  std::exception_ptr refused;
  try {
    if (!aborted_.empty()) C10_THROW_ERROR(DistBackendError, "weft: " + aborted_);
    open();
  } catch (...) { refused = std::current_exception(); }
  work.run(comm_, refused);
}

// Called and left with the lock held; the engine counts as running in between.
void Engine::run_front(std::unique_lock<std::mutex>& lock) {
  const c10::intrusive_ptr<Work> work = std::move(queue_.front());
  queue_.pop_front();
  running_ = true;
  runner_ = std::this_thread::get_id();
  lock.unlock();
  run(*work);
  lock.lock();
  running_ = false;
  runner_ = {};
  changed_.notify_all();
}

void Engine::submit(const c10::intrusive_ptr<Work>& work, bool asynchronous) {
  std::unique_lock lock(mutex_);
  if (stop_) C10_THROW_ERROR(DistBackendError, "weft: the process group is destroyed");
  queue_.push_back(work);
  if (asynchronous) {
    if (!worker_.joinable()) worker_ = std::thread([self = shared_from_this()] { self->work_off(); });
    lock.unlock();
    changed_.notify_all();
    return;
  }
  while (!work->done()) {
    if (!running_)
      run_front(lock);
    else
      changed_.wait(lock);
  }
}

bool Engine::complete(Work& work, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::unique_lock lock(mutex_);
  while (!work.done()) {
    if (timeout == kNoTimeout && !running_ && !queue_.empty())
      run_front(lock);
    else if (timeout == kNoTimeout)
      changed_.wait(lock);
    else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout)
      return work.done();
  }
  return true;
}

void Engine::work_off() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || (!running_ && !queue_.empty()); });
    if (stop_) return;
    run_front(lock);
  }
}

void Engine::abort(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (aborted_.empty()) aborted_ = why;
  if (comm_) weft_comm_abort(comm_, why.c_str());
}

void Engine::close() {
  std::unique_lock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !running_ || is_mine(); });  // a callback of a call may close the group
  auto left = std::exchange(queue_, {});
  lock.unlock();
  const auto gone = std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                                                                  "weft: the process group is destroyed"));
  for (const auto& work : left) work->run(nullptr, gone);
  if (worker_.joinable() && worker_.get_id() == std::this_thread::get_id())
    worker_.detach();  // it holds the engine until it ends
  else if (worker_.joinable())
    worker_.join();
  lock.lock();
  if (!running_ && comm_) weft_comm_destroy(std::exchange(comm_, nullptr));
}

}  // namespace weft_torch
