// Inside api/: what a message costs where ranks share no memory.
#pragma once

#include <functional>
#include <string>

#include "weft/topo/machine.h"

namespace weft::api {

// Sets machine.wire_ns and wire_bytes_per_s by messages between the first and the last of `ranks` ranks on `transport`
// (transport/spec.h). Nothing to do where it has no layer, or for one rank.
void measure_wire(topo::Machine& machine, int ranks, std::string_view transport,
                  const std::function<void(const std::string&)>& progress);

}  // namespace weft::api
