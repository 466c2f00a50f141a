// at(list, i): the i-th element where indices are ints, as everywhere in a plan (ranks, lanes, buffers).
#pragma once

#include <cstddef>

namespace weft::plan {

template <typename T>
auto& at(T& list, int index) {
  return list[static_cast<size_t>(index)];
}

}  // namespace weft::plan
