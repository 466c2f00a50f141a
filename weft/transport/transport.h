// Transport: memory that peers can see, a slow control plane, and the word that ends everything.
//
// A link of a plan is a ring of slots in memory with a flag per slot, an await is a word that a peer pushes. So what
// the runtime needs from a transport is small: blocks of memory allocated by all ranks together and mapped by peers
// (`Window`), an exchange of small strings for bootstrap and agreement, and an abort word that reaches every rank.
// Threads share an address space; processes map memfds that are passed over Unix sockets: no names in /dev/shm, so
// nothing can leak after SIGKILL. Where memory is not shared, every rank has its own copy of a mirrored window's blocks,
// and `put` makes a piece of one equal at a peer: links and pushed words stay what they are, plans that map are refused.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"

namespace weft::transport {

// One block per rank, allocated by all of them in the same call. Zero-filled, 4096-aligned (2 MiB from that size on).
struct Window : std::enable_shared_from_this<Window> {
  virtual ~Window() = default;
  std::vector<std::byte*> at;  // at[q]: rank q's block as mapped here; null where not mappable
  int64_t bytes = 0;           // of each block (the same on all ranks)
};

// A piece of the block of rank `owner`, copied from here to the same place in the copy that rank `to` has. Offsets and
// bytes are multiples of 8. The body is there before the head's first word, and the head's words are stored in order,
// with release. The head is taken when put() is called; the body must stand still until the receiver has answered.
struct Put {
  int owner = 0, to = 0;
  int64_t head = 0, head_bytes = 0;
  int64_t body = 0, body_bytes = 0;
  bool late = false;  // may wait until the next put to that rank, or flush(true)
};

// The first failure of a job, readable by every rank after the abort word is set.
struct Failure {
  ErrorKind kind = ErrorKind::internal;
  int rank = -1;
  std::string message;
  std::string remedy = {};
};

// What an error says, for the others: its message with place and rule, and its remedy.
Failure failure_of(const Error& error, int rank);

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual bool mappable(int peer) const = 0;
  virtual std::string_view name() const = 0;  // "threads", "processes"

  // Collective; every rank names the same `what` and bytes, else Error(agreement) on all. Too little memory: Error(io)
  // with need, free and remedy, before anything is touched.
  virtual std::shared_ptr<Window> allocate(int64_t bytes, std::string_view what) = 0;

  // The same, where at[q] of a peer that is not mappable is a copy of its block, made equal by put(). Collective.
  virtual std::shared_ptr<Window> allocate_mirrored(int64_t bytes, std::string_view what) {
    return allocate(bytes, what);
  }
  virtual bool mirrors() const { return false; }  // some peer is not mappable: who waits must call progress()
  virtual void put(Window&, const Put&) {}        // never waits for a peer that does not take; failures are raised
  virtual bool progress() { return false; }       // takes what has come, sends what had to wait; true: something moved
  // Whether all that was put has left this rank (with `late_too`, what may wait as well).
  virtual bool flush(bool /*late_too*/) { return true; }

  // All-gather of small strings; a peer that does not come within the deadline: Error(timeout) that names it.
  virtual std::vector<std::string> exchange(std::string_view mine, std::string_view what) = 0;
  virtual void barrier(std::string_view what) = 0;

  // Nonzero once any rank failed or died. Every wait polls it; it lies in memory of its own line.
  virtual const std::atomic<uint64_t>& abort_word() const = 0;
  virtual void raise(const Failure& failure) = 0;  // the first one wins; returns at once
  virtual Failure failure() const = 0;             // after the abort word is set
  // What this rank was doing when the failure of another one found it; the job's error shows it for every rank.
  virtual void note(std::string_view doing) = 0;

  // A rank that has spun long enough parks on its own word; who publishes something for it wakes it. A lost wake costs
  // at most the park's own bound (1 ms), so no fence is needed on the fast path.
  virtual std::atomic<uint32_t>& parked(int rank) = 0;
  virtual void park(int64_t at_most_ns) = 0;
  virtual void wake(int rank) = 0;

  virtual int64_t timeout_ns() const = 0;  // of every wait (WEFT_TIMEOUT_S)

  // More ranks than cores: who waits gives the core away at once instead of spinning.
  virtual bool oversubscribed() const = 0;
  // Called by long waits, every few milliseconds: notices peers that died (raises) and a parent that died (ends this
  // process). Cheap enough for every slow round: it looks at most every 20 ms.
  virtual void check_peers() = 0;
};

// Throws what `transport.failure()` says, as seen by a rank that was `doing` something: agreement, timeout and peer
// stay what they are, any other kind becomes `peer` ("rank 2 failed: ...").
[[noreturn]] void throw_failure(Transport& transport, std::string_view doing);
// What to do about a wait that was too long: names WEFT_TIMEOUT_S with its value, or, where the limit came from elsewhere,
// the limit.
std::string timeout_remedy(int64_t limit_ns);

// Grows in a child that this process forks (fork() only), so that who keeps the value of his birth sees in one load that
// he is a copy in another process.
uint32_t forks_above();
// Error(user): memory and peers of `what` belong to the process that made it, this is a fork of it.
[[noreturn]] void throw_forked(std::string_view what);

// Touches the pages now, so that no launch pays for them.
void prefault(void* data, int64_t bytes);

// ---- starting ranks. Both return when all ranks are done and throw the first failure as an Error.
struct RankOptions {
  bool pin = true;         // rank r to the r-th allowed core (when ranks <= cores)
  int64_t timeout_ns = 0;  // 0: WEFT_TIMEOUT_S
};
// `body` runs once per rank. Processes are forked, so the caller must have no other thread: Error(user) if it has (a
// forked copy of a lock that such a thread holds is never released). Pools of OpenMP are asked to end first. Ranks end
// with their parent (SIGKILL of the parent included), and the death of one ends all within 2 s.
void run_processes(int ranks, const std::function<void(Transport&)>& body, const RankOptions& options = {});
void run_threads(int ranks, const std::function<void(Transport&)>& body, const RankOptions& options = {});

// The parent's side of a running job, for programs that command their ranks (tuner): strings down, strings up.
class Job {
 public:
  virtual ~Job() = default;
  virtual int ranks() const = 0;
  virtual void send(int rank, std::string_view text) = 0;
  virtual std::string receive(int rank, int64_t timeout_ns) = 0;  // throws the job's failure if there is one
  virtual void finish() = 0;                                      // waits for the ranks; throws the first failure
};
// The rank's side: command(text) -> answer, until the parent hangs up or finishes.
using CommandLoop = std::function<std::string(Transport&, std::string_view)>;
std::unique_ptr<Job> start_processes(int ranks, const std::function<CommandLoop(Transport&)>& make,
                                     const RankOptions& options = {});
std::unique_ptr<Job> start_threads(int ranks, const std::function<CommandLoop(Transport&)>& make,
                                   const RankOptions& options = {});

}  // namespace weft::transport
