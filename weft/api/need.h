// How much memory a job will take, asked before any of it is taken; and sizes that a check can afford.
//
// Linux grants memory it does not have and ends a process when it is touched, so that "too little" has to be found by
// counting first. What is free is what the machine, the control groups above us and `ulimit -v` leave.
#pragma once

#include <string>
#include <vector>

#include "weft/ir/evaluate.h"
#include "weft/tune/search.h"

namespace weft::api {

// Error(io) with need, free memory and remedy where `bytes` are more than what is free now.
void require_memory(double bytes, const std::string& what, const std::string& remedy);
// Bytes of the buffers that all ranks together lay out for the hungriest of the trials.
double ranks_bytes(const std::vector<tune::Trial>& trials, const ir::Sizes& sizes);
// Bytes that the reference evaluator holds at once for so many launches, all ranks together (what is transient within an
// operation is not counted; a tenth is added for it).
double reference_bytes(const ir::Program& program, const ir::Sizes& sizes, int launches);

// The same tensors and sizes, scaled down until no value of the program has more than so many elements (what cannot be
// scaled, written integers, stays). The longest dimension goes first and gives at most half each time, so that all
// come down together. Where the program requires something of its sizes, to the next smaller ones of which it holds; where
// none are near, the sizes stay as they are.
ir::Sizes scaled(const ir::Program& program, const ir::Sizes& sizes, int64_t elements);

}  // namespace weft::api
