// A short calibration of this machine: what a byte, a hop, a message and a step cost with all ranks at work.
#pragma once

#include <functional>
#include <string>

#include "weft/topo/machine.h"
#include "weft/transport/transport.h"

namespace weft::api {

// How many ranks a calibration for `ranks` starts: all of them up to 16 or two a core. More would measure the operating
// system's scheduler, and a question about 1,024 ranks must not start 1,024 processes.
int measured_ranks(int ranks);
// A few seconds, on a transport (transport/spec.h). The result is not written anywhere.
topo::Machine calibrate(int ranks, std::string_view transport,
                        const std::function<void(const std::string&)>& progress = {});
// WEFT_MACHINE's file, else this machine's stored calibration for so many ranks (calibrated and stored when missing). Where
// the transport has a layer, what it carries is measured each time: it is quick, and depends on its words.
topo::Machine machine_for(int ranks, std::string_view transport,
                          const std::function<void(const std::string&)>& progress = {});

// The same on the ranks of a running program (collective): rank 0's stored calibration, else measured now, not stored.
topo::Machine machine_among(transport::Transport& transport);

}  // namespace weft::api
