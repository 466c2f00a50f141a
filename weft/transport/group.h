// Some ranks of a transport as a transport of their own, numbered from 0 in an order of their choice.
//
// Problem: a group's ranks must share memory and exchange without the others, who are busy elsewhere; but memory is made
// by all ranks of a transport together. Ways: pass descriptors from rank to rank (needs sockets between all pairs), ask
// the ranks outside (they would have to come), or take the memory in advance. We take it in advance: a pool per rank,
// sparse (what is not touched costs nothing), made by all when the ranks are split, from which a group cuts what it needs.
// Over a network the pool is mirrored, and a put in the group is a put in the pool.
//
// Deadlines, the abort word, sleeping and deaths are the parent's: a failure in a group ends all of the parent's ranks, and
// its message names the group. The parent must outlive it.
#pragma once

#include <memory>
#include <vector>

#include "weft/transport/transport.h"

namespace weft::transport {

struct Group {
  std::unique_ptr<Transport> transport;  // null: this rank is in none
  std::vector<int> members;              // their ranks in the parent
};

// Collective over the parent. Ranks of one color are a group, ordered by key, then by rank; color < 0: in none.
Group split(Transport& parent, int color, int key);

}  // namespace weft::transport
