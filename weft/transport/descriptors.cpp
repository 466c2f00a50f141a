// The mesh of datagrams (descriptors.h).
#include "weft/transport/descriptors.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "weft/transport/wait.h"

namespace weft::transport {
namespace {

struct Place {  // what a rank tells the others
  std::array<uint64_t, 2> name{}, token{};
};

struct Greeting {
  std::array<uint64_t, 2> token{};
  int32_t rank = 0, unused = 0;
};

[[noreturn]] void refused(const char* call, std::string_view what) {
  throw Error(ErrorKind::io, fmt::format("{}: {}, while ranks pass {}", call, std::strerror(errno), what));
}

std::pair<sockaddr_un, socklen_t> address_of(const Place& place) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("weft-{:016x}{:016x}", place.name[0], place.name[1]);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading zero: abstract
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

// False: the receiver's queue is full.
bool send_one(int socket, int fd, const Greeting& greeting, const Place& to, std::string_view what) {
  auto [address, length] = address_of(to);
  Greeting body = greeting;
  Control control{};
  iovec data{&body, sizeof body};
  msghdr message{};
  message.msg_name = &address, message.msg_namelen = length;
  message.msg_iov = &data, message.msg_iovlen = 1;
  message.msg_control = &control, message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS) return false;
  refused("sendmsg", what);
}

// Takes what has come; what is not from a rank of this job is dropped.
int receive_all_there(int socket, const Place& mine, std::vector<Fd>& got, std::string_view what) {
  int fresh = 0;
  for (;;) {
    Greeting body{};
    Control control{};
    iovec data{&body, sizeof body};
    msghdr message{};
    message.msg_iov = &data, message.msg_iovlen = 1;
    message.msg_control = &control, message.msg_controllen = sizeof control;
    const ssize_t count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return fresh;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refused("recvmsg", what);
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    Fd fd;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header), sizeof number);
      fd.reset(number);
    }
    if (count != sizeof body || body.token != mine.token || body.rank < 0 || body.rank >= static_cast<int>(got.size()))
      continue;
    if (fd.get() < 0)
      throw Error(ErrorKind::io, fmt::format("rank {} passed {} and no descriptor came with it", body.rank, what),
                  "is the limit of open files (ulimit -n) reached?");
    got[static_cast<size_t>(body.rank)] = std::move(fd);
    ++fresh;
  }
}

// Every rank's place; or, on all ranks alike, the problem of the first that has one.
std::vector<Place> exchange_places(Transport& transport, const Place& mine, const std::string& problem,
                                   std::string_view what) {
  const std::string place(reinterpret_cast<const char*>(&mine), sizeof mine);
  const auto text = transport.exchange(problem.empty() ? "+" + place : "-" + problem, what);
  std::vector<Place> all(text.size());
  for (size_t rank = 0; rank < text.size(); ++rank) {
    if (text[rank].size() != 1 + sizeof mine || text[rank][0] != '+')
      throw Error(ErrorKind::io, fmt::format("rank {}: {}", rank, text[rank].substr(1)));
    std::memcpy(&all[rank], text[rank].data() + 1, sizeof mine);
  }
  return all;
}

// A socket at a place of its own.
Fd open_place(Place& mine, std::string_view what) {
  if (getrandom(&mine, sizeof mine, 0) != sizeof mine) refused("getrandom", what);
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) refused("socket", what);
  const auto [address, length] = address_of(mine);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) refused("bind", what);
  return socket;
}

// What fails here (no descriptor is left, say) is a problem that all are told, so that nobody waits for who has given up.
template <typename F>
std::string problem_of(F&& f) {
  try {
    f();
  } catch (const Error& error) { return error.message(); }
  return "";
}

}  // namespace

std::vector<Fd> exchange_descriptors(Transport& transport, int fd, std::string_view what) {
  const int size = transport.size(), me = transport.rank();
  std::vector<Fd> got(static_cast<size_t>(size));
  if (size == 1) return got;
  Place mine;
  Fd socket;
  std::string problem = problem_of([&] { socket = open_place(mine, what); });
  const std::vector<Place> places = exchange_places(transport, mine, problem, what);
  int to_send = 1, to_receive = size - 1;  // peers in ring order from this rank on, so that not all begin with rank 0
  const auto waited = wait_until(transport, transport.timeout_ns(), [&] {
    for (; to_send < size; ++to_send) {
      const Place& peer = places[static_cast<size_t>((me + to_send) % size)];
      if (!send_one(socket.get(), fd, {peer.token, me, 0}, peer, what)) break;
    }
    if (problem.empty()) problem = problem_of([&] { to_receive -= receive_all_there(socket.get(), mine, got, what); });
    return to_send == size && (to_receive == 0 || !problem.empty());  // what was promised to others is sent even so
  });
  if (waited == Waited::aborted) throw_failure(transport, fmt::format("passing {}", what));
  if (waited == Waited::late)
    throw Error(ErrorKind::timeout, fmt::format("rank {} waits for {} of {} ranks", me, what, to_receive),
                timeout_remedy(transport.timeout_ns()));
  // The sockets stay until all have been heard.
  const auto told = transport.exchange(problem, what);
  for (size_t rank = 0; rank < told.size(); ++rank)
    if (!told[rank].empty()) throw Error(ErrorKind::io, fmt::format("rank {}: {}", rank, told[rank]));
  return got;
}

}  // namespace weft::transport
