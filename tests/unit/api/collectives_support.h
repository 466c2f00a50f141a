// Ranks with a Collectives each, over any transport, for tests of one kind of call.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "tests/support/errors.h"
#include "weft/api/collectives.h"
#include "weft/kernel/step_code.h"
#include "weft/transport/spec.h"

namespace weft::test {

inline bool says(const Error& error, const std::string& what) {
  return std::string(error.what()).find(what) != std::string::npos;
}

// "threads", "processes", "threads+tcp", "threads+mixed:group=2", ...
inline void on(const std::string& transport, int ranks, const std::function<void(Collectives&)>& body,
               double timeout_s = 30, int64_t arena_bytes = 1 << 22) {
  transport::RankOptions options;
  options.pin = false;
  options.timeout_ns = static_cast<int64_t>(timeout_s * 1e9);
  transport::run_ranks(
      transport, ranks,
      [&](transport::Transport& t) {
        const auto kernels = kernel::evaluator_library();
        runtime::Communicator communicator(t, *kernels);
        CollectiveOptions settings;
        settings.arena_bytes = arena_bytes;
        Collectives comm(communicator, settings);
        body(comm);
        comm.barrier();
      },
      options);
}

// Memory that peers map, or null where there is none: over a network.
template <typename T>
T* arena_of(Collectives& comm, int64_t count) {
  try {
    return static_cast<T*>(comm.arena_allocate(count * static_cast<int64_t>(sizeof(T))));
  } catch (const Error&) { return nullptr; }
}

// Tells rank and index.
inline int64_t coded(int rank, int64_t index) { return rank * 1'000'003 + index * 7 + 1; }

inline std::vector<int64_t> coded_by(int rank, int64_t count, int64_t first = 0) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = coded(rank, first + i);
  return values;
}

}  // namespace weft::test
