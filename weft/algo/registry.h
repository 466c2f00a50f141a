// One line per algorithm: its file defines it, registry.cpp lists it.
#pragma once

#include "weft/algo/algorithm.h"

namespace weft::algo {

const Algorithm& pairwise();
const Algorithm& direct();
const Algorithm& pull();
const Algorithm& oneshot();
const Algorithm& mesh();
const Algorithm& ring();
const Algorithm& chain();
const Algorithm& gather_all();
const Algorithm& halving();
const Algorithm& doubling();
const Algorithm& bruck();
const Algorithm& pat();
const Algorithm& tree();
const Algorithm& binomial();
const Algorithm& dissemination();
// For hosts of so many ranks; not in the list, found as "hierarchical:4". Kept for good.
const Algorithm& hierarchical(int host_ranks);

}  // namespace weft::algo
