// Looking names up in a plan. Plans have tens of names at most, so a linear search beats any index that would have to be
// kept in step with vectors that programs and parsers fill by hand.
#include "weft/plan/plan.h"

namespace weft::plan {
namespace {

template <typename T>
int find(const std::vector<T>& list, const Id& name) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].name == name) return static_cast<int>(i);
  return -1;
}

}  // namespace

int find_space(const Plan& plan, const Id& name) { return find(plan.spaces, name); }
int find_buffer(const Plan& plan, const Id& name) { return find(plan.buffers, name); }
int find_family(const Plan& plan, const Id& name) { return find(plan.families, name); }
int find_lane(const Plan& plan, const Id& name) { return find(plan.lanes, name); }
int find_kernel(const Plan& plan, const Id& name) { return find(plan.kernels, name); }

const Space& space_of(const Plan& plan, const Id& buffer) {
  const int b = find_buffer(plan, buffer);
  const int s = b < 0 ? -1 : find_space(plan, plan.buffers[static_cast<size_t>(b)].space);
  if (s < 0)
    throw Error(ErrorKind::plan, fmt::format("no buffer {} with a space of this plan", buffer),
                "declare the space and the buffer", "V1");
  return plan.spaces[static_cast<size_t>(s)];
}

}  // namespace weft::plan
