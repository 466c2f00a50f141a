// What forking must not meet, and what must not meet a fork.
#pragma once

#include "weft/transport/transport.h"

namespace weft::transport {

// Threads of this process.
int thread_count();
// Ends the pools of idle threads that an OpenMP library keeps, then throws Error(user) where this process still has
// another thread, with their number and names.
void require_one_thread();

}  // namespace weft::transport
