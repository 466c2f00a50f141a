// Mapped memory: aligned, zero-filled, given back when the last user goes.
//
// Ways to share memory between processes: names in /dev/shm (leak after SIGKILL, and a 64 MB tmpfs in containers ends
// in SIGBUS), System V segments (the same), memfd passed over a Unix socket. We take memfd: it has no name, so it ends
// with its last mapping. Size and seals are checked by who receives it: a file that can shrink is a SIGBUS for
// everybody.
#pragma once

#include <memory>

#include "weft/transport/transport.h"

namespace weft::transport {

class Mapping {
 public:
  Mapping() = default;
  // `bytes` at 2 MiB alignment from 2 MiB on, of the file, or anonymous where fd < 0. Error(io) names `what`.
  Mapping(int fd, int64_t bytes, std::string_view what);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

int64_t rounded_block_bytes(int64_t bytes);  // pages; 2 MiB from that size on

// A sealed memfd of exactly `bytes` (it can neither shrink nor grow); the caller closes it.
int sealed_memfd(int64_t bytes, std::string_view what);
// Throws Error(io) unless fd has that size and those seals.
void check_sealed(int fd, int64_t bytes, std::string_view what);

// One descriptor with a number, over a Unix socket; or word that there is none. receive returns -1 where nothing came yet;
// Error(io) where there is none, Error(peer) at the socket's end.
void send_descriptor(int socket, int fd, uint64_t number);
void send_no_descriptor(int socket, uint64_t number);
int receive_descriptor(int socket, uint64_t number);

}  // namespace weft::transport
