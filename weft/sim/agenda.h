// The events to come. Ranks act on each other only through messages, slots and awaits, which take at least a latency; so
// within a window of that length each rank goes through its own events alone (Chandy and Misra 1979; Lubachevsky's
// bounded lag, CACM 1989). A rank's events fit in a cache line or two, where one heap for all ranks would miss the cache
// at every level: this is where twice the speed of a plain event loop comes from. Internal to the room.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace weft::sim {

using Time = int64_t;  // ps
constexpr Time never = std::numeric_limits<Time>::max();

// Order: time, then `tie`, which names the same thing on every rank, so that what happens at one instant happens in one
// order however the ranks were folded.
struct Entry {
  uint32_t what = 0, tie = 0;
  Time time = 0;
  unsigned __int128 key() const {
    return static_cast<unsigned __int128>(static_cast<uint64_t>(time)) << 64 | uint64_t{tie} << 32 | what;
  }
};

// A binary heap. They are small: a rank's lanes and the links it receives from.
class Heap {
 public:
  bool empty() const { return entries_.empty(); }
  Time next() const { return entries_.empty() ? never : entries_.front().time; }
  const Entry& top() const { return entries_.front(); }
  void push(const Entry& entry) {
    entries_.push_back(entry);
    size_t at = entries_.size() - 1;
    const unsigned __int128 key = entry.key();
    while (at > 0) {
      const size_t parent = (at - 1) / 2;
      if (entries_[parent].key() <= key) break;
      entries_[at] = entries_[parent];
      at = parent;
    }
    entries_[at] = entry;
  }
  void pop() {
    const Entry last = entries_.back();
    entries_.pop_back();
    const size_t size = entries_.size();
    if (size == 0) return;
    const unsigned __int128 key = last.key();
    size_t at = 0;
    for (size_t child = 1; child < size; child = 2 * at + 1) {
      child += child + 1 < size && entries_[child + 1].key() < entries_[child].key();
      if (key <= entries_[child].key()) break;
      entries_[at] = entries_[child];
      at = child;
    }
    entries_[at] = last;
  }

 private:
  std::vector<Entry> entries_;
};

// One heap a rank, and when each has its next event.
class Agenda {
 public:
  Agenda(size_t ranks, Time lookahead) : heaps_(ranks), next_(ranks, never), lookahead_(std::max<Time>(1, lookahead)) {}
  void push(uint32_t rank, const Entry& entry) {
    heaps_[rank].push(entry);
    next_[rank] = std::min(next_[rank], entry.time);
  }
  Time window_begin() const { return window_; }
  Time window_end() const { return window_ > never - lookahead_ ? never : window_ + lookahead_; }
  // The next window begins with the first event of all, or at `other` if that is earlier. Calls act(entry) for every
  // event in it, those of one rank in order. False when there are none left and `other` is never.
  template <typename Act>
  bool window(Act&& act, Time other = never) {
    Time first = other;
    for (const Time t : next_) first = std::min(first, t);
    if (first == never) return false;
    window_ = first;
    const Time end = window_end();
    for (uint32_t rank = 0; rank < next_.size(); ++rank) {
      if (next_[rank] >= end) continue;
      Heap& heap = heaps_[rank];
      while (heap.next() < end) {
        const Entry entry = heap.top();
        heap.pop();
        act(entry);
      }
      next_[rank] = heap.next();
    }
    return true;
  }

 private:
  std::vector<Heap> heaps_;
  std::vector<Time> next_;
  Time lookahead_, window_ = 0;
};

}  // namespace weft::sim
