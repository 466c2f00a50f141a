// The messages of a group: sends and receives with tags, from a stated or from any source.
//
// Problem: messages complete in any order, whoever waits first, while calls that block (collectives) run in between. Ways: a
// queue (a receive whose send stands behind it on the other side blocks for ever), a communicator for each pair and tag (no
// receive from any source), or messages that are started and looked after. We take the last: a communicator of their own
// and a thread that starts what is submitted, in order, and tests what is open; weft.h matches them. The thread sleeps when
// nothing is open.
#pragma once

#include <list>

#include "engine.h"

namespace weft_torch {

class Post : public Runner, public std::enable_shared_from_this<Post> {
 public:
  struct Message {
    c10::intrusive_ptr<Work> work;
    // Starts it; what it needs stays alive until it is complete.
    std::function<weft_status(weft_comm*, int* source, weft_work**)> start;
    std::function<void()> store;  // after it came; may be empty
    std::string text;             // "send 5 elements to rank 1, tag 0"
  };

  // Takes the communicator. timeout: of every message.
  Post(weft_comm* comm, int rank, std::chrono::milliseconds timeout) : comm_(comm), rank_(rank), timeout_(timeout) {}
  ~Post() override;
  void submit(Message message);
  bool complete(Work& work, std::chrono::milliseconds timeout) override;
  void abort(const std::string& why) override;
  void close();  // what is open fails

 private:
  using Clock = std::chrono::steady_clock;
  struct Open {
    Message message;
    weft_work* handle = nullptr;
    int source = -1;
    Clock::time_point since;
  };

  void work_off();
  void start(Message message);
  bool look_after();  // true: something is complete
  bool is_complete(Open& open);
  void finish(Open& open, std::exception_ptr failure);
  void rest(std::unique_lock<std::mutex>& lock, int idle_rounds);

  weft_comm* comm_;
  int rank_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_, completed_;
  std::deque<Message> fresh_;
  std::list<Open> open_;  // of the thread alone
  bool stop_ = false;
  std::string aborted_;
  std::thread thread_;
};

}  // namespace weft_torch
