// Ranks that were started separately on one host find each other: by mpirun, torchrun, srun, or by hand.
//
// Problem: forked ranks inherit their shared memory; processes that somebody else started have nothing in common but
// their environment. Ways: a TCP store (a server that answers strangers), a named block in /dev/shm (stays when a rank
// is killed), or a meeting file. We take the file: rank 0 writes it (mode 0600, renamed into place) with the name of an
// abstract Unix socket and a random secret; the others connect, prove the secret, and get the board as a sealed memfd
// over that socket, as all later memory. The file is gone as soon as all are there; nothing else has a name. Who does not know
// the secret, is another user, or says nothing for a second is turned away and cannot hold up the others.
#pragma once

#include <optional>
#include <string>

#include "weft/transport/transport.h"

namespace weft::transport {

struct JoinOptions {
  int rank = 0, ranks = 1;
  // Where to meet: the same path on all ranks, and not used by another job at the same time. "tcp://HOST:PORT", an address
  // of rank 0's host: over TCP, with the secret in WEFT_SECRET (tcp.h).
  std::string file;
  int64_t timeout_ns = 0;  // 0: WEFT_TIMEOUT_S
  bool pin = false;
};

// Collective over the job. Error(user) for impossible ranks, Error(timeout) that names the ranks that did not come,
// Error(agreement) where ranks differ about how many they are or two claim one rank.
std::unique_ptr<Transport> join_job(const JoinOptions& options);

// A folder of this user's own, for meetings: /tmp/weft-UID or below XDG_RUNTIME_DIR; Error(io) where it is not.
std::string meeting_folder();

// What a launcher left in the environment: Open MPI, MPICH and Intel MPI (PMI), srun, torchrun (RANK, WORLD_SIZE), or
// WEFT_RANK, WEFT_RANKS and WEFT_RENDEZVOUS. Nothing: none of them started this process. Error(user) where ranks are on
// several hosts and have no address to meet at.
std::optional<JoinOptions> join_from_environment();

}  // namespace weft::transport
