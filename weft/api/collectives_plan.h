// From a call and a setting to a plan and its launch: the only place that knows how calls name plan buffers.
#pragma once

#include "weft/api/collectives_choice.h"
#include "weft/plan/launch.h"

namespace weft::api {

// The largest number there is where a product is beyond it: such a call is refused once ranks have agreed that it is one.
inline int64_t bounded_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}
bool is_uneven(const Call& call);   // one count per rank
bool by_part(Operation operation);  // the whole is one part per rank
int64_t part_count(const Call& call, int rank);
// Elements of the whole array S, of what this rank gives, and of what it gets.
int64_t whole_count(const Call& call, int ranks);
int64_t send_count(const Call& call, int ranks, int rank);
int64_t recv_count(const Call& call, int ranks, int rank);

// premul_sum is a sum of what was multiplied here: every rank has a scale of its own, which no header could agree on.
kernel::Reduction reduction_of(Combine combine);

plan::Plan call_plan(const Call& call, const Setting& setting);
// Equal keys, equal plans.
std::string plan_key(const Call& call, const Setting& setting);
plan::LaunchArgs call_args(const plan::Plan& plan, const Call& call, int ranks);
std::vector<int64_t> chunk_elements(const plan::Plan& plan, const Call& call, const Setting& setting);

// Error(user) for roots, counts, dtypes and aliases that are not legal.
void check_call(const Call& call, int ranks, int rank);

// count elements: to = from * scale, rounded to the dtype; at = at / ranks, toward zero.
void multiply(Dtype dtype, const void* from, void* to, int64_t count, double scale);
void divide(Dtype dtype, void* at, int64_t count, int64_t by);

}  // namespace weft::api
