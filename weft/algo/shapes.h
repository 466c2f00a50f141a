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

// Sums that grow from round to round, chunk by chunk in scratch. `first` is the condition, in text, under which nothing
// was added yet, so that a rank has its contribution and no sum: one line serves all rounds.
plan::Buffer partial_sums(const ScatterSite& site);
std::vector<plan::Operand> held(const ScatterSite& site, const plan::Parts& parts, const std::string& first);
plan::Step add(const ScatterSite& site, const plan::Id& label, std::vector<plan::Operand> sources,
               plan::Operand target);  // label + suffix: reduction(sources) -> target

// What algorithms that want a power of two do with other numbers of ranks: m = p2floor(n) of them, the cores, take
// part, and the first e = n-m even ranks speak for their odd neighbours. As lets: hd_m, hd_e; hd_home, who speaks for
// this rank, none if it does itself; hd_extra, for whom it speaks, or none; hd_core, its number among the cores.
std::vector<plan::Let> core_lets();
// The rank of a core, which is also the first of the parts that are its own (and its neighbour's): min(2i, i+e).
std::string rank_of_core(const std::string& core);
int largest_power_of_two(int ranks);
int log2_ceiling(int ranks);
// Messages one behind the other: a fold before the rounds and one after them are on one way only if there are so many
// that two ranks which speak for others are as far apart as the rounds go.
double folded_hops(int ranks);

// Bytes and messages of the busiest rank for the rooted collectives of a star and a relay.
Algorithm::Cost star_cost(Collective collective, int ranks, double bytes);
Algorithm::Cost relay_cost(Collective collective, int ranks, double bytes);

}  // namespace weft::algo
