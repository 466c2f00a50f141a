// Peers of `weft bench`: other libraries' ranks, as processes that block until they are told to run a cell.
//
// How a peer is built and with which settings it is best is written once, in bench/peers/launch.py, which the benchmarks
// in Python use too. Each rank reads a pipe of its own and rank 0 answers, so idle peers spin on nothing.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tools/bench.h"
#include "weft/base/file.h"
#include "weft/base/text.h"

namespace weft::tools {
namespace {

constexpr int64_t start_limit_ns = 180'000'000'000, answer_limit_ns = 120'000'000'000;

std::filesystem::path launcher() {
  const std::filesystem::path script = std::filesystem::path(WEFT_SOURCE_DIR) / "bench/peers/launch.py";
  if (std::filesystem::exists(script)) return script;
  throw Error(ErrorKind::unsupported, fmt::format("{} is not here", script.string()), "--vs needs Weft's source tree");
}

class ProcessPeer final : public Peer {
 public:
  ProcessPeer(const std::string& name, int ranks, int64_t room_bytes) : name_(name) {
    char folder[] = "/tmp/weft-peer-XXXXXX";
    if (!mkdtemp(folder)) throw Error(ErrorKind::io, "cannot make a folder in /tmp");
    folder_ = folder;
    for (int rank = 0; rank < ranks; ++rank) make_pipe(fmt::format("cmd.{}", rank));
    make_pipe("out");
    start(ranks, room_bytes);
    for (int rank = 0; rank < ranks; ++rank) commands_.push_back(open_writer(fmt::format("cmd.{}", rank)));
    out_ = open(path("out").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }
  ~ProcessPeer() override {
    for (const int fd : commands_) {
      [[maybe_unused]] const ssize_t written = write(fd, "quit 0\n", 7);
      close(fd);
    }
    for (int i = 0; i < 500 && !ended(); ++i) usleep(10'000);
    if (!ended()) kill(-pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    if (out_ >= 0) close(out_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  const std::string& name() const override { return name_; }

  double time_ns(const BenchCell& cell) override {
    const std::string line = fmt::format(
        "{},{},{},{},{},{},{},{} {}\n", weft::name(cell.operation), weft::name(cell.dtype), weft::name(cell.combine),
        cell.root, cell.in_place ? 1 : 0, cell.touch ? 1 : 0, cell.read ? 1 : 0, cell.iterations, cell.count);
    for (const int fd : commands_)
      if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) failed("takes no commands");
    std::string answer;
    for (const int64_t begin = now_ns(); answer.find('\n') == std::string::npos;) {
      char buffer[64];
      const ssize_t count = ::read(out_, buffer, sizeof buffer);
      if (count > 0) answer.append(buffer, static_cast<size_t>(count));
      if (count > 0) continue;
      if (ended()) failed("has ended");
      if (now_ns() - begin > answer_limit_ns) failed("does not answer");
      usleep(200);
    }
    const double ns = std::stod(answer);
    if (ns < 0) failed("cannot run this");
    return ns;
  }

 private:
  std::string path(const std::string& file) const { return folder_ + "/" + file; }
  void make_pipe(const std::string& file) {
    if (mkfifo(path(file).c_str(), 0600) != 0) throw Error(ErrorKind::io, "cannot make a pipe " + path(file));
  }

  void start(int ranks, int64_t room_bytes) {
    const std::string script = launcher().string(), count = std::to_string(ranks), room = std::to_string(room_bytes),
                      log = path("log");
    pid_ = fork();
    if (pid_ < 0) throw Error(ErrorKind::io, "cannot fork");
    if (pid_ > 0) return;
    setpgid(0, 0);
    const int fd = open(log.c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(fd, 1), dup2(fd, 2);
    execlp("python3", "python3", script.c_str(), name_.c_str(), count.c_str(), folder_.c_str(), room.c_str(), nullptr);
    _exit(127);
  }

  // A pipe can be opened for writing only when somebody reads it.
  int open_writer(const std::string& file) {
    for (const int64_t begin = now_ns();;) {
      const int fd = open(path(file).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
      if (fd >= 0) return fcntl(fd, F_SETFL, 0), fd;
      if (ended() || now_ns() - begin > start_limit_ns) failed("did not start");
      usleep(20'000);
    }
  }

  bool ended() {
    if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
    return pid_ == 0;
  }

  [[noreturn]] void failed(const std::string& what) {
    std::string log = std::filesystem::exists(path("log")) ? read_file(path("log")) : "";
    if (log.size() > 400) log = log.substr(log.size() - 400);
    throw Error(ErrorKind::unsupported, fmt::format("peer {} {}", name_, what), std::string(trim(log)));
  }

  std::string name_, folder_;
  pid_t pid_ = 0;
  std::vector<int> commands_;
  int out_ = -1;
};

}  // namespace

std::unique_ptr<Peer> start_peer(const std::string& name, int ranks, int64_t room_bytes) {
  signal(SIGPIPE, SIG_IGN);
  return std::make_unique<ProcessPeer>(name, ranks, room_bytes);
}

}  // namespace weft::tools
