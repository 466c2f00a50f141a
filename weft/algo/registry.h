// One line per algorithm: its file defines it, registry.cpp lists it.
#pragma once

#include "weft/algo/algorithm.h"

namespace weft::algo {

const Algorithm& pairwise();
const Algorithm& direct();
const Algorithm& oneshot();
const Algorithm& mesh();
const Algorithm& ring();
const Algorithm& chain();
const Algorithm& gather_all();

}  // namespace weft::algo
