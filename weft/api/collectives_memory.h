// Memory that peers map: symmetric blocks, and an arena per rank from which ordinary buffers are cut.
//
// Problem: a collective over memory that peers can read in place is up to twice as fast as one through links, but
// programs allocate where they like. Ways: registration (a kernel module, or cross-memory attach per call), symmetric
// allocation (collective, a burden), or an arena: one sparse block per rank that all map whole, once; a pointer into it
// is then (region, offset), and every block cut from it is visible without a message. Offsets differ from rank to rank,
// so they travel in the call's header (collectives_meet.h). The block is a memfd: nothing is named, nothing can leak.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "weft/api/collectives_meet.h"

namespace weft::api {

class Arena {
 public:
  // kept_bytes: of released memory that may keep its pages; beyond, all of it goes back to the system.
  Arena(std::byte* base, int64_t bytes, int64_t kept_bytes = 0);
  void* allocate(int64_t bytes);  // 64-aligned, 4096 from a page on, 2 MiB from that on; null: full
  void release(void* memory);     // Error(user) for what is not from here; whole pages go back to the system
  bool holds(const void* memory) const { return memory >= base_ && memory < base_ + bytes_; }
  int64_t used_bytes() const;

  // Nobody allocates or releases in between (a fork).
  void hold() { mutex_.lock(); }
  void let_go() { mutex_.unlock(); }
  void retire() { retired_ = true; }  // while held: from now on it is full, and what is released stays as it is

 private:
  void give_back(int64_t begin, int64_t bytes);
  void keep_or_give_back(int64_t begin, int64_t bytes);

  std::byte* base_;
  int64_t bytes_, kept_bytes_, dirty_bytes_ = 0;
  bool retired_ = false;
  mutable std::mutex mutex_;                // frameworks allocate from any thread
  std::map<int64_t, int64_t> free_, used_;  // offset -> bytes
};

class ProcessArena;

class Regions {
 public:
  // parent: of the communicator that was split, whose memory its groups may use; members: this group's ranks there.
  explicit Regions(runtime::Communicator& communicator, std::shared_ptr<Regions> parent = nullptr,
                   std::vector<int> members = {});
  // Collective.
  void* allocate(int64_t bytes);
  void release(void* base);                         // Error(user) for what allocate() did not give
  uint64_t releases() const { return *releases_; }  // so far, in the family of communicators that splits made of one
  void reserve_arena(int64_t bytes);
  // This process's own, mapped by all; where a rank has none (null) or is on another host, nobody's is. Collective.
  void share_arena(std::shared_ptr<ProcessArena> arena);
  Arena* arena();
  Place find(const void* memory, int64_t bytes) const;  // region 0: private
  bool is_at(const void* base) const;
  std::byte* address(const Place& place, int rank) const;  // of that rank's memory here; null: not mapped
  // Where the buffers of all ranks lie as mapped here, as a window that binding understands.
  std::shared_ptr<transport::Window> window(const std::vector<Place>& places, int64_t bytes) const;

 private:
  struct Region {
    uint32_t id = 0;
    const std::byte* base = nullptr;
    int64_t bytes = 0;
    std::shared_ptr<transport::Window> window;
    bool mapped = true;  // by all ranks: over a network it is memory like any other
  };
  // Where the block lies of this communicator's `rank`, also in a region of a parent's.
  std::byte* block(uint32_t id, int rank, std::shared_ptr<transport::Window>& keep) const;
  void add(std::shared_ptr<transport::Window> window, int64_t bytes);
  uint32_t free_id() const;

  // Numbers of regions in a header: a level of splitting, and a number in it.
  static constexpr int number_bits = 13, most_levels = 8;
  static constexpr uint32_t most_numbers = (1u << number_bits) - 1;

  runtime::Communicator& communicator_;
  std::shared_ptr<Regions> parent_;
  std::shared_ptr<std::atomic<uint64_t>> releases_;  // of the whole family; groups may be at work in other threads
  std::vector<int> members_;
  uint32_t level_ = 0;
  std::vector<Region> regions_;
  std::unique_ptr<Arena> arena_;
  std::shared_ptr<ProcessArena> shared_;
};

}  // namespace weft::api
