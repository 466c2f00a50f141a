// Sockets (socket.h).
#include "weft/transport/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "weft/base/file.h"
#include "weft/base/text.h"

namespace weft::transport {
namespace {

bool wait_for(int socket, short events, int64_t until_ns) {
  for (;;) {
    const int64_t left_ms = (until_ns - now_ns()) / 1'000'000;
    if (left_ms < 0) return false;
    pollfd look{socket, events, 0};
    const int ready = poll(&look, 1, static_cast<int>(std::min<int64_t>(left_ms + 1, 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

// Smaller is better: cards, then loopback, then bridges of containers.
int rank_of(const std::string& interface, bool loopback) {
  if (interface.rfind("docker", 0) == 0 || interface.rfind("br-", 0) == 0 || interface.rfind("veth", 0) == 0) return 2;
  return loopback ? 1 : 0;
}

}  // namespace

void Fd::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

int Address::port() const {
  return ntohs(bytes.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bytes).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bytes).sin_port);
}

std::string Address::text() const {
  char host[NI_MAXHOST] = "?";
  getnameinfo(reinterpret_cast<const sockaddr*>(&bytes), length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return bytes.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port()) : fmt::format("{}:{}", host, port());
}

Address parse_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  const bool brackets = !text.empty() && text[0] == '[';
  const size_t end = brackets ? text.find(']') : colon;
  if (colon == std::string::npos || end == std::string::npos || end > colon || colon + 1 == text.size() || end == 0)
    throw Error(ErrorKind::user, fmt::format("{} is not host:port", text),
                "write 192.0.2.1:4711 or [2001:db8::1]:4711");
  const std::string host = brackets ? text.substr(1, end - 1) : text.substr(0, end), port = text.substr(colon + 1);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  if (const int problem = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); problem != 0)
    throw Error(ErrorKind::user, fmt::format("{}: {}", text, gai_strerror(problem)), "is the name of the host right?");
  Address address;
  std::memcpy(&address.bytes, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

bool interface_passes(const std::string& name, const std::string& filter) {
  if (filter.empty()) return true;
  const bool all_but = filter[0] == '^', exact = filter[all_but ? 1 : 0] == '=';
  for (const std::string& item : split(filter.substr(static_cast<size_t>(all_but) + static_cast<size_t>(exact)), ','))
    if (!item.empty() && (exact ? name == item : name.rfind(item, 0) == 0)) return !all_but;
  return all_but;
}

std::vector<Address> local_addresses(const std::string& filter, const std::string& family) {
  if (!family.empty() && family != "4" && family != "6")
    throw Error(ErrorKind::user, fmt::format("WEFT_SOCKET_FAMILY={}", family), "it is 4 or 6");
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw Error(ErrorKind::io, fmt::format("getifaddrs: {}", std::strerror(errno)));
  std::vector<std::pair<int, Address>> found;
  std::vector<std::string> names;
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP)) continue;
    const int kind = at->ifa_addr->sa_family;
    if (kind != AF_INET && kind != AF_INET6) continue;
    if (std::find(names.begin(), names.end(), at->ifa_name) == names.end()) names.emplace_back(at->ifa_name);
    if ((family == "4" && kind != AF_INET) || (family == "6" && kind != AF_INET6)) continue;
    if (!interface_passes(at->ifa_name, filter)) continue;
    Address address;
    address.length = kind == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.bytes, at->ifa_addr, address.length);
    if (kind == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6&>(address.bytes).sin6_addr)) continue;
    address.interface = at->ifa_name;
    found.emplace_back(2 * rank_of(at->ifa_name, (at->ifa_flags & IFF_LOOPBACK) != 0) + (kind == AF_INET6), address);
  }
  freeifaddrs(list);
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Address> addresses;
  for (auto& [order, address] : found) addresses.push_back(std::move(address));
  if (addresses.empty())
    throw Error(
        ErrorKind::user,
        fmt::format("no interface for TCP: WEFT_SOCKET_IFNAME=\"{}\", WEFT_SOCKET_FAMILY=\"{}\"", filter, family),
        "interfaces that are up: " + join(names, ", "));
  return addresses;
}

Fd listen_at(Address address) {
  Fd fd(socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  if (fd.get() >= 0) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (fd.get() < 0 || bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.length) != 0 ||
      listen(fd.get(), 1024) != 0)
    throw Error(ErrorKind::io, fmt::format("cannot listen at {}: {}", address.text(), std::strerror(errno)),
                errno == EADDRINUSE ? "another program, or another job, has that port: take another"
                                    : "is it an address of this machine?");
  return fd;
}

Address bound_address(int socket) {
  Address address;
  address.length = sizeof address.bytes;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address.bytes), &address.length);
  return address;
}

void make_ready(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

Fd connect_to(const Address& address, int64_t until_ns) {
  int reason = ETIMEDOUT;
  while (now_ns() < until_ns) {
    Fd fd(socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd.get() < 0) throw Error(ErrorKind::io, fmt::format("no socket: {}", std::strerror(errno)), "ulimit -n?");
    socklen_t length = sizeof reason;
    reason = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.length) == 0 ? 0 : errno;
    if (reason == EINPROGRESS && wait_for(fd.get(), POLLOUT, until_ns))
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &reason, &length);
    if (reason == 0) {
      make_ready(fd.get());
      return fd;
    }
    usleep(5000);  // it may not listen yet
  }
  throw Error(ErrorKind::peer, fmt::format("cannot connect to {}: {}", address.text(), std::strerror(reason)),
              "is that rank started, can this host reach it (WEFT_SOCKET_IFNAME), is there a firewall between?");
}

bool send_all(int socket, const void* data, size_t bytes, int64_t until_ns) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t count = send(socket, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) at += count, bytes -= static_cast<size_t>(count);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (count <= 0 && !wait_for(socket, POLLOUT, until_ns)) return false;
  }
  return true;
}

bool receive_all(int socket, void* data, size_t bytes, int64_t until_ns) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t count = recv(socket, at, bytes, MSG_DONTWAIT);
    if (count > 0) at += count, bytes -= static_cast<size_t>(count);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (count < 0 && !wait_for(socket, POLLIN, until_ns)) return false;
  }
  return true;
}

}  // namespace weft::transport
