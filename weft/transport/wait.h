// Waiting: spin, then yield or park, always with an eye on the abort word and the clock.
//
// A hand-off costs 0.1 us when both ranks spin and 20 to 60 us when a sleeper is woken, so the first WEFT_SPIN_US are
// spun; with more ranks than cores a spinner only keeps the peer from running, so it yields at once. Deadlines are read
// from the clock, never counted in spins: a machine under load must not time out earlier.
#pragma once

#include <cstdint>

#include "weft/transport/transport.h"

namespace weft::transport {

enum class Waited { ready, aborted, late };

int64_t spin_ns();  // WEFT_SPIN_US, read once

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// One slow round: gives the core away (yield, or park for at most `at_most_ns`) and looks after the peers.
void slow_round(Transport& transport, int64_t waited_ns, int64_t at_most_ns);

// Called in every slow round of this thread's waits, where it is set: what else could go on meanwhile. null: nothing.
void (*&while_waiting())();

int64_t clock_ns();

template <typename Ready>
Waited wait_until(Transport& transport, int64_t timeout_ns, Ready&& ready) {
  if (ready()) return Waited::ready;
  const bool mirrors = transport.mirrors();
  if (mirrors) transport.flush(true);
  const int64_t begin = clock_ns(), spin = transport.oversubscribed() ? 0 : spin_ns();
  int64_t waited = 0;
  while (waited < spin) {
    for (int i = 0; i < 32; ++i) {
      if (mirrors) transport.progress();
      if (ready()) return Waited::ready;
      cpu_relax();
    }
    if (transport.abort_word().load(std::memory_order_acquire)) return Waited::aborted;
    waited = clock_ns() - begin;
  }
  for (;;) {
    if (mirrors) transport.progress();
    if (ready()) return Waited::ready;
    if (transport.abort_word().load(std::memory_order_acquire)) return Waited::aborted;
    if (waited > timeout_ns) return Waited::late;
    slow_round(transport, waited, timeout_ns - waited + 1);
    waited = clock_ns() - begin;
  }
}

}  // namespace weft::transport
