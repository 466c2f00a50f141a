// Connections between all pairs of ranks, each proved by the job's secret.
#pragma once

#include <array>
#include <vector>

#include "weft/transport/socket.h"

namespace weft::transport {

using Secret = std::array<unsigned char, 32>;
Secret random_secret();
Secret secret_of(std::string_view text);  // a word of the user's, spread over 32 bytes

struct MeshOptions {
  int rank = 0, ranks = 1, sockets = 1;
  Secret secret{};
  int64_t until_ns = 0;
};
// sockets[peer][i]. `addresses` of the ranks' listeners ("host:port"). Errors name who did not come.
std::vector<std::vector<Fd>> connect_mesh(int listener, const std::vector<std::string>& addresses,
                                          const MeshOptions& options);

// Rank 0 gathers a string from each rank and gives all of them to each.
std::vector<std::string> meet_at(const std::string& meeting, const std::string& mine, const MeshOptions& options);

}  // namespace weft::transport
