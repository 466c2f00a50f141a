// Ranks as threads: one address space, a board on the heap. What tests, sanitizers and small programs use.
//
// A thread cannot be killed, so a rank that never returns from its own code keeps run_threads waiting; every wait of
// Weft's own ends by the abort word.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "weft/base/env.h"
#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/transport/board.h"
#include "weft/transport/mapping.h"

namespace weft::transport {
namespace {

struct ThreadWindow : Window {
  std::vector<std::shared_ptr<Mapping>> blocks;
};

struct Shared {
  explicit Shared(int ranks)
      : memory(-1, Board::bytes(ranks), "the board of a job"), board(*new (memory.data()) Board{}) {
    for (int rank = 0; rank < ranks; ++rank) new (&board.ranks()[rank]) RankBoard{};
  }
  Mapping memory;
  Board& board;
  std::mutex mutex;
  std::vector<std::shared_ptr<Mapping>> blocks;  // of the allocation under way
};

class ThreadTransport final : public BoardTransport {
 public:
  ThreadTransport(Shared& shared, int rank, int size, const RankOptions& options)
      : BoardTransport(shared.board, rank, size, options), shared_(shared) {}
  std::string_view name() const override { return "threads"; }

  std::shared_ptr<Window> allocate(int64_t bytes, std::string_view what) override {
    agree_on_allocation(bytes, what);
    std::string problem;
    if (rank() == 0) problem = make_blocks(bytes, what);
    if (const std::string told = exchange(problem, fmt::format("map {}", what))[0]; !told.empty())
      throw Error(ErrorKind::io, told);
    auto window = std::make_shared<ThreadWindow>();
    window->bytes = bytes;
    const std::lock_guard lock(shared_.mutex);
    window->blocks = shared_.blocks;
    for (const auto& block : window->blocks) window->at.push_back(block->data());
    return window;
  }

 private:
  std::string make_blocks(int64_t bytes, std::string_view what) {
    try {
      std::vector<std::shared_ptr<Mapping>> blocks;
      for (int rank = 0; rank < size(); ++rank)
        blocks.push_back(std::make_shared<Mapping>(-1, rounded_block_bytes(bytes), what));
      const std::lock_guard lock(shared_.mutex);
      shared_.blocks = std::move(blocks);
      return "";
    } catch (const Error& error) { return error.what(); }
  }
  Shared& shared_;
};

class ThreadGroup {
 public:
  ThreadGroup(int ranks, const RankOptions& options, const std::function<void(Transport&)>& body)
      : ranks_(ranks), shared_(ranks) {
    if (ranks < 1) throw Error(ErrorKind::user, fmt::format("{} ranks cannot be started", ranks), "one at least");
    check_environment();
    const bool pin = options.pin && ranks <= allowed_core_count();
    for (int rank = 0; rank < ranks; ++rank) {
      transports_.push_back(std::make_unique<ThreadTransport>(shared_, rank, ranks, options));
    }
    for (int rank = 0; rank < ranks; ++rank)
      threads_.emplace_back([this, rank, pin, body] {
        if (pin) pin_to_core(rank);
        run_rank(shared_.board, ranks_, rank, [&] { body(*transports_[static_cast<size_t>(rank)]); });
      });
  }
  ~ThreadGroup() { join(); }
  void join() {
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }
  Board& board() { return shared_.board; }
  int ranks() const { return ranks_; }

 private:
  int ranks_;
  Shared shared_;
  std::vector<std::unique_ptr<ThreadTransport>> transports_;
  std::vector<std::thread> threads_;
};

class ThreadJob final : public Job {
 public:
  ThreadJob(int ranks, const std::function<CommandLoop(Transport&)>& make, const RankOptions& options)
      : queues_(static_cast<size_t>(std::max(ranks, 0))),
        group_(ranks, options, [this, make](Transport& t) { serve(t, make(t)); }) {}
  ~ThreadJob() override { hang_up(); }
  int ranks() const override { return group_.ranks(); }

  void send(int rank, std::string_view text) override {
    const std::lock_guard lock(mutex_);
    queues_.at(static_cast<size_t>(rank)).commands.emplace_back(text);
    changed_.notify_all();
  }
  std::string receive(int rank, int64_t timeout_ns) override {
    std::unique_lock lock(mutex_);
    auto& answers = queues_.at(static_cast<size_t>(rank)).answers;
    for (const int64_t begin = now_ns(); answers.empty();) {
      throw_job_failure(group_.board(), group_.ranks());
      if (now_ns() - begin > timeout_ns)
        throw Error(ErrorKind::timeout,
                    fmt::format("rank {} did not answer within {}", rank, human_ns(static_cast<double>(timeout_ns))),
                    timeout_remedy(timeout_ns));
      changed_.wait_for(lock, std::chrono::milliseconds(10));
    }
    std::string answer = std::move(answers.front());
    answers.pop_front();
    return answer;
  }
  void finish() override {
    hang_up();
    group_.join();
    throw_job_failure(group_.board(), group_.ranks());
  }

 private:
  struct Queue {
    std::deque<std::string> commands, answers;
  };

  void hang_up() {
    const std::lock_guard lock(mutex_);
    hung_up_ = true;
    changed_.notify_all();
  }
  void serve(Transport& transport, const CommandLoop& loop) {
    Queue& queue = queues_[static_cast<size_t>(transport.rank())];
    for (;;) {
      std::string command;
      {
        std::unique_lock lock(mutex_);
        while (queue.commands.empty() && !hung_up_) {
          if (transport.abort_word().load(std::memory_order_acquire)) throw_failure(transport, "waiting for a command");
          changed_.wait_for(lock, std::chrono::milliseconds(10));
        }
        if (queue.commands.empty()) return;
        command = std::move(queue.commands.front());
        queue.commands.pop_front();
      }
      std::string answer = loop(transport, command);
      const std::lock_guard lock(mutex_);
      queue.answers.push_back(std::move(answer));
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Queue> queues_;
  bool hung_up_ = false;
  ThreadGroup group_;  // last: its threads use what stands above
};

}  // namespace

void run_threads(int ranks, const std::function<void(Transport&)>& body, const RankOptions& options) {
  ThreadGroup group(ranks, options, body);
  group.join();
  throw_job_failure(group.board(), ranks);
}

std::unique_ptr<Job> start_threads(int ranks, const std::function<CommandLoop(Transport&)>& make,
                                   const RankOptions& options) {
  return std::make_unique<ThreadJob>(ranks, make, options);
}

}  // namespace weft::transport
