// Every rank's file descriptor to all other ranks of one host.
//
// Shared memory that is made with a window comes from rank 0 (host.h); memory that a rank had before the job began is the
// rank's own, and everybody must be given it. Ways: relay all through rank 0 (n * n messages over one process), or a mesh.
// We take a mesh of datagrams: each rank opens one abstract Unix socket, tells its name and a random token over the control
// plane, and sends each peer one datagram with the descriptor. Nothing is named in a file system; who does not know the
// token is not heard.
#pragma once

#include <vector>

#include "weft/transport/socket.h"
#include "weft/transport/transport.h"

namespace weft::transport {

// Collective. The descriptors of all ranks, by rank; at this rank's own place an empty one. Bounded by the transport's
// timeout; ranks must be processes of one host and network namespace. Error(io), the same on all ranks, where one of them has
// no descriptor left or cannot send.
std::vector<Fd> exchange_descriptors(Transport& transport, int fd, std::string_view what);

}  // namespace weft::transport
