// Plans of others: MSCCL's XML schedules, read into a plan.
//
// MSCCL runs what MSCCLang, TACCL, TE-CCL and other synthesisers write: one XML file that lists, for each GPU and thread
// block, steps of nine types over chunks of three buffers. It trusts its file: a dependency that is missing is a race,
// and a wait that is never met hangs the GPU. A thread block is a lane, a connection (channel, peer) is a link, a step is a
// step with some operands present, a dependency an await, the pass over the buffers a loop: so the file becomes a plan
// like any other, for the very number of ranks it names, and everything that reads plans (verifier, interpreter, CPU
// ranks, simulator, pictures) takes it. What its collective promises becomes the plan's posts. docs/foreign.md has the
// mapping, and what is not read.
#pragma once

#include <string>
#include <string_view>

#include "weft/plan/plan.h"

namespace weft::foreign {

struct Msccl {
  plan::Plan plan;         // lane tb3 is thread block 3, its step s2 that block's step 2, rank the GPU
  int ranks = 0;           // the plan admits this number only
  std::string collective;  // allreduce, allgather, reduce_scatter, alltoall, broadcast, reduce, gather, scatter, custom
  bool stated = true;      // the posts say what it computes; false (custom): they ask nothing
  int root = 0;            // of broadcast, reduce, gather, scatter
  int64_t block = 1;       // chunks of one rank's share, where a collective has shares
};

// Errors are of kind plan (or unsupported) with line and column, and name gpu, thread block and step. Only the file is
// checked here: that its values and connections are there. Whether it is right is plan::verify's to say.
Msccl read_msccl(std::string_view text);

// A text whose first element is <algo ...>.
bool is_msccl(std::string_view text);

}  // namespace weft::foreign
