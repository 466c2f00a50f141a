// Ranks of one host that are processes: their memory, and the deaths among them. Forked ranks and ranks that were started
// separately differ only in how they met.
//
// Memory of all ranks is one file without a name. Ways to let the others map it: inherit it (only what is there before the
// fork), /proc/PID/fd (a permission of its own), or its descriptor over a Unix socket. We take the last: rank 0 makes the
// file and hands it to each; where it cannot, it says so over the same socket, since who waits for a descriptor that never
// comes waits for the deadline.
#pragma once

#include <vector>

#include "weft/transport/board.h"
#include "weft/transport/socket.h"

namespace weft::transport {

class HostTransport : public BoardTransport {
 public:
  // Sockets (SOCK_SEQPACKET): on rank 0 to each rank at its number, on the others the one to rank 0 at 0.
  HostTransport(Board& board, int rank, int size, const RankOptions& options, std::vector<Fd> sockets);
  std::string_view name() const override { return "processes"; }
  std::shared_ptr<Window> allocate(int64_t bytes, std::string_view what) override;
  void check_peers() override;

 protected:
  // Looked at before the peers are: a parent whose end is this rank's. And how long a parent that knows the signal of a
  // death may take to say it.
  virtual void check_parent() {}
  virtual int64_t parent_speaks_within_ns() const { return 0; }

 private:
  Fd make_and_pass(int64_t bytes, std::string_view what);
  Fd receive(int64_t bytes, std::string_view what);

  std::vector<Fd> sockets_;
  uint64_t allocation_ = 0;
  int64_t looked_at_ns_ = 0;
};

extern const char* const death_says_why;  // the remedy where only that a rank is gone is known

}  // namespace weft::transport
