// Exchange, failure and parking over the board (board.h).
#include "weft/transport/board.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

#include "weft/base/env.h"
#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/transport/wait.h"

namespace weft::transport {
void futex_wake_word(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, 1 << 20, nullptr, nullptr, 0);
}

void futex_wait_word(std::atomic<uint32_t>& word, uint32_t while_value, int64_t at_most_ns) {
  timespec time{at_most_ns / 1'000'000'000, at_most_ns % 1'000'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, while_value, &time, nullptr, 0);
}

void board_raise(Board& board, int ranks, const Failure& failure) {
  uint32_t none = 0;
  if (board.failure_state.compare_exchange_strong(none, 1)) {
    board.failure_kind = static_cast<int32_t>(failure.kind);
    board.failure_rank = failure.rank;
    copy_text(board.failure_message, Board::message_bytes, failure.message);
    copy_text(board.failure_remedy, sizeof board.failure_remedy, failure.remedy);
    board.failure_state.store(2, std::memory_order_release);
  } else {  // the winner may die while it writes: then its failure is lost, the abort is not
    for (int i = 0; i < 100 && board.failure_state.load(std::memory_order_acquire) != 2; ++i) usleep(1000);
  }
  board.abort.store(1, std::memory_order_release);
  for (int rank = 0; rank < ranks; ++rank) {
    board.ranks()[rank].parked.store(0, std::memory_order_relaxed);
    futex_wake_word(board.ranks()[rank].parked);
  }
}

Failure board_failure(Board& board) {
  for (int i = 0; i < 100 && board.failure_state.load(std::memory_order_acquire) == 1; ++i) usleep(1000);
  if (board.failure_state.load(std::memory_order_acquire) != 2)
    return {ErrorKind::peer, -1, "a rank died while it reported a failure"};
  return {static_cast<ErrorKind>(board.failure_kind), board.failure_rank, board.failure_message, board.failure_remedy};
}

void board_note(Board& board, int rank, std::string_view doing) {
  RankBoard& mine = board.ranks()[rank];
  if (doing.empty() || mine.noted.load(std::memory_order_acquire)) return;
  copy_text(mine.doing, sizeof mine.doing, doing);
  mine.noted.store(1, std::memory_order_release);
}

std::string timeout_remedy(int64_t limit_ns) {
  const bool of_environment = limit_ns == env_int("WEFT_TIMEOUT_S") * 1'000'000'000;
  return fmt::format("is that rank stopped, much slower, or not calling this at all? raise {} if it only needs longer",
                     of_environment ? fmt::format("WEFT_TIMEOUT_S (now {})", env("WEFT_TIMEOUT_S"))
                                    : fmt::format("the time limit that these ranks were given (now {})",
                                                  human_ns(static_cast<double>(limit_ns))));
}

BoardTransport::BoardTransport(Board& board, int rank, int size, const RankOptions& options)
    : board_(board),
      oversubscribed_(size > allowed_core_count()),
      rank_(rank),
      size_(size),
      timeout_ns_(options.timeout_ns > 0 ? options.timeout_ns : env_int("WEFT_TIMEOUT_S") * 1'000'000'000) {}

void BoardTransport::park(int64_t at_most_ns) {
  std::atomic<uint32_t>& word = board_.ranks()[rank_].parked;
  word.store(1, std::memory_order_seq_cst);
  if (!board_.abort.load(std::memory_order_acquire)) futex_wait_word(word, 1, std::min<int64_t>(at_most_ns, 1'000'000));
  word.store(0, std::memory_order_relaxed);
}

void BoardTransport::wake(int rank) {
  std::atomic<uint32_t>& word = board_.ranks()[rank].parked;
  if (word.exchange(0, std::memory_order_relaxed)) futex_wake_word(word);
}

int allowed_core_count() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

void pin_to_core(int r) {
  cpu_set_t set, one;
  if (sched_getaffinity(0, sizeof set, &set) != 0 || r >= CPU_COUNT(&set)) return;
  for (int core = 0, seen = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &set) || seen++ != r) continue;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

Failure failure_of(const Error& error, int rank) {
  std::string_view text = error.what(), remedy = error.remedy();
  if (!remedy.empty() && text.ends_with(remedy)) text.remove_suffix(remedy.size());
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  return {error.kind(), rank, std::string(text), std::string(remedy)};
}

namespace {

// What a rank's function threw.
Failure caught(int rank) {
  try {
    throw;
  } catch (const Error& error) { return failure_of(error, rank); } catch (const std::bad_alloc&) {
    return {ErrorKind::io, rank, "out of memory", "use smaller sizes or fewer ranks, or free memory"};
  } catch (const std::exception& error) { return {ErrorKind::internal, rank, error.what()}; } catch (...) {
    return {ErrorKind::internal, rank, "an exception that is no std::exception"};
  }
}

constexpr int lines_of_waits = 16;

std::string waits_of_others(Board& board, int ranks, int but) {
  std::string text;
  int shown = 0, more = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankBoard& it = board.ranks()[rank];
    if (rank == but || !it.noted.load(std::memory_order_acquire)) continue;
    if (shown++ < lines_of_waits)
      text += fmt::format("\n    (rank {} was {})", rank, it.doing);
    else
      ++more;
  }
  return more ? text + fmt::format("\n    (and {} ranks more)", more) : text;
}

}  // namespace

bool run_rank(Board& board, int ranks, int rank, const std::function<void()>& body) {
  const uint32_t born = forks_above();
  // A copy of this rank that user code forked and let come back here must not speak for it.
  const auto leave_if_copy = [&](int status) {
    if (forks_above() != born) std::fflush(nullptr), _exit(status);
  };
  try {
    body();
    leave_if_copy(0);
    board.ranks()[rank].state.store(static_cast<uint32_t>(RankState::done), std::memory_order_release);
    return true;
  } catch (...) {
    const Failure failure = caught(rank);
    if (forks_above() != born)
      std::fprintf(stderr, "weft: a fork of rank %d failed: %s\n", rank, failure.message.c_str());
    leave_if_copy(1);
    board_raise(board, ranks, failure);
  }
  board.ranks()[rank].state.store(static_cast<uint32_t>(RankState::failed), std::memory_order_release);
  return false;
}

void throw_job_failure(Board& board, int ranks) {
  if (!board.abort.load(std::memory_order_acquire)) return;
  const Failure failure = board_failure(board);
  const bool names_itself =
      failure.kind == ErrorKind::agreement || failure.kind == ErrorKind::timeout || failure.kind == ErrorKind::peer;
  const std::string what =
      names_itself || failure.rank < 0 ? failure.message : fmt::format("rank {}: {}", failure.rank, failure.message);
  const bool others_matter = failure.kind == ErrorKind::timeout || failure.kind == ErrorKind::peer;
  throw Error(failure.kind, others_matter ? what + waits_of_others(board, ranks, failure.rank) : what, failure.remedy);
}

}  // namespace weft::transport
