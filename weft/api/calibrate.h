// A short calibration of this machine: what a byte, a hop, a message and a step cost with all ranks at work.
#pragma once

#include <functional>
#include <string>

#include "weft/topo/machine.h"

namespace weft::api {

// A few seconds. Processes unless `threads`. The result is not written anywhere.
topo::Machine calibrate(int ranks, bool threads, const std::function<void(const std::string&)>& progress = {});
// WEFT_MACHINE's file, else this machine's stored calibration for so many ranks (calibrated and stored when missing).
topo::Machine machine_for(int ranks, bool threads, const std::function<void(const std::string&)>& progress = {});

}  // namespace weft::api
