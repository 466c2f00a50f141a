// Meeting: what ranks tell each other about a call before it runs, in one cache line each.
//
// Problem: peers can read a buffer in place only if they know where it lies, every rank must take the same plan, and
// ranks that call different things must find out instead of hanging. Ways: a barrier with a message per call (slow), or
// trust. Here every rank writes a header of one line per call into memory that peers map; who needs to know (large
// calls, calls without data) waits until the headers of all are there: one hop. Small calls go over links whatever
// their memory is and do not wait: the launch's own tags carry the agreement (docs/runtime.md).
//
// A line is used again after `history` calls. Every `history / 2`-th call meets, whatever its size: who has met call k
// knows that all others have read everything before k, so nobody overwrites what a slow peer has still to read.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "weft/api/collectives.h"

namespace weft::api {

// Where a buffer lies: region 0 is private memory, others were allocated by all ranks together.
struct Place {
  uint32_t region = 0;
  int64_t offset = 0;
  bool operator==(const Place&) const = default;
};

struct CallHeader {
  Operation operation = Operation::barrier;
  Dtype dtype = Dtype::f32;
  Combine combine = Combine::sum;
  bool in_place = false;  // not agreed
  bool uneven = false;    // parts differ: where each rank knows its own only, the count is that and is not agreed
  int root = 0;
  int64_t count = 0;
  uint64_t counts_hash = 0;  // uneven all_to_all: what all ranks' add up to 0 of (pair_sums)
  Place send, recv;          // not agreed
  bool agrees(const CallHeader& other) const;
  std::string text() const;
};

class Meeting {
 public:
  static constexpr uint64_t history = 64;
  explicit Meeting(runtime::Communicator& communicator);  // collective

  // The next call: stored where peers see it. Its number, from 1.
  uint64_t publish(const CallHeader& header);
  bool must_meet() const { return sequence_ % (history / 2) == 0; }
  // All headers of the present call, if they are there. Throws Error(agreement), raised on all ranks, where they
  // differ.
  bool arrived();
  // Waits for that: Error(timeout) names who is missing and its last calls.
  void wait();
  const std::vector<CallHeader>& headers() const { return headers_; }
  uint64_t sequence() const { return sequence_; }
  // "rank 1: call 7 broadcast f32, 4 elements, root 0; call 6 ...", of the last few.
  std::string last_calls(int rank) const;
  std::string last_calls() const;  // of all ranks, a line each
  // What a rank says whose deadline has passed here: who has not come.
  std::string waiting(int64_t waited_ns) const;

 private:
  struct alignas(64) Line {
    std::atomic<uint64_t> what, count, send, recv, counts_hash, unused[2], sequence;  // last where mirrored
  };
  using Lines = std::array<Line, history>;
  static_assert(sizeof(Line) == 64);
  Lines& lines(int rank) const { return *reinterpret_cast<Lines*>(window_->at[static_cast<size_t>(rank)]); }
  static CallHeader read(const Line& line);
  void show(const Line& line);  // to peers that do not map it
  void compare(int peer);
  void require_whole(int peer);

  runtime::Communicator& communicator_;
  std::shared_ptr<transport::Window> window_;
  std::vector<CallHeader> headers_;
  std::vector<bool> seen_;
  bool mirrors_ = false;
  int missing_ = 0;
  uint64_t sequence_ = 0;
};

}  // namespace weft::api
