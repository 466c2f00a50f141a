// From a cluster file to what the simulations take.
#pragma once

#include "weft/sim/nccl.h"
#include "weft/sim/sim.h"
#include "weft/topo/cluster.h"
#include "weft/topo/machine.h"

namespace weft::sim {

// Error(unsupported) for ranks without GPUs: NCCL has none.
NcclMachine nccl_machine(const topo::Cluster& cluster);

// LogGOPS costs of a protocol on a cluster: ranks are GPUs, node by node. A port is a GPU's way to its node (0) or out of
// it (1); a channel cannot go faster than NCCL's graph search says.
Network network_of(const topo::Cluster& cluster, NcclProtocol protocol = NcclProtocol::simple);

// The same for a plan: each of its link families has the costs of its own protocol, and its channels share the GPU's memory
// and arithmetic.
Network network_of(const topo::Cluster& cluster, const plan::Instance& instance);

// What a cost model takes for one GPU among `ranks`: to sort schedules before they are simulated.
topo::Machine machine_of(const topo::Cluster& cluster, int ranks);

}  // namespace weft::sim
