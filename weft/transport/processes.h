// Ranks as forked processes, as their parent sees them: start, deaths, and the end that leaves nothing behind.
#pragma once

#include <sys/types.h>

#include "weft/transport/board.h"
#include "weft/transport/mapping.h"

namespace weft::transport {

// A control socket per rank; the board lies in shared anonymous memory that the children inherit.
class ProcessGroup {
 public:
  using Body = std::function<void(Transport&, int control)>;
  ProcessGroup(int ranks, const RankOptions& options, const Body& body);
  ~ProcessGroup();  // hangs up, waits the grace, kills
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  Board& board() { return *board_; }
  int ranks() const { return static_cast<int>(children_.size()); }
  int control(int rank) const { return children_.at(static_cast<size_t>(rank)).control; }
  void hang_up();  // no more commands: the ranks read the end of their sockets
  // Looks after the children: notes deaths, and ranks that somebody stopped longer than the timeout and a second ago
  // (peers that wait for such a rank say so first); kills all when a failure is older than the grace. True: all are gone.
  bool reap();
  void wait_all();
  // What can be seen of a rank from outside: "is stopped ...", "runs its own code ...".
  std::string seen_doing(int rank) const;

 private:
  struct Child {
    pid_t pid = 0;
    int control = -1;
    int64_t stopped_at_ns = 0;  // first seen so; 0: it is not
  };
  struct Sockets;
  void open_sockets(Sockets& sockets);
  void start(int rank, const RankOptions& options, const Body& body, Sockets& sockets);
  void release();
  void note_death(int rank, int status);
  void note_stopped();
  void kill_all();

  int64_t timeout_ns_ = 0, looked_at_ns_ = 0, failed_at_ns_ = 0;
  bool killed_ = false;
  std::vector<Child> children_;
  Board* board_ = nullptr;
};

// Both sides of commands: frames [length 8][bytes] on the control socket.
void serve_commands(Transport& transport, int control, const CommandLoop& loop);

}  // namespace weft::transport
