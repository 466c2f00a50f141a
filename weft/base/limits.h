// Limits that a text is held to where it is read, and a launch where it runs: one number, said once.
#pragma once

namespace weft {

// Of a plan. The runtime's board has a header for each; 64 is more than any machine has use for.
constexpr int most_channels = 64;

}  // namespace weft
