// Commanding ranks that are processes: frames over the control socket, with an eye on every child while it waits.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/transport/processes.h"
#include "weft/transport/wait.h"

namespace weft::transport {
namespace {

constexpr uint64_t frame_limit_bytes = uint64_t{1} << 32;
enum class Io { moved, blocked, ended };

std::string framed(std::string_view text) {
  const uint64_t length = text.size();
  std::string frame(sizeof length + text.size(), '\0');
  std::memcpy(frame.data(), &length, sizeof length);
  std::memcpy(frame.data() + sizeof length, text.data(), text.size());
  return frame;
}

bool take_frame(std::string& stream, std::string& text) {
  uint64_t length = 0;
  if (stream.size() < sizeof length) return false;
  std::memcpy(&length, stream.data(), sizeof length);
  if (length > frame_limit_bytes)
    throw Error(ErrorKind::io, fmt::format("a frame of {} bytes on a control socket", length));
  if (stream.size() - sizeof length < length) return false;
  text = stream.substr(sizeof length, length);
  stream.erase(0, sizeof length + length);
  return true;
}

Io read_some(int fd, std::string& stream) {
  char buffer[1 << 16];
  const ssize_t count = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
  if (count > 0) return stream.append(buffer, static_cast<size_t>(count)), Io::moved;
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? Io::blocked : Io::ended;
}

Io write_some(int fd, std::string_view& rest) {
  const ssize_t count = send(fd, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count >= 0) return rest.remove_prefix(static_cast<size_t>(count)), Io::moved;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? Io::blocked : Io::ended;
}

void wait_for_socket(int fd, short events) {
  pollfd look{fd, events, 0};
  poll(&look, 1, 10);
}

class ProcessJob final : public Job {
 public:
  ProcessJob(int ranks, const std::function<CommandLoop(Transport&)>& make, const RankOptions& options)
      : group_(ranks, options,
               [&](Transport& transport, int control) { serve_commands(transport, control, make(transport)); }),
        streams_(static_cast<size_t>(ranks)) {}
  int ranks() const override { return group_.ranks(); }

  void send(int rank, std::string_view text) override {
    const std::string frame = framed(text);
    for (std::string_view rest = frame; !rest.empty();) {
      const Io io = write_some(group_.control(rank), rest);
      if (io == Io::moved) continue;
      if (io == Io::ended) lost(rank);
      look_after();
      read_some(group_.control(rank), streams_[static_cast<size_t>(rank)]);  // it may be stuck with an answer
      wait_for_socket(group_.control(rank), POLLOUT | POLLIN);
    }
  }

  std::string receive(int rank, int64_t timeout_ns) override {
    std::string& stream = streams_.at(static_cast<size_t>(rank));
    std::string text;
    for (const int64_t begin = now_ns(); !take_frame(stream, text);) {
      const Io io = read_some(group_.control(rank), stream);
      if (io == Io::moved) continue;
      if (io == Io::ended) lost(rank);
      look_after();
      if (now_ns() - begin > timeout_ns)
        throw Error(ErrorKind::timeout,
                    fmt::format("rank {} did not answer within {}: it {}", rank,
                                human_ns(static_cast<double>(timeout_ns)), group_.seen_doing(rank)),
                    timeout_remedy(timeout_ns));
      wait_for_socket(group_.control(rank), POLLIN);
    }
    return text;
  }

  void finish() override {
    group_.hang_up();
    group_.wait_all();
    throw_job_failure(group_.board(), group_.ranks());
  }

 private:
  void look_after() {
    group_.reap();
    if (!group_.board().abort.load(std::memory_order_acquire)) return;
    group_.wait_all();
    throw_job_failure(group_.board(), group_.ranks());
  }
  [[noreturn]] void lost(int rank) {
    for (int i = 0; i < 100 && !group_.board().abort.load(std::memory_order_acquire); ++i) group_.reap(), usleep(1000);
    look_after();
    throw Error(ErrorKind::peer, fmt::format("rank {} has left before it was told to", rank),
                "a rank must serve commands until its parent finishes");
  }

  ProcessGroup group_;
  std::vector<std::string> streams_;
};

}  // namespace

void serve_commands(Transport& transport, int control, const CommandLoop& loop) {
  std::string stream, command;
  for (;;) {
    const std::string last = command.substr(0, command.find('\n'));
    const std::string waiting = last.empty() ? "waiting for its first command"
                                             : fmt::format("waiting for a command, having answered \"{}\"", last);
    while (!take_frame(stream, command)) {
      const Io io = read_some(control, stream);
      if (io == Io::ended) return;  // the parent has finished
      if (io == Io::moved) continue;
      if (transport.abort_word().load(std::memory_order_acquire)) throw_failure(transport, waiting);
      transport.check_peers();
      wait_for_socket(control, POLLIN);
    }
    const std::string frame = framed(loop(transport, command));
    for (std::string_view rest = frame; !rest.empty();) {
      const Io io = write_some(control, rest);
      if (io == Io::ended) return;
      if (io == Io::blocked) wait_for_socket(control, POLLOUT);
      if (transport.abort_word().load(std::memory_order_acquire)) throw_failure(transport, "answering");
    }
  }
}

std::unique_ptr<Job> start_processes(int ranks, const std::function<CommandLoop(Transport&)>& make,
                                     const RankOptions& options) {
  return std::make_unique<ProcessJob>(ranks, make, options);
}

}  // namespace weft::transport
