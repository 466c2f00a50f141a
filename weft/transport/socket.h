// TCP sockets and the addresses of this machine.
//
// Which of several interfaces carries the data is the commonest question of a cluster's user, and the answer that people know
// is a variable with prefixes, "=" for exact names and "^" for exclusions (NCCL_SOCKET_IFNAME). We take the same form.
// Without it: any interface that is up, loopback and bridges of containers last.
#pragma once

#include <netinet/in.h>

#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"

namespace weft::transport {

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { reset(-1); }
  void reset(int fd);
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

struct Address {
  sockaddr_storage bytes{};
  socklen_t length = 0;
  std::string interface;     // its name, where it is known
  std::string text() const;  // "192.0.2.1:1234", "[2001:db8::1]:1234"
  int port() const;
};

// "host:port" or "[v6]:port", resolved; Error(user) where it is neither.
Address parse_address(const std::string& text);

// Does the name of an interface pass WEFT_SOCKET_IFNAME's text? Empty: all do.
bool interface_passes(const std::string& name, const std::string& filter);
// Addresses of this machine that pass the filter and the family ("", "4", "6"), the most likely first. Error(user) with
// what there is where none does.
std::vector<Address> local_addresses(const std::string& filter, const std::string& family);

Fd listen_at(Address address);  // Error(io): the port is in use, ...
Address bound_address(int socket);
// Non-blocking, without delay of small messages. Error(peer) with address and reason, after until_ns at the latest.
Fd connect_to(const Address& address, int64_t until_ns);
void make_ready(int socket);
// Exactly so many bytes, or false: an end, an error, or the time is over.
bool send_all(int socket, const void* data, size_t bytes, int64_t until_ns);
bool receive_all(int socket, void* data, size_t bytes, int64_t until_ns);

}  // namespace weft::transport
