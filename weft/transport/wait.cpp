// The slow side of waiting, and what a rank says when another one failed.
#include "weft/transport/wait.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>

#include "weft/base/env.h"
#include "weft/base/file.h"

namespace weft::transport {

int64_t spin_ns() {
  static const int64_t ns = env_int("WEFT_SPIN_US") * 1000;
  return ns;
}

void (*&while_waiting())() {
  thread_local void (*hook)() = nullptr;
  return hook;
}

int64_t clock_ns() { return now_ns(); }

void slow_round(Transport& transport, int64_t waited_ns, int64_t at_most_ns) {
  constexpr int64_t yield_ns = 500'000;  // a sleeper on the same core costs 2 us to wake, so yielding need not last
  transport.check_peers();
  if (const auto hook = while_waiting()) hook();
  if (transport.oversubscribed() && waited_ns < yield_ns) {
    sched_yield();
    return;
  }
  transport.park(std::clamp<int64_t>(std::min(at_most_ns, waited_ns), 50'000, 1'000'000));
}

void throw_failure(Transport& transport, std::string_view doing) {
  transport.note(doing);
  const Failure failure = transport.failure();
  const std::string here = doing.empty() ? "" : fmt::format("\n    (rank {} was {})", transport.rank(), doing);
  switch (failure.kind) {
    case ErrorKind::agreement:
    case ErrorKind::timeout:
    case ErrorKind::peer: throw Error(failure.kind, failure.message + here, failure.remedy);
    default:
      throw Error(ErrorKind::peer, fmt::format("rank {} failed: {}{}", failure.rank, failure.message, here),
                  failure.remedy);
  }
}

void prefault(void* data, int64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  const auto begin = reinterpret_cast<uintptr_t>(data) & ~uintptr_t{4095};
  const auto end = (reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes) + 4095) & ~uintptr_t{4095};
  if (madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (int64_t at = 0; at < bytes; at += 4096) {
    auto* p = static_cast<volatile char*>(data) + at;
    *p = *p;
  }
}

}  // namespace weft::transport
