// Ranks that reach one another over TCP, and, where some share a host, its memory.
//
// Problem: links and words are memory that a peer can see; over a network nobody sees anything. Ways: a message layer with
// matching (what MPI has; a second form of everything), or mirrored memory: each rank has a copy of the blocks, and put()
// sends a piece of one. We take the second: the same rings, flags, tags and credits work over any transport. Who moves the
// bytes: a progress thread (a hand-off of 5 us or more per message, and a core that is not there on two), or the rank that
// waits. We take the rank that waits; a launch ends when its bytes have left, so a sender owes nothing while it computes.
//
// Every pair of ranks has WEFT_SOCKETS connections; large bodies are cut over them. A connection begins with a hello that
// proves the job's secret; who cannot is turned away and logged, and cannot hold up the others. A connection that ends
// without a goodbye is the death of its rank. Data are not encrypted: use it inside a trusted network.
#pragma once

#include <optional>

#include "weft/transport/transport.h"

namespace weft::transport {

struct TcpOptions {
  int group_ranks = 0;  // layered: ranks r / group_ranks are a host and share its memory; 0: all go over TCP
};

// Over ranks that are processes or threads of one machine: they tell each other addresses and a secret by `inner`, whose
// parent hears of failures. Collective; so is the end of the transport: it waits until all have said goodbye.
std::unique_ptr<Transport> make_tcp(Transport& inner, const TcpOptions& options);

// Ranks that were started separately, on any hosts: all connect to rank 0 at `meeting` ("host:port"), prove the secret and
// learn of one another. `local`: ranks of this host are found by its boot and namespace and share memory.
struct TcpJoinOptions {
  int rank = 0, ranks = 1;
  std::string meeting, secret;
  int64_t timeout_ns = 0;  // 0: WEFT_TIMEOUT_S
  std::string host;        // of this rank, instead of what the machine says
};
std::unique_ptr<Transport> join_tcp(const TcpJoinOptions& options);

}  // namespace weft::transport
