// Starting messages and looking after them (post.h).
#include "post.h"

#include <c10/util/Exception.h>

#include <utility>

namespace weft_torch {
namespace {

std::exception_ptr failure_of(const std::string& message) {
  return std::make_exception_ptr(
      c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, "weft: " + message));
}

std::exception_ptr failure_of(weft_status status) {
  try {
    check(status);
  } catch (...) { return std::current_exception(); }
  return nullptr;
}

}  // namespace

Post::~Post() { close(); }

void Post::submit(Message message) {
  std::lock_guard lock(mutex_);
  if (stop_) C10_THROW_ERROR(DistBackendError, "weft: the process group is destroyed");
  fresh_.push_back(std::move(message));
  if (!thread_.joinable()) thread_ = std::thread([self = shared_from_this()] { self->work_off(); });
  changed_.notify_one();
}

bool Post::complete(Work& work, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto done = [&] { return work.done(); };
  if (timeout != kNoTimeout) return completed_.wait_for(lock, timeout, done);
  completed_.wait(lock, done);
  return true;
}

void Post::abort(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (aborted_.empty()) aborted_ = why;
  if (comm_) weft_comm_abort(comm_, why.c_str());
  changed_.notify_one();
}

void Post::work_off() {
  int idle_rounds = 0;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (fresh_.empty() && open_.empty()) {
      changed_.wait(lock);
      idle_rounds = 0;
      continue;
    }
    auto fresh = std::exchange(fresh_, {});
    lock.unlock();
    for (Message& message : fresh) start(std::move(message));
    const bool moved = look_after() || !fresh.empty();
    fresh.clear();
    lock.lock();
    idle_rounds = moved ? 0 : idle_rounds + 1;
    if (!moved && fresh_.empty() && !open_.empty()) rest(lock, idle_rounds);
  }
  lock.unlock();
  if (!open_.empty()) weft_comm_abort(comm_, c10::str("rank ", rank_, " left with messages under way").c_str());
  for (Open& open : open_) finish(open, failure_of("the process group is destroyed"));
  open_.clear();
}

// A peer answers within microseconds when it is there; one that computes first is not worth a core.
void Post::rest(std::unique_lock<std::mutex>& lock, int idle_rounds) {
  constexpr int yielding = 200;
  if (idle_rounds < yielding) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    return;
  }
  changed_.wait_for(lock, std::chrono::microseconds(std::min(1000, 50 + 5 * (idle_rounds - yielding))));
}

void Post::start(Message message) {
  Open& open = open_.emplace_back();
  open.message = std::move(message);
  open.since = Clock::now();
  std::exception_ptr failure;
  try {
    check(open.message.start(comm_, &open.source, &open.handle));
    return;
  } catch (...) { failure = std::current_exception(); }
  finish(open, failure);
  open_.pop_back();
}

bool Post::look_after() {
  const weft_status state = weft_comm_check(comm_);
  const std::exception_ptr broken = failure_of(state);
  const size_t before = open_.size();
  for (auto at = open_.begin(); at != open_.end();) {
    std::exception_ptr failure;
    bool done = false;
    try {
      done = is_complete(*at);
    } catch (...) { done = true, failure = std::current_exception(); }
    if (!done && broken) done = true, failure = broken;
    if (done) finish(*at, failure);
    at = done ? open_.erase(at) : std::next(at);
  }
  return open_.size() != before;
}

bool Post::is_complete(Open& open) {
  int done = 0;
  check(weft_work_test(open.handle, &done));
  if (done) return true;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - open.since);
  if (waited <= timeout_) return false;
  const std::string why = c10::str("rank ", rank_, " waits since ", waited.count(), " ms to ", open.message.text);
  abort(why);
  C10_THROW_ERROR(DistBackendError, "weft: " + why);
}

void Post::finish(Open& open, std::exception_ptr failure) {
  if (!failure && open.message.store) try {
      c10::AutoGradMode no_grad(false);
      open.message.store();
    } catch (...) { failure = std::current_exception(); }
  if (open.handle) weft_work_free(std::exchange(open.handle, nullptr));
  {
    std::lock_guard lock(mutex_);
    if (failure && !aborted_.empty()) failure = failure_of(aborted_);
  }
  open.message.work->complete(failure, open.source);
  open.message.start = nullptr;
  {
    std::lock_guard lock(mutex_);  // who waits has seen either that it is not done, or the call below
  }
  completed_.notify_all();
}

void Post::close() {
  std::unique_lock lock(mutex_);
  if (stop_ && !comm_) return;
  stop_ = true;
  if (comm_ && (!fresh_.empty() || thread_.joinable())) changed_.notify_all();
  lock.unlock();
  const bool inside = thread_.joinable() && thread_.get_id() == std::this_thread::get_id();
  if (inside)
    thread_.detach();  // a callback of a message closes the group; the thread holds the post until it ends
  else if (thread_.joinable())
    thread_.join();
  for (const Message& message : std::exchange(fresh_, {}))
    message.work->complete(failure_of("the process group is destroyed"), -1);
  completed_.notify_all();
  lock.lock();
  if (!inside && comm_) weft_comm_destroy(std::exchange(comm_, nullptr));
}

}  // namespace weft_torch
