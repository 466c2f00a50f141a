// Launch configurations: what a schedule leaves open, as a space of five coordinates.
//
// Algorithm, protocol, channels, bytes of a chunk, and whether what is pushed bypasses the cache. A walk through this
// space goes along one coordinate at a time; the full product (some 300 points a schedule) is never built.
#pragma once

#include <vector>

#include "weft/lower/lower.h"
#include "weft/schedule/schedule.h"
#include "weft/tune/search.h"

namespace weft::tune {

constexpr int64_t default_chunk_bytes = 256 << 10;  // what a launch takes when nobody says (plan::default_chunk)

// One configuration for each algorithm that can carry the program's collectives of large values; a single empty one where
// there are none. Algorithms that do not keep rank order only with options.any_order.
std::vector<schedule::LaunchConfig> algorithm_configurations(const ir::Program& scheduled,
                                                             const SearchOptions& options);
// One step along each coordinate but the algorithm: the other protocols (only where the plan has links), half and twice
// the channels (1 to 4), a quarter and four times the chunk (up to the largest tensor), the other kind of stores.
std::vector<schedule::LaunchConfig> steps_from(const schedule::LaunchConfig& from, bool links, int64_t largest_bytes);
// "[direct ll128 channels 2 chunk 64.0 KiB stream]"; "" where nothing is said.
std::string print_configuration(const schedule::LaunchConfig& config);
// Of a schedule: its `launch *` line, or what such a line would say if it were empty.
schedule::LaunchConfig configuration_of(const schedule::Schedule& schedule);
// The same schedule with this configuration.
schedule::Schedule with_configuration(schedule::Schedule schedule, const schedule::LaunchConfig& config);

}  // namespace weft::tune
