// The environment, checked whole: what base knows the forms of, and the names that the rooms above it know.
#pragma once

namespace weft::api {

// Error(user) with variable, value and what is allowed, for the first variable of base/env.h's table that is wrong:
// numbers and words as weft::check_environment(), and names of algorithms, protocols and operations in WEFT_ALGO,
// WEFT_PROTO, NCCL_ALGO and NCCL_PROTO.
void check_environment();

}  // namespace weft::api
