// The choice of an algorithm: cost rows, and the cheapest of them.
//
// A row is a pure function of (collective, ranks, bytes, machine), so that all ranks choose alike and a tuner can put
// its own measurements in a row's place. The model is the literature's: steps * alpha + bytes / B, and what is folded
// (collectives.md; Thakur, Rabenseifner, Gropp 2005; Hockney's alpha and beta). It knows nothing of protocols,
// contention or caches; what measures does (weft/tune, weft/api).
#pragma once

#include "weft/algo/algorithm.h"

namespace weft::algo {

struct Machine {
  double alpha_s = 5e-6;              // of one message, from send to receive
  double bytes_per_s = 50e9;          // that a rank sends, and at the same time receives
  double folded_bytes_per_s = 200e9;  // that a rank reduces
  int host_ranks = 0;                 // ranks of a host, in a row; 0: all ranks are alike
  double host_alpha_s = 1e-6;         // the same inside a host
  double host_bytes_per_s = 200e9;
  bool mapped = false;  // peers may map the buffers
};

struct CostRow {
  const Algorithm* algorithm = nullptr;
  double steps = 0;  // dependent messages, or those that the busiest rank sends or gets if that is more
  double bytes = 0;  // through the busiest rank, one way
  double bytes_folded = 0;
  double time_s = 0;  // with the chunk that is best for values which ranks pass on
};

struct Wanted {
  Collective collective = Collective::all_reduce;
  int ranks = 1;
  double bytes = 0;  // S: the whole value
  Counts counts = Counts::even;
  plan::Order order = plan::Order::rank;  // the least that reductions must keep
};

// One algorithm's row. Mapped algorithms: crossing bytes instead of messages.
CostRow cost_row(const Algorithm& algorithm, const Wanted& wanted, const Machine& machine);
// Of every algorithm that may be taken, cheapest first; equals in the registry's order. Not the yardstick. Among them
// hierarchical, where hosts share the ranks evenly.
std::vector<CostRow> cost_rows(const Wanted& wanted, const Machine& machine);
// The first of them. Error(unsupported) where there is none, with what would have to be allowed.
const Algorithm& select(const Wanted& wanted, const Machine& machine);

}  // namespace weft::algo
