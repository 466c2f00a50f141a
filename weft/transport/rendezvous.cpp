// The meeting of separately started ranks, and their transport (rendezvous.h).
#include "weft/transport/rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <utility>

#include "weft/base/env.h"
#include "weft/base/file.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/transport/host.h"
#include "weft/transport/mapping.h"
#include "weft/transport/socket.h"
#include "weft/transport/tcp.h"
#include "weft/transport/wait.h"

namespace weft::transport {
namespace {

constexpr int64_t hello_limit_ns = 1'000'000'000, poll_us = 2000;
constexpr uint32_t magic = 0x54464557, protocol_version = 1;

struct Hello {
  uint32_t magic_word = magic, version = protocol_version;
  int32_t rank = 0, ranks = 0;
  std::array<unsigned char, 32> secret{};
};
enum class Answer : uint32_t { welcome = 1, other_size, taken, out_of_range };

[[noreturn]] void refused(const std::string& what) {
  throw Error(ErrorKind::io, fmt::format("{}: {}", what, std::strerror(errno)));
}

sockaddr_un abstract_address(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading zero: no file
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

bool readable(int fd, int64_t within_ns) {
  pollfd look{fd, POLLIN, 0};
  return poll(&look, 1, static_cast<int>(std::min<int64_t>(within_ns / 1'000'000, INT32_MAX))) == 1;
}

bool same_secret(const std::array<unsigned char, 32>& a, const std::array<unsigned char, 32>& b) {
  unsigned difference = 0;  // in constant time
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

std::string hex(const std::array<unsigned char, 32>& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

struct Invitation {
  std::string socket;
  std::array<unsigned char, 32> secret{};
};

Invitation new_invitation() {
  Invitation invitation;
  if (getrandom(invitation.secret.data(), invitation.secret.size(), 0) !=
      static_cast<ssize_t>(invitation.secret.size()))
    refused("getrandom");
  std::array<unsigned char, 32> name{};
  if (getrandom(name.data(), 16, 0) != 16) refused("getrandom");
  invitation.socket = "weft-" + hex(name).substr(0, 32);
  return invitation;
}

std::optional<Invitation> read_invitation(const std::string& file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return std::nullopt;
  if (info.st_uid != geteuid())
    throw Error(ErrorKind::user, fmt::format("{} belongs to another user", file), "meet elsewhere");
  std::ifstream in(file);
  std::string form, secret;
  int version = 0;
  Invitation invitation;
  if (!(in >> form >> version >> invitation.socket >> secret) || form != "rendezvous" || secret.size() != 64)
    return std::nullopt;
  for (size_t i = 0; i < 32; ++i)
    invitation.secret[i] = static_cast<unsigned char>(std::stoi(secret.substr(2 * i, 2), nullptr, 16));
  return invitation;
}

// The file, for as long as ranks are missing.
class Posted {
 public:
  Posted(const std::string& file, const Invitation& invitation) : file_(file) {
    const std::string fresh = fmt::format("{}.{}", file, getpid());
    const Fd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const std::string text = fmt::format("rendezvous 1 {} {}\n", invitation.socket, hex(invitation.secret));
    if (fd.get() < 0 || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        rename(fresh.c_str(), file.c_str()) != 0) {
      const int reason = errno;
      if (fd.get() >= 0) unlink(fresh.c_str());
      errno = reason;
      refused(fmt::format("cannot write the meeting file {}", file));
    }
  }
  ~Posted() { unlink(file_.c_str()); }

 private:
  std::string file_;
};

class JoinedTransport final : public HostTransport {
 public:
  JoinedTransport(std::unique_ptr<Mapping> memory, int rank, int size, const RankOptions& options,
                  std::vector<Fd> sockets)
      : HostTransport(*reinterpret_cast<Board*>(memory->data()), rank, size, options, std::move(sockets)),
        memory_(std::move(memory)) {
    board_.ranks()[rank].pid.store(getpid(), std::memory_order_release);
  }
  ~JoinedTransport() override {
    board_.ranks()[rank()].state.store(static_cast<uint32_t>(RankState::done), std::memory_order_release);
  }

 private:
  std::unique_ptr<Mapping> memory_;
};

// ---- rank 0
class Host {
 public:
  explicit Host(const JoinOptions& options) : options_(options), sockets_(static_cast<size_t>(options.ranks)) {}

  std::vector<Fd> gather(int board, int64_t until_ns) {
    const Invitation invitation = new_invitation();
    Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    socklen_t length = 0;
    const sockaddr_un address = abstract_address(invitation.socket, length);
    if (listener.get() < 0 || bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
        listen(listener.get(), 1024) != 0)
      refused("cannot open a socket for the other ranks");
    const Posted posted(options_.file, invitation);
    for (int missing = options_.ranks - 1; missing > 0;) {
      if (now_ns() > until_ns) late();
      if (!readable(listener.get(), 50'000'000)) continue;
      Fd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (client.get() >= 0 && admit(client, invitation, board)) --missing;
    }
    return std::move(sockets_);
  }

 private:
  bool admit(Fd& client, const Invitation& invitation, int board) {
    Hello hello;
    hello.magic_word = 0;
    ucred who{};
    socklen_t length = sizeof who;
    const bool ours = getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
    if (!ours || !readable(client.get(), hello_limit_ns) ||
        recv(client.get(), &hello, sizeof hello, MSG_DONTWAIT) != sizeof hello || hello.magic_word != magic ||
        hello.version != protocol_version || !same_secret(hello.secret, invitation.secret)) {
      WEFT_LOG(warn, "transport", "a stranger at the rendezvous was turned away (user {})", who.uid);
      return false;
    }
    Answer answer = Answer::welcome;
    const bool in_range = hello.rank > 0 && hello.rank < options_.ranks;
    if (hello.ranks != options_.ranks)
      answer = Answer::other_size;
    else if (!in_range)
      answer = Answer::out_of_range;
    else if (sockets_[static_cast<size_t>(hello.rank)].get() >= 0)
      answer = Answer::taken;
    const uint32_t word = static_cast<uint32_t>(answer), words[2] = {word, static_cast<uint32_t>(options_.ranks)};
    if (send(client.get(), words, sizeof words, MSG_NOSIGNAL) != sizeof words) return false;
    if (answer != Answer::welcome)
      throw Error(ErrorKind::agreement,
                  fmt::format("at the rendezvous {} a process says that it is rank {} of {}; rank 0 expects {} ranks{}",
                              options_.file, hello.rank, hello.ranks, options_.ranks,
                              answer == Answer::taken ? " and has that rank already" : ""));
    send_descriptor(client.get(), board, 0);
    sockets_[static_cast<size_t>(hello.rank)] = std::move(client);
    return true;
  }

  [[noreturn]] void late() const {
    std::vector<std::string> missing;
    for (int rank = 1; rank < options_.ranks; ++rank)
      if (sockets_[static_cast<size_t>(rank)].get() < 0) missing.push_back(std::to_string(rank));
    throw Error(ErrorKind::timeout,
                fmt::format("rank 0 waited at the rendezvous {} for rank {}", options_.file, join(missing, ", ")),
                "are all ranks started, on this host, with the same meeting file?");
  }

  const JoinOptions& options_;
  std::vector<Fd> sockets_;
};

// ---- the others. A file of a job that is over leads to a socket that is gone: then look again.
Fd knock(const JoinOptions& options, int64_t until_ns) {
  for (;; usleep(poll_us)) {
    if (now_ns() > until_ns)
      throw Error(ErrorKind::timeout,
                  fmt::format("rank {} waited at the rendezvous {} for rank 0", options.rank, options.file),
                  "is rank 0 started, on this host, with the same meeting file?");
    const std::optional<Invitation> invitation = read_invitation(options.file);
    if (!invitation) continue;
    Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    socklen_t length = 0;
    const sockaddr_un address = abstract_address(invitation->socket, length);
    if (fd.get() < 0) refused("cannot open a socket");
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) continue;
    Hello hello;
    hello.rank = options.rank, hello.ranks = options.ranks, hello.secret = invitation->secret;
    uint32_t words[2] = {};
    if (send(fd.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) continue;
    if (!readable(fd.get(), std::max<int64_t>(until_ns - now_ns(), 0)) ||
        recv(fd.get(), words, sizeof words, 0) != sizeof words)
      continue;
    if (static_cast<Answer>(words[0]) == Answer::welcome) return fd;
    throw Error(ErrorKind::agreement,
                fmt::format("rank {} of {} is not welcome at the rendezvous {}: rank 0 expects {} ranks{}",
                            options.rank, options.ranks, options.file, words[1],
                            static_cast<Answer>(words[0]) == Answer::taken ? " and has that rank already" : ""),
                "start every rank once, all with the same number of ranks");
  }
}

std::unique_ptr<Mapping> host_board(const JoinOptions& options, std::vector<Fd>& sockets, int64_t until_ns) {
  const int64_t bytes = rounded_block_bytes(Board::bytes(options.ranks));
  const Fd fd(sealed_memfd(bytes, "the board"));
  auto memory = std::make_unique<Mapping>(fd.get(), bytes, "the board");
  Board* board = new (memory->data()) Board{};
  for (int rank = 0; rank < options.ranks; ++rank) new (&board->ranks()[rank]) RankBoard{};
  sockets = Host(options).gather(fd.get(), until_ns);
  return memory;
}

std::unique_ptr<Mapping> joined_board(const JoinOptions& options, std::vector<Fd>& sockets, int64_t until_ns) {
  const int64_t bytes = rounded_block_bytes(Board::bytes(options.ranks));
  sockets.push_back(knock(options, until_ns));
  int got = -1;
  while ((got = receive_descriptor(sockets[0].get(), 0)) < 0) {
    if (now_ns() > until_ns) throw Error(ErrorKind::timeout, "rank 0 welcomes and sends no board");
    usleep(200);
  }
  const Fd fd(got);
  check_sealed(fd.get(), bytes, "the board");
  return std::make_unique<Mapping>(fd.get(), bytes, "the board");
}

std::optional<int> number(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  char* end = nullptr;
  const long number = std::strtol(value, &end, 10);
  if (*end) return std::nullopt;
  return static_cast<int>(number);
}
std::string text(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

struct Launcher {
  const char *name, *rank, *ranks, *local_ranks, *job, *step;  // job and step: what names this job on this host
};
constexpr Launcher launchers[] = {
    {"weft", "WEFT_RANK", "WEFT_RANKS", "", "", ""},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", ""},
    {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_JOBID", ""},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RUN_ID"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "", "SLURM_JOB_ID", "SLURM_STEP_ID"},
};

constexpr std::string_view tcp_prefix = "tcp://";
bool is_tcp(const JoinOptions& options) { return options.file.rfind(tcp_prefix, 0) == 0; }

// Ranks of one launcher on one host usually have one parent: its number names a job that has no name.
std::string job_name(const Launcher& launcher) {
  std::string job;
  for (const char* part : {launcher.job, launcher.step})
    for (const char c : *part ? text(part) : "") job += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return job.empty() ? std::to_string(getppid()) : job;
}

}  // namespace

// A name in /tmp that anybody can guess must not be anybody's to take.
std::string meeting_folder() {
  const std::string base = text("XDG_RUNTIME_DIR").empty() ? "/tmp" : text("XDG_RUNTIME_DIR");
  const std::string folder = fmt::format("{}/weft-{}", base, geteuid());
  mkdir(folder.c_str(), 0700);
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 077) != 0)
    throw Error(ErrorKind::io, fmt::format("{} is not a folder of this user's alone", folder),
                "set WEFT_RENDEZVOUS to a path of your own");
  return folder;
}

std::unique_ptr<Transport> join_job(const JoinOptions& options) {
  if (is_tcp(options)) {
    TcpJoinOptions tcp;
    tcp.rank = options.rank, tcp.ranks = options.ranks, tcp.timeout_ns = options.timeout_ns;
    tcp.meeting = options.file.substr(tcp_prefix.size()), tcp.secret = env("WEFT_SECRET");
    return join_tcp(tcp);
  }
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks)
    throw Error(ErrorKind::user, fmt::format("rank {} of {} ranks", options.rank, options.ranks), "ranks count from 0");
  if (options.file.empty() && options.ranks > 1)
    throw Error(ErrorKind::user, "ranks that are started separately need a meeting file", "give all the same path");
  RankOptions rank_options;
  rank_options.pin = options.pin;
  rank_options.timeout_ns = options.timeout_ns > 0 ? options.timeout_ns : env_int("WEFT_TIMEOUT_S") * 1'000'000'000;
  const int64_t until_ns = now_ns() + rank_options.timeout_ns;
  std::vector<Fd> sockets;
  auto memory = options.rank == 0 ? host_board(options, sockets, until_ns) : joined_board(options, sockets, until_ns);
  auto transport = std::make_unique<JoinedTransport>(std::move(memory), options.rank, options.ranks, rank_options,
                                                     std::move(sockets));
  if (options.pin && options.ranks <= allowed_core_count()) pin_to_core(options.rank);
  set_log_rank(options.rank);
  transport->barrier("all ranks have joined");
  return transport;
}

std::optional<JoinOptions> join_from_environment() {
  for (const Launcher& launcher : launchers) {
    const auto rank = number(launcher.rank), ranks = number(launcher.ranks);
    if (!rank || !ranks) continue;
    JoinOptions options;
    options.rank = *rank;
    options.ranks = *ranks;
    options.file = text("WEFT_RENDEZVOUS");
    const auto local = *launcher.local_ranks ? number(launcher.local_ranks) : ranks;
    if (local && *local != *ranks && !is_tcp(options))
      throw Error(ErrorKind::user, fmt::format("{} of {} ranks are on this host", *local, *ranks),
                  "ranks of several hosts meet over TCP: set WEFT_RENDEZVOUS=tcp://HOST:PORT (a free port of rank 0's "
                  "host) and WEFT_SECRET, the same on all");
    if (options.file.empty())
      options.file = fmt::format("{}/{}-{}", meeting_folder(), launcher.name, job_name(launcher));
    return options;
  }
  return std::nullopt;
}

}  // namespace weft::transport
