// Chunks are counted as a collective counts them (its own input and result, from 0), then placed in the plan's buffers: in
// place the smaller of both is a block of the larger one.
#include "weft/foreign/meaning.h"

namespace weft::foreign {
namespace {

// Of chunk k of rank r's result, in chunks of the collective's own inputs. `block`: chunks of a rank's share.
std::vector<Source> chunk_sources(const Msccl& s, int r, int64_t k) {
  const std::string& kind = s.collective;
  const int64_t owner = k / s.block, within = k % s.block, mine = r * s.block;
  const bool everywhere = kind == "allreduce" || kind == "allgather" || kind == "reduce_scatter" ||
                          kind == "alltoall" || kind == "broadcast" || kind == "scatter";
  if (!everywhere && !((kind == "reduce" || kind == "gather") && r == s.root)) return {};
  if (kind == "broadcast") return {{s.root, k}};
  if (kind == "scatter") return {{s.root, mine + k}};
  if (kind == "allgather" || kind == "gather") return {{static_cast<int>(owner), within}};
  if (kind == "alltoall") return {{static_cast<int>(owner), mine + within}};
  std::vector<Source> all;
  for (int q = 0; q < s.ranks; ++q) all.push_back({q, kind == "reduce_scatter" ? mine + k : k});
  return all;
}

}  // namespace

Ends ends_of(const Msccl& schedule) {
  const auto& buffers = schedule.plan.buffers;
  const bool two = buffers.size() > 1 && buffers[1].role == plan::Buffer::Role::out;
  return {0, two ? 1 : 0};
}

std::vector<Source> sources_of(const Msccl& schedule, int rank, int64_t part) {
  const Ends ends = ends_of(schedule);
  const bool one = ends.input == ends.result;
  const std::string& kind = schedule.collective;
  if (one && (kind == "reduce_scatter" || kind == "scatter")) {  // the result is this rank's block of the buffer
    if (part / schedule.block != rank) return {};
    part %= schedule.block;
  }
  std::vector<Source> sources = chunk_sources(schedule, rank, part);
  if (one && (kind == "allgather" || kind == "gather"))  // each input is its rank's block of the buffer
    for (Source& source : sources) source.part += source.rank * schedule.block;
  return sources;
}

}  // namespace weft::foreign
