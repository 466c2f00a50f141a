// One launch from its header to its end, and what happens while it waits.
//
// A wait is polled hard for a microsecond, then with pauses up to WEFT_SPIN_US, then slowly: credits that were held
// back are pushed, headers compared, peers looked after, the core given away. Deadlines are read from the clock.
#include <sched.h>

#include <algorithm>

#include "weft/base/hash.h"
#include "weft/base/text.h"
#include "weft/runtime/bound.h"
#include "weft/transport/wait.h"

namespace weft::runtime {
namespace {

bool equal(const expr::ScalarValue& a, const expr::ScalarValue& b) {
  return a.is_integer == b.is_integer && (a.is_integer ? a.integer == b.integer : a.number == b.number);
}

// Once per launch, and only where a scalar changed: values that the code of steps takes as constants.
void prepare(BoundState& state, std::span<const expr::ScalarValue> scalars) {
  const bool given = !scalars.empty();
  if (given && scalars.size() != state.scalars.size())
    throw Error(ErrorKind::user,
                fmt::format("plan {} takes {} scalars ({}), the launch gives {}", state.loaded->name(),
                            state.scalars.size(), join(state.loaded->scalar_names, ", "), scalars.size()));
  if (state.prepared && (!given || std::equal(scalars.begin(), scalars.end(), state.scalars.begin(), equal))) return;
  if (given) std::copy(scalars.begin(), scalars.end(), state.scalars.begin());
  for (const CodeUse& use : state.loaded->code_uses) {
    if (!use.code.prepare) continue;
    std::array<expr::ScalarValue, 32> mine;
    if (use.scalars.size() > mine.size())
      throw Error(ErrorKind::unsupported, fmt::format("a kernel with {} scalars", use.scalars.size()),
                  "use 32 at most");
    for (size_t i = 0; i < use.scalars.size(); ++i) mine[i] = state.scalars[static_cast<size_t>(use.scalars[i])];
    use.code.prepare(mine.data(), state.loaded->instance.ranks(), state.hoisted.get() + use.offset, use.code.self);
  }
  uint64_t hash = state.hash;
  for (size_t i = 0; i < state.scalars.size(); ++i) {
    const double value = state.own_scalars[i] ? 0 : state.scalars[i].as_f64();
    hash = hash64(std::string_view(reinterpret_cast<const char*>(&value), sizeof value), hash);
  }
  state.scalar_hash = hash;
  state.prepared = true;
}

void compare_headers(Launch& launch, int64_t waited_ns);

std::string waiting_since(const Launch& launch, int64_t waited_ns) {
  return fmt::format("{}, since {} (plan {}, launch {})", waiting(launch), human_ns(static_cast<double>(waited_ns)),
                     launch.state->loaded->name(), launch.number);
}

[[noreturn]] void late(Launch& launch, int64_t waited_ns) {
  transport::Transport& transport = launch.owner->transport;
  compare_headers(launch, waited_ns);
  const auto& context = launch.owner->timeout_context;
  const std::string message = waiting_since(launch, waited_ns) + (context ? "\n    " + context() : "");
  const std::string remedy = transport::timeout_remedy(transport.timeout_ns());
  transport.note(message);  // a peer's deadline may have passed a moment before: then this is one of the others' lines
  transport.raise({ErrorKind::timeout, transport.rank(), message, remedy});
  throw Error(ErrorKind::timeout, message, remedy);
}

void compare_headers(Launch& launch, int64_t waited_ns) {
  for (int channel = 0; channel < launch.state->loaded->instance.channels(); ++channel)
    launch.owner->agreement.compare(channel, waited_ns);
}

[[noreturn]] void meet_stranger(Launch& launch) {
  if (launch.stranger_bytes < 0)
    launch.owner->agreement.stranger(launch.stranger_channel, launch.stranger, waiting(launch));
  compare_headers(launch, 0);
  transport::Transport& transport = launch.owner->transport;
  const std::string message = fmt::format("counts differ: {} and gets {} bytes, not the {} of its own counts",
                                          waiting(launch), launch.stranger_bytes, launch.expected_bytes);
  transport.raise({ErrorKind::agreement, transport.rank(), message});
  transport::throw_failure(transport, "");
}

constexpr int64_t first_compare_ns = 50'000, compare_every_ns = 1'000'000;

// How long nothing has moved, and what was done about it.
struct Idle {
  int64_t polls = 0, begin_ns = 0, compared_ns = 0;
};

void slow_wait(Launch& launch, Idle& idle, int64_t waited_ns) {
  transport::Transport& transport = launch.owner->transport;
  if (launch.owner->mirrors) transport.flush(true);
  if (waited_ns > (idle.compared_ns ? idle.compared_ns + compare_every_ns : first_compare_ns)) {
    idle.compared_ns = waited_ns;
    compare_headers(launch, waited_ns);
  }
  if (waited_ns > transport.timeout_ns()) late(launch, waited_ns);
  transport::slow_round(transport, waited_ns, transport.timeout_ns() - waited_ns + 1);
}

void wait_a_little(Launch& launch, Idle& idle) {
  transport::Transport& transport = launch.owner->transport;
  constexpr int hard_polls = 300, polls_per_look = 16;
  ++idle.polls;
  if (!transport.oversubscribed() && idle.polls < hard_polls) return;
  if (idle.begin_ns == 0) {
    idle.begin_ns = transport::clock_ns();
    for (const auto& rings : launch.owner->ring_sets) rings->push_credits(transport);
  }
  if (!transport.oversubscribed() && idle.polls % polls_per_look != 0) return transport::cpu_relax();
  const int64_t waited_ns = transport::clock_ns() - idle.begin_ns;
  if (transport.abort_word().load(std::memory_order_acquire))
    transport::throw_failure(transport, waiting_since(launch, waited_ns));
  advance_others(*launch.owner);
  if (transport.oversubscribed() || waited_ns >= transport::spin_ns()) slow_wait(launch, idle, waited_ns);
}

}  // namespace

void drive(Launch& launch) {
  Idle idle;
  for (;;) {
    const uint64_t before = launch.moves;
    if (advance(launch) && (!launch.owner->mirrors || launch.owner->transport.flush(false))) return;
    if (launch.owner->mirrors && launch.owner->transport.progress()) ++launch.moves;
    if (__builtin_expect(launch.stranger >= 0, 0)) meet_stranger(launch);
    if (launch.moves != before)
      idle = {};
    else
      wait_a_little(launch, idle);
  }
}

bool poll(Launch& launch) {
  const uint64_t before = launch.moves;
  const bool complete = advance(launch);
  if (__builtin_expect(launch.stranger >= 0, 0)) meet_stranger(launch);
  if (complete || launch.moves != before) {
    launch.still_since_ns = launch.compared_ns = 0;
    return complete;
  }
  const int64_t now = transport::clock_ns();
  if (launch.still_since_ns == 0) launch.still_since_ns = launch.compared_ns = now;
  if (now - launch.compared_ns < (launch.compared_ns == launch.still_since_ns ? first_compare_ns : compare_every_ns))
    return false;
  launch.compared_ns = now;
  compare_headers(launch, now - launch.still_since_ns);
  return false;
}

Launch& begin(BoundState& state, std::span<const expr::ScalarValue> scalars) {
  Loaded& loaded = *state.loaded;
  Launch& launch = state.launch;
  prepare(state, scalars);
  launch.state = &state;
  launch.owner = &loaded.owner;
  launch.number = loaded.launches;
  launch.serial = ++loaded.owner.launches;
  launch.stranger = -1, launch.stranger_bytes = -1;
  launch.still_since_ns = launch.compared_ns = 0;
  launch.instrumented = loaded.owner.recording || loaded.owner.delay_hook || loaded.owner.timeline;
  const int64_t now = launch.instrumented ? transport::clock_ns() : 0;
  Agreement& agreement = loaded.owner.agreement;
  if (loaded.instance.ranks() > 1) {
    if (!agreement.described(state.binding)) agreement.describe(state.binding, state.text);
    for (int channel = 0; channel < loaded.instance.channels(); ++channel)
      launch.flags[static_cast<size_t>(channel)] =
          agreement.begin(channel, state.scalar_hash, state.binding, state.scalars) << number_bits;
  }
  for (Cursor& cursor : state.cursors)
    cursor.free_since_ns = now, cursor.block = cursor.step = 0, cursor.slice = 0, cursor.chunk = 0,
    cursor.entered = cursor.finished = false;
  return launch;
}

void end(Launch& launch) {
  BoundState& state = *launch.state;
  Loaded& loaded = *state.loaded;
  for (Cursor& cursor : state.cursors)
    for (BoundBlock& block : cursor.blocks) block.counter->base += block.iterations;
  for (size_t i = 0; i < loaded.shadows.size(); ++i) loaded.shadows[i]->base += state.advance_by[i];
  ++loaded.launches;
}

}  // namespace weft::runtime
