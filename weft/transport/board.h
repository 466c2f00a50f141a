// The board: what all ranks of a job see, whatever carries it (heap for threads, a memfd for processes).
//
// Problem: bootstrap, agreement and failure need a control plane that works before anything else does and that a dead
// rank cannot block. Ways: sockets to a store (a round trip and a server that can die), a mailbox per rank in shared
// memory (mail.h). We take the mailbox: a rank writes only its own, so there is nothing to lock and nothing that a SIGKILL
// can leave locked.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/transport/mail.h"

namespace weft::transport {

enum class RankState : uint32_t { running, done, failed };

struct alignas(64) RankBoard {
  std::atomic<uint32_t> parked;  // 1: sleeps on this word
  std::atomic<uint32_t> state;   // RankState
  std::atomic<int32_t> pid;
  std::atomic<uint32_t> noted;  // 1: `doing` is there
  char doing[1000];             // when a failure found this rank
  alignas(64) Mail mail[2];
};

struct alignas(64) Board {
  static constexpr int64_t message_bytes = 16000;
  alignas(64) std::atomic<uint64_t> abort;
  alignas(64) std::atomic<uint32_t> failure_state;  // 0 none, 1 being written, 2 there
  int32_t failure_kind, failure_rank;
  char failure_message[message_bytes];
  char failure_remedy[1000];
  RankBoard* ranks() { return reinterpret_cast<RankBoard*>(this + 1); }
  static int64_t bytes(int ranks) { return sizeof(Board) + ranks * static_cast<int64_t>(sizeof(RankBoard)); }
};

// First failure wins; sets the abort word and wakes everybody.
void board_raise(Board& board, int ranks, const Failure& failure);
Failure board_failure(Board& board);
void board_note(Board& board, int rank, std::string_view doing);  // the first note of a rank stays

void futex_wake_word(std::atomic<uint32_t>& word);
void futex_wait_word(std::atomic<uint32_t>& word, uint32_t while_value, int64_t at_most_ns);

// What threads and processes share: everything but memory and death.
class BoardTransport : public MailTransport {
 public:
  BoardTransport(Board& board, int rank, int size, const RankOptions& options);
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool mappable(int) const override { return true; }
  const std::atomic<uint64_t>& abort_word() const override { return board_.abort; }
  void raise(const Failure& failure) override { board_raise(board_, size_, failure); }
  Failure failure() const override { return board_failure(board_); }
  void note(std::string_view doing) override { board_note(board_, rank_, doing); }
  std::atomic<uint32_t>& parked(int rank) override { return board_.ranks()[rank].parked; }
  void park(int64_t at_most_ns) override;
  void wake(int rank) override;
  int64_t timeout_ns() const override { return timeout_ns_; }
  bool oversubscribed() const override { return oversubscribed_; }
  void check_peers() override {}

 protected:
  Mail& mail(int rank, uint64_t half) override { return board_.ranks()[rank].mail[half]; }
  Board& board_;
  bool oversubscribed_;

 private:
  int rank_, size_;
  int64_t timeout_ns_;
};

int allowed_core_count();
// This thread to the r-th allowed core (nothing happens where there are fewer).
void pin_to_core(int r);

// Runs body and reports what it throws on the board. Returns whether it ended well.
bool run_rank(Board& board, int ranks, int rank, const std::function<void()>& body);
// For the starter, when all ranks are gone: throws the first failure of the job, if there is one, with what every other
// rank was doing then.
void throw_job_failure(Board& board, int ranks);

}  // namespace weft::transport
