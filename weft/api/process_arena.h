// An arena that belongs to a process, not to a communicator: memory that is mapped in every job this process joins.
//
// Problem: a framework allocates before a communicator is there, uses several in turn or at once, and frees when they are
// gone; memory of one communicator's arena would end with it. Ways: an arena per communicator and copies between them, or
// one arena per process, whose file every communicator hands to its ranks when it is made. We take the latter.
//
// Fork: shared memory is not copied by fork(), so a child (a data loader's worker) would write into its parent's tensors.
// In a child the same file is mapped again at the same place, private; it allocates nothing there and frees nothing.
// Pages that neither has written since the fork show what the parent writes there: as long as a child reads a tensor, the
// parent should leave it alone.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "weft/api/collectives_memory.h"
#include "weft/transport/mapping.h"
#include "weft/transport/socket.h"

namespace weft::api {

class ProcessArena {
 public:
  // Reserves, and uses nothing until it is touched. Error(io) where the system has no such room.
  explicit ProcessArena(int64_t bytes);
  ~ProcessArena();
  ProcessArena(const ProcessArena&) = delete;
  ProcessArena& operator=(const ProcessArena&) = delete;
  void* allocate(int64_t bytes);  // as Arena's; the first time that there is no room is said (WEFT_DEBUG=info)
  Arena& blocks() { return blocks_; }
  bool is_copy() const { return copy_; }                     // of another process's
  const std::string& identity() const { return identity_; }  // no other arena has it
  int file() const { return file_.get(); }
  std::byte* base() const { return mapping_.data(); }
  int64_t bytes() const { return mapping_.bytes(); }
  void become_copy();  // in a forked child

 private:
  transport::Fd file_;
  transport::Mapping mapping_;
  Arena blocks_;
  std::string identity_;
  bool copy_ = false;
  std::atomic<bool> said_ = false;
};

// A peer's, mapped once for all communicators of this process. identity, bytes: as the peer told.
std::shared_ptr<transport::Mapping> mapped_arena(const std::string& identity, int64_t bytes, const transport::Fd& file);

// WEFT_ARENA, else the memory of this machine, 64 GiB at most. 0: none is wanted.
int64_t process_arena_bytes();

}  // namespace weft::api
