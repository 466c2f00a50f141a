// What a schedule's collective must give, apart from plans: which chunks of which ranks' inputs each chunk of a result is
// made of. The posts of the plan say the same for every cell at once, and the verifier proves them; this says it chunk by
// chunk for whoever holds numbers (`weft run`), and was written from the collectives' definitions and not from the posts.
#pragma once

#include <vector>

#include "weft/foreign/msccl.h"

namespace weft::foreign {

struct Source {
  int rank = 0;
  int64_t part = 0;  // of that rank's input buffer, as the launch begins
};

// The buffers of the plan that hold input and result: one and the same where the schedule runs in place only.
struct Ends {
  int input = 0, result = 0;
};
Ends ends_of(const Msccl& schedule);

// What part `part` of rank's result buffer must be: the reduction of these (of one: its copy). Empty: nothing is asked,
// of parts that are not this rank's, and of `custom`.
std::vector<Source> sources_of(const Msccl& schedule, int rank, int64_t part);

}  // namespace weft::foreign
