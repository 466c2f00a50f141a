// Passing memory, and looking after the other processes (host.h).
#include "weft/transport/host.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/transport/mapping.h"
#include "weft/transport/wait.h"

namespace weft::transport {
namespace {

constexpr int64_t look_every_ns = 20'000'000;

struct HostWindow : Window {
  std::unique_ptr<Mapping> mapping;
};

// A zombie counts as gone: nobody will answer.
bool process_gone(pid_t pid) {
  const Fd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  // No such process; else no such call in this kernel, or no descriptor left: then zombies count as alive.
  if (fd.get() < 0) return errno == ESRCH || (kill(pid, 0) != 0 && errno == ESRCH);
  pollfd look{fd.get(), POLLIN, 0};
  return poll(&look, 1, 0) == 1;
}

}  // namespace

const char* const death_says_why = "its own output says why; all ranks must be started again";

HostTransport::HostTransport(Board& board, int rank, int size, const RankOptions& options, std::vector<Fd> sockets)
    : BoardTransport(board, rank, size, options), sockets_(std::move(sockets)) {}

std::shared_ptr<Window> HostTransport::allocate(int64_t bytes, std::string_view what) {
  agree_on_allocation(bytes, what);
  const int64_t block = rounded_block_bytes(bytes);
  auto window = std::make_shared<HostWindow>();
  window->bytes = bytes;
  ++allocation_;
  std::string problem;
  try {
    const Fd fd = rank() == 0 ? make_and_pass(block * size(), what) : receive(block * size(), what);
    window->mapping = std::make_unique<Mapping>(fd.get(), block * size(), what);
    for (int peer = 0; peer < size(); ++peer) window->at.push_back(window->mapping->data() + block * peer);
  } catch (const Error& error) { problem = error.what(); }
  agree_on_success(problem, what);
  return window;
}

Fd HostTransport::make_and_pass(int64_t bytes, std::string_view what) {
  int told = 0;  // ranks that have an answer
  try {
    Fd fd(sealed_memfd(bytes, what));
    for (int peer = 1; peer < size(); ++peer) {
      send_descriptor(sockets_[static_cast<size_t>(peer)].get(), fd.get(), allocation_);
      told = peer;
    }
    return fd;
  } catch (const Error&) {
    for (int peer = told + 1; peer < size(); ++peer) try {
        send_no_descriptor(sockets_[static_cast<size_t>(peer)].get(), allocation_);
      } catch (const Error&) {}  // that rank is gone: others see it
    throw;
  }
}

Fd HostTransport::receive(int64_t bytes, std::string_view what) {
  int got = -1;
  const Waited waited =
      wait_until(*this, timeout_ns(), [&] { return (got = receive_descriptor(sockets_[0].get(), allocation_)) >= 0; });
  Fd fd(got);
  if (waited == Waited::aborted) throw_failure(*this, fmt::format("waiting for memory of rank 0 for {}", what));
  if (waited == Waited::late)
    throw Error(ErrorKind::timeout,
                fmt::format("rank {} waited {} for memory of rank 0 for {}", rank(),
                            human_ns(static_cast<double>(timeout_ns())), what),
                timeout_remedy(timeout_ns()));
  check_sealed(fd.get(), bytes, what);
  return fd;
}

void HostTransport::check_peers() {
  const int64_t now = now_ns();
  if (now - looked_at_ns_ < look_every_ns) return;
  looked_at_ns_ = now;
  check_parent();
  for (int peer = 0; peer < size(); ++peer) {
    const RankBoard& theirs = board_.ranks()[peer];
    const pid_t pid = theirs.pid.load(std::memory_order_acquire);
    if (peer == rank() || pid == 0 || !process_gone(pid)) continue;
    if (theirs.state.load(std::memory_order_acquire) != static_cast<uint32_t>(RankState::running)) continue;
    // Who started it knows how it died, and is heard as soon as it speaks.
    for (const int64_t until = now_ns() + parent_speaks_within_ns(); now_ns() < until; usleep(1000))
      if (abort_word().load(std::memory_order_acquire)) break;
    if (!abort_word().load(std::memory_order_acquire))
      raise({ErrorKind::peer, peer, fmt::format("rank {} (process {}) died", peer, pid), death_says_why});
  }
}

}  // namespace weft::transport
