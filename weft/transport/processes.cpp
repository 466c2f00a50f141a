// Starting, watching and ending ranks that are processes (processes.h).
//
// Who dies must be noticed by all within 2 s and nothing may stay: the parent reaps and kills; a rank gets SIGKILL when
// its parent dies (PR_SET_PDEATHSIG); ranks look after one another through pidfds in their long waits, since a parent
// that commands its ranks may itself be busy. A child leaves by _exit: the parent's atexit handlers are not its own.
#include "weft/transport/processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <tuple>
#include <utility>

#include "weft/base/env.h"
#include "weft/base/file.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/transport/fork.h"
#include "weft/transport/host.h"
#include "weft/transport/wait.h"

namespace weft::transport {
namespace {

constexpr int64_t grace_ns = 1'200'000'000;          // from the first failure to SIGKILL
constexpr int64_t look_every_ns = 100'000'000;       // for ranks that are stopped
constexpr int64_t stopped_after_ns = 1'000'000'000;  // beyond the timeout: peers that wait know more

std::string death_remedy(int signal) {
  switch (signal) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
      return "a fault in that rank's own code or in Weft: `ulimit -c unlimited` keeps a core for a debugger; "
             "WEFT_VERIFY=1 "
             "and WEFT_NO_COMPILER=1 narrow it down";
    case SIGKILL:
      return "was it ended by hand, by a batch system, or for want of memory (dmesg | grep -i oom)? then use smaller "
             "sizes or fewer ranks";
    case 0: return death_says_why;
    default: return "somebody asked it to end; all ranks must be started again";
  }
}

class ProcessTransport final : public HostTransport {
 public:
  ProcessTransport(Board& board, int rank, int size, const RankOptions& options, std::vector<Fd> sockets, pid_t parent)
      : HostTransport(board, rank, size, options, std::move(sockets)), parent_(parent) {}

 protected:
  void check_parent() override {
    if (getppid() != parent_) _exit(2);
  }
  int64_t parent_speaks_within_ns() const override { return 500'000'000; }

 private:
  pid_t parent_;
};

// As /proc says it: R running, S sleeping, T stopped by a signal, t by a debugger ...; ? where it cannot be read.
char state_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string stat((std::istreambuf_iterator<char>(file)), {});
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && name_end + 2 < stat.size() ? stat[name_end + 2] : '?';
}

void close_all(std::vector<int>& fds) {
  for (int& fd : fds)
    if (fd >= 0) close(fd), fd = -1;
}

std::pair<int, int> socket_pair(int type) {
  int ends[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(ErrorKind::io, fmt::format("cannot make a socket for a rank: {}", std::strerror(errno)),
                "raise the limit of open files (ulimit -n)");
  return {ends[0], ends[1]};
}

[[noreturn]] void child_main(Board& board, int rank, int ranks, const RankOptions& options, pid_t parent,
                             std::vector<Fd> passing, int control, const ProcessGroup::Body& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(2);  // it died before prctl
  board.ranks()[rank].pid.store(getpid(), std::memory_order_release);
  set_log_rank(rank);
  const bool ended_well = run_rank(board, ranks, rank, [&] {
    ProcessTransport transport(board, rank, ranks, options, std::move(passing), parent);
    if (options.pin && ranks <= allowed_core_count()) pin_to_core(rank);
    body(transport, control);
  });
  std::fflush(nullptr);
  _exit(ended_well ? 0 : 1);
}

}  // namespace

struct ProcessGroup::Sockets {  // closes what it still has
  ~Sockets() { close_all(near), close_all(far), close_all(control); }
  std::vector<int> near, far, control;  // rank 0's ends and the others' ends for memory; the ranks' ends for commands
};

ProcessGroup::ProcessGroup(int ranks, const RankOptions& options, const Body& body) {
  if (ranks < 1) throw Error(ErrorKind::user, fmt::format("{} ranks cannot be started", ranks), "one at least");
  check_environment();
  require_one_thread();
  timeout_ns_ = options.timeout_ns > 0 ? options.timeout_ns : env_int("WEFT_TIMEOUT_S") * 1'000'000'000;
  void* memory = mmap(nullptr, static_cast<size_t>(Board::bytes(ranks)), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(ErrorKind::io, fmt::format("no memory for the board of {} ranks: {}", ranks, std::strerror(errno)));
  board_ = new (memory) Board{};
  for (int rank = 0; rank < ranks; ++rank) new (&board_->ranks()[rank]) RankBoard{};
  children_.resize(static_cast<size_t>(ranks));
  Sockets sockets;
  try {
    open_sockets(sockets);
    std::fflush(nullptr);  // else a child would print what the parent has in its buffers
    for (int rank = 0; rank < ranks; ++rank) start(rank, options, body, sockets);
  } catch (const Error& error) {
    board_raise(*board_, ranks, {error.kind(), -1, error.what()});
    kill_all();
    wait_all();
    release();
    throw;
  }
}

void ProcessGroup::open_sockets(Sockets& sockets) {
  sockets.near.assign(children_.size(), -1);
  sockets.far = sockets.control = sockets.near;
  for (size_t rank = 1; rank < children_.size(); ++rank)
    std::tie(sockets.near[rank], sockets.far[rank]) = socket_pair(SOCK_SEQPACKET);
  for (size_t rank = 0; rank < children_.size(); ++rank)
    std::tie(children_[rank].control, sockets.control[rank]) = socket_pair(SOCK_STREAM);
}

void ProcessGroup::start(int rank, const RankOptions& options, const Body& body, Sockets& sockets) {
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0)
    throw Error(ErrorKind::io, fmt::format("cannot start rank {}: {}", rank, std::strerror(errno)),
                "is the limit of processes (ulimit -u) reached?");
  const auto r = static_cast<size_t>(rank);
  if (pid > 0) {
    children_[r].pid = pid;
    close(std::exchange(sockets.control[r], -1));
    return;
  }
  std::vector<Fd> passing;
  if (rank == 0)
    for (int& fd : sockets.near) passing.emplace_back(std::exchange(fd, -1));
  else
    passing.emplace_back(std::exchange(sockets.far[r], -1));
  const int control = std::exchange(sockets.control[r], -1);
  close_all(sockets.near), close_all(sockets.far), close_all(sockets.control);
  for (Child& child : children_) close(child.control);
  child_main(*board_, rank, ranks(), options, parent, std::move(passing), control, body);
}

void ProcessGroup::release() {
  for (Child& child : children_)
    if (child.control >= 0) close(child.control);
  munmap(board_, static_cast<size_t>(Board::bytes(ranks())));
}

ProcessGroup::~ProcessGroup() {
  hang_up();
  const int64_t begin = now_ns();
  while (!reap() && now_ns() - begin < grace_ns) usleep(1000);
  kill_all();
  wait_all();
  release();
}

void ProcessGroup::hang_up() {
  for (Child& child : children_) shutdown(child.control, SHUT_WR);
}

void ProcessGroup::kill_all() {
  for (Child& child : children_)
    if (child.pid > 0) kill(child.pid, SIGKILL);
}

void ProcessGroup::note_death(int rank, int status) {
  if (board_->ranks()[rank].state.load(std::memory_order_acquire) != static_cast<uint32_t>(RankState::running)) return;
  const std::string how =
      WIFSIGNALED(status) ? fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                          : fmt::format("left with exit status {} before its work was done", WEXITSTATUS(status));
  board_raise(*board_, ranks(),
              {ErrorKind::peer, rank, fmt::format("rank {} {}", rank, how),
               death_remedy(WIFSIGNALED(status) ? WTERMSIG(status) : 0)});
}

std::string ProcessGroup::seen_doing(int rank) const {
  const pid_t pid = children_.at(static_cast<size_t>(rank)).pid;
  if (pid <= 0) return "is gone";
  const char state = state_of(pid);
  if (state == 'T' || state == 't')
    return fmt::format("is stopped (process {}: SIGSTOP, or a debugger); kill -CONT {} lets it go on", pid, pid);
  const char* how = state == 'R' ? "running" : state == 'D' ? "in the disk's or driver's hands" : "sleeping";
  return fmt::format("is alive and {} (process {}), in code of its own", how, pid);
}

// Nobody may be waiting for a rank that is stopped: the others have answered, or end. Then only the parent can tell.
// A parent that was itself away (stopped with its ranks, by Ctrl-Z) counts from when it is back.
void ProcessGroup::note_stopped() {
  const int64_t now = now_ns(), since = now - looked_at_ns_;
  if (since < look_every_ns || board_->abort.load(std::memory_order_acquire)) return;
  looked_at_ns_ = now;
  for (int rank = 0; rank < ranks(); ++rank) {
    Child& child = children_[static_cast<size_t>(rank)];
    if (child.pid <= 0 || since > 10 * look_every_ns || state_of(child.pid) != 'T')
      child.stopped_at_ns = 0;
    else if (child.stopped_at_ns == 0)
      child.stopped_at_ns = now;
    else if (now - child.stopped_at_ns > timeout_ns_ + stopped_after_ns)
      return board_raise(*board_, ranks(),
                         {ErrorKind::timeout, rank,
                          fmt::format("rank {} has done nothing for {}: it {}", rank,
                                      human_ns(static_cast<double>(now - child.stopped_at_ns)), seen_doing(rank)),
                          timeout_remedy(timeout_ns_)});
  }
}

bool ProcessGroup::reap() {
  bool all_gone = true;
  for (int rank = 0; rank < ranks(); ++rank) {
    Child& child = children_[static_cast<size_t>(rank)];
    if (child.pid <= 0) continue;
    int status = 0;
    const pid_t got = waitpid(child.pid, &status, WNOHANG);
    if (got == child.pid) note_death(rank, status);
    if (got == child.pid || (got < 0 && errno == ECHILD))
      child.pid = 0;
    else
      all_gone = false;
  }
  if (!all_gone) note_stopped();
  if (!all_gone && board_->abort.load(std::memory_order_acquire)) {
    if (failed_at_ns_ == 0)
      failed_at_ns_ = now_ns();
    else if (now_ns() - failed_at_ns_ > grace_ns) {
      for (int rank = 0; rank < ranks() && !killed_; ++rank)  // who heard of the failure has said what it was doing
        if (children_[static_cast<size_t>(rank)].pid > 0)
          board_note(*board_, rank, seen_doing(rank).substr(3) + "; it did not answer and was killed");
      killed_ = true;
      kill_all();
    }
  }
  return all_gone;
}

void ProcessGroup::wait_all() {
  std::vector<pollfd> look;
  while (!reap()) {
    look.clear();
    for (const Child& child : children_)
      if (child.pid > 0) look.push_back({child.control, 0, 0});  // only its end is looked for
    if (poll(look.data(), look.size(), 20) > 0) usleep(200);     // the socket ends a little before the process
  }
}

void run_processes(int ranks, const std::function<void(Transport&)>& body, const RankOptions& options) {
  ProcessGroup group(ranks, options, [&](Transport& transport, int) { body(transport); });
  group.wait_all();
  throw_job_failure(group.board(), ranks);
}

}  // namespace weft::transport
