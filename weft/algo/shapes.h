// Shapes that several algorithms share: a star (everybody talks to one rank) and a relay (rank to rank in a row).
#pragma once

#include "weft/algo/build.h"

namespace weft::algo {

// Everybody sends its whole contribution to `root`, which folds them in rank order, once. Root carries (n-1) S.
Half star_reduce(const ScatterSite& site, const plan::Expr& root);
// The root sends the whole value to everybody.
Half star_spread(const GatherSite& site, const plan::Expr& root);
// From the root upward, rank to rank, wrapping: every rank forwards S once; pipelined by chunk.
Half relay_spread(const GatherSite& site, const plan::Expr& root);

// Bytes and messages of the busiest rank for the rooted collectives of a star and a relay.
Algorithm::Cost star_cost(Collective collective, int ranks, double bytes);
Algorithm::Cost relay_cost(Collective collective, int ranks, double bytes);

}  // namespace weft::algo
