// Things to do or say once for a job, not once for each of its ranks.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

// True for the first caller among this process and all processes forked from it after the program began. Ranks that
// were started one by one, by another launcher, each have their own first time.
class OncePerJob {
 public:
  OncePerJob();
  bool first() { return said_->exchange(1, std::memory_order_relaxed) == 0; }
  void forget() { said_->store(0, std::memory_order_relaxed); }  // tests

 private:
  std::atomic<uint32_t> alone_{0};  // where no page can be shared
  std::atomic<uint32_t>* said_ = &alone_;
};

OncePerJob& evaluating_said();    // kernels are evaluated, not compiled
OncePerJob& compiling_said();     // compilation takes long
OncePerJob& timeline_begun();     // the file of WEFT_TIMELINE was emptied
OncePerJob& timeline_cut_said();  // it would have become too large

}  // namespace weft
