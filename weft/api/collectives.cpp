// The engine behind Collectives: header, meeting, table, launch; and the queue of started calls.
//
// A call goes: [header] -> (large: meet) -> table -> launch. The table is direct-mapped and bounded; an entry is a bound
// launch of exactly this call on exactly this memory of all ranks. What is not there is made: a setting is chosen, its
// plan loaded (collective: all ranks miss together, since they share the calls), memory bound. Started calls stand in a
// queue and take the same way without blocking.
#include "weft/api/collectives.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include "weft/api/collectives_memory.h"
#include "weft/api/collectives_plan.h"
#include "weft/base/env.h"
#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/runtime/loaded.h"
#include "weft/transport/wait.h"

namespace weft {
namespace {

using api::CallHeader;
using api::CallShape;
using api::Place;
using api::Setting;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdull;
}

uint64_t hash_counts(std::span<const int64_t> counts) {
  if (counts.empty()) return 0;
  return hash64({reinterpret_cast<const char*>(counts.data()), counts.size() * sizeof(int64_t)}) | 1;
}

// What an entry of the table is for: all of it is compared.
struct Key {
  uint64_t what = 0, count = 0, counts_hash = 0, placement = 0;
  const void* send = nullptr;
  void* recv = nullptr;
  bool operator==(const Key&) const = default;
  uint64_t hash() const {
    uint64_t h = mix(what, count ^ counts_hash);
    h = mix(h, reinterpret_cast<uintptr_t>(send));
    h = mix(h, reinterpret_cast<uintptr_t>(recv) ^ placement);
    return h ^ (h >> 29);
  }
};

Key key_of(const Call& call, uint64_t counts_hash, uint64_t placement) {
  Key key;
  key.what = static_cast<uint64_t>(call.operation) | static_cast<uint64_t>(call.dtype) << 8 |
             static_cast<uint64_t>(call.combine) << 16 | static_cast<uint64_t>(static_cast<uint32_t>(call.root)) << 32;
  key.count = static_cast<uint64_t>(call.count);
  key.counts_hash = counts_hash;
  key.placement = placement;
  key.send = call.send;
  key.recv = call.recv;
  return key;
}

std::string first_of(const std::string& given, const char* ours, const char* nccls) {
  if (!given.empty()) return given;
  const std::string own = env(ours);
  return own.empty() ? env(nccls) : own;
}

// Non-blocking calls in progress on this thread, over all communicators: whoever waits advances them all.
std::vector<Collectives::Impl*>& busy_engines() {
  thread_local std::vector<Collectives::Impl*> list;
  return list;
}

}  // namespace

struct Pending::State {
  Collectives::Impl* owner = nullptr;
  Call call;
  std::vector<int64_t> counts;
  enum class Phase { queued, meeting, running, complete } phase = Phase::queued;
  runtime::Work work;
  std::shared_ptr<std::byte[]> scaled;
};

struct Collectives::Impl {
  Impl(runtime::Communicator& c, const CollectiveOptions& options);
  ~Impl();

  struct Entry {
    Key key;
    Setting setting;
    std::shared_ptr<runtime::Loaded> loaded;
    plan::LaunchArgs args;
    std::unique_ptr<runtime::Bound> bound;
    std::vector<std::shared_ptr<transport::Window>> windows;
  };

  void run(const Call& call);
  void run_one(const Call& call);
  bool alone(const Call& call);
  bool is_small(const Call& call) const {
    return bytes_of(call) <= small_limits[static_cast<size_t>(call.operation)] && call.counts.empty();
  }
  int64_t bytes_of(const Call& call) const { return api::whole_count(call, size) * size_bytes(call.dtype); }
  CallHeader header_of(const Call& call, bool small) const;
  uint64_t placement() const;
  Entry& entry_for(const Call& call, bool small);
  void fill(Entry& entry, const Call& call, bool small);
  Setting choose(const Call& call, bool small) const;
  CallShape shape_of(const Call& call, bool small) const;
  std::shared_ptr<runtime::Loaded> loaded_for(const Call& call, const Setting& setting);
  void agree_on_load(const Call& call);
  void map_buffers(Entry& entry, const Call& call);
  void bind(Entry& entry);
  void forget(const void* region);

  bool progress();  // of the queue; true: it is empty
  bool advance(Pending::State& state);
  void begin(Pending::State& state);
  void launch(Pending::State& state);
  void complete(Pending::State& state);
  Call scaled(const Call& call, std::shared_ptr<std::byte[]>& memory) const;

  runtime::Communicator& communicator;
  const int rank, size;
  api::Meeting meeting;
  api::Regions regions;
  api::ChoiceSettings settings;
  std::array<int64_t, 16> small_limits{};
  std::map<std::string, std::shared_ptr<runtime::Loaded>> plans;
  static constexpr size_t table_size = 1024;
  std::vector<Entry> table{table_size};
  std::deque<std::shared_ptr<Pending::State>> queue;
};

// ---- creation
namespace {

api::ChoiceSettings settings_from(const CollectiveOptions& options, const transport::Transport& transport) {
  api::ChoiceSettings settings;
  settings.algorithms = first_of(options.algorithms, "WEFT_ALGO", "NCCL_ALGO");
  settings.protocols = first_of(options.protocols, "WEFT_PROTO", "NCCL_PROTO");
  settings.any_order = options.any_order;
  settings.oversubscribed = transport.oversubscribed();
  settings.network = transport.mirrors();
  const std::string file = first_of(options.tuning_file, "WEFT_COLLECTIVES_TUNING", "WEFT_COLLECTIVES_TUNING");
  if (!file.empty()) settings.rules = api::parse_rules(read_file(file));
  api::check_filters(settings);
  return settings;
}

int64_t arena_bytes(const CollectiveOptions& options, int ranks) {
  constexpr int64_t most = int64_t{64} << 30;
  if (options.arena_bytes >= 0) return options.arena_bytes;
  if (const std::string text = env("WEFT_ARENA"); !text.empty()) return parse_count(text);
  return std::min(most, free_memory_bytes() / (2 * ranks)) / (2 << 20) * (2 << 20);
}

// Rank 0 decides, so that differing environments cannot split the ranks; its failure is everybody's.
std::string told_by_first(transport::Transport& transport, const CollectiveOptions& options) {
  std::string mine;
  if (transport.rank() == 0) {
    try {
      const api::ChoiceSettings settings = settings_from(options, transport);
      mine = fmt::format("+{}\n{}", transport.mirrors() ? 0 : arena_bytes(options, transport.size()),
                         api::print(settings));
    } catch (const Error& error) { mine = fmt::format("-{}", error.what()); }
  }
  const std::string told = transport.exchange(mine, "settings of collectives")[0];
  if (told[0] == '-') throw Error(ErrorKind::user, told.substr(1));
  return told.substr(1);
}

}  // namespace

Collectives::Impl::Impl(runtime::Communicator& c, const CollectiveOptions& options)
    : communicator(c), rank(c.rank()), size(c.size()), meeting(c), regions(c) {
  const std::string told = told_by_first(c.transport(), options);
  const size_t line = told.find('\n');
  settings = api::parse_settings(told.substr(line + 1));
  const int64_t arena = std::stoll(told.substr(0, line));
  if (arena > 0) regions.reserve_arena(arena);
  for (const Operation operation : all_operations())
    small_limits[static_cast<size_t>(operation)] =
        settings.network ? INT64_MAX : api::small_bytes(settings, operation, size);
  if (rank == 0 && !settings.algorithms.empty())
    WEFT_LOG(warn, "collectives", "algorithms are restricted to \"{}\": sums need not be in rank order",
             settings.algorithms);
}

Collectives::Impl::~Impl() {
  auto& list = busy_engines();
  list.erase(std::remove(list.begin(), list.end(), this), list.end());
}

// ---- one call
CallHeader Collectives::Impl::header_of(const Call& call, bool small) const {
  CallHeader header;
  header.operation = call.operation;
  header.dtype = call.dtype;
  header.combine = call.combine;
  header.root = call.root;
  header.count = call.count;
  header.counts_hash = hash_counts(call.counts);
  header.in_place = call.send == call.recv;
  if (small) return header;
  const int64_t element = size_bytes(call.dtype);
  header.send = regions.find(call.send ? call.send : call.recv, api::send_count(call, size, rank) * element);
  header.recv = regions.find(call.recv ? call.recv : call.send, api::recv_count(call, size, rank) * element);
  return header;
}

uint64_t Collectives::Impl::placement() const {
  uint64_t hash = 1;
  for (const CallHeader& header : meeting.headers()) {
    hash = mix(hash, static_cast<uint64_t>(header.send.offset) << 16 ^ header.send.region);
    hash = mix(hash, static_cast<uint64_t>(header.recv.offset) << 16 ^ header.recv.region ^
                         (header.in_place ? uint64_t{1} << 63 : 0));
  }
  return hash;
}

void Collectives::Impl::run(const Call& call) {
  if (__builtin_expect(!queue.empty() || !busy_engines().empty(), 0)) {
    auto state = std::make_shared<Pending::State>();
    state->owner = this;
    state->call = call;
    if (queue.empty()) busy_engines().push_back(this);
    queue.push_back(state);
    return Pending(state).wait();
  }
  run_one(call);
}

// Nothing to tell anybody: one rank.
bool Collectives::Impl::alone(const Call& call) {
  if (size > 1) return false;
  api::check_call(call, size, rank);
  const int64_t count = api::recv_count(call, size, rank);
  if (call.combine == Combine::premul_sum && reduces(call.operation))
    api::multiply(call.dtype, call.send, call.recv, count, call.scale);
  else if (count > 0 && call.send != call.recv)
    std::memmove(call.recv, call.send, static_cast<size_t>(count * size_bytes(call.dtype)));
  return true;
}

void Collectives::Impl::run_one(const Call& call) {
  if (alone(call)) return;
  const bool small = is_small(call) && call.count > 0;
  if (small && call.combine != Combine::premul_sum) {
    meeting.publish(header_of(call, true));
    if (__builtin_expect(meeting.must_meet(), 0)) meeting.wait();
    entry_for(call, true).bound->launch();
    return;
  }
  api::check_call(call, size, rank);
  std::shared_ptr<std::byte[]> memory;
  const Call now = scaled(call, memory);
  meeting.publish(header_of(now, small));
  if (!small || meeting.must_meet()) meeting.wait();
  if (now.operation == Operation::barrier || api::whole_count(now, size) == 0) return;
  entry_for(now, small).bound->launch();
}

// premul_sum: what this rank gives is multiplied into memory of its own first.
Call Collectives::Impl::scaled(const Call& call, std::shared_ptr<std::byte[]>& memory) const {
  if (call.combine != Combine::premul_sum || !reduces(call.operation)) return call;
  Call now = call;
  const int64_t count = api::send_count(call, size, rank);
  void* to = call.recv;
  if (call.operation != Operation::all_reduce) {
    memory.reset(new std::byte[static_cast<size_t>(count * size_bytes(call.dtype)) + 1]);
    to = memory.get();
  }
  api::multiply(call.dtype, call.send, to, count, call.scale);
  now.send = to;
  return now;
}

// ---- the table
Collectives::Impl::Entry& Collectives::Impl::entry_for(const Call& call, bool small) {
  const Key key = key_of(call, hash_counts(call.counts), small ? 0 : placement());
  Entry& entry = table[key.hash() % table_size];
  if (__builtin_expect(entry.bound != nullptr && entry.key == key, 1)) return entry;
  entry = Entry();
  entry.key = key;
  fill(entry, call, small);
  return entry;
}

CallShape Collectives::Impl::shape_of(const Call& call, bool small) const {
  CallShape shape;
  shape.operation = call.operation;
  shape.dtype = call.dtype;
  shape.ranks = size;
  shape.bytes = bytes_of(call);
  shape.given = !call.counts.empty();
  if (small) return shape;
  shape.send_mapped = shape.recv_mapped = true;
  int in_place = 0;
  for (const CallHeader& header : meeting.headers()) {
    shape.send_mapped &= header.send.region != 0;
    shape.recv_mapped &= header.recv.region != 0;
    in_place += header.in_place;
  }
  shape.in_place = in_place > 0;
  shape.apart = call.operation == Operation::all_reduce && in_place > 0 && in_place < size;
  return shape;
}

void Collectives::Impl::fill(Entry& entry, const Call& call, bool small) {
  api::check_call(call, size, rank);
  entry.setting = api::choose(shape_of(call, small), settings);
  entry.loaded = loaded_for(call, entry.setting);
  entry.args = api::call_args(entry.loaded->instance.plan(), call, size);
  if (!small && entry.setting.algorithm->needs_mapped()) map_buffers(entry, call);
  bind(entry);
}

void Collectives::Impl::map_buffers(Entry& entry, const Call& call) {
  const plan::Plan& plan = entry.loaded->instance.plan();
  for (const char* name : {"x", "y"}) {
    const plan::Buffer& buffer = plan.buffers[static_cast<size_t>(plan::find_buffer(plan, name))];
    if (!buffer.mapped) continue;
    std::vector<Place> places;
    for (const CallHeader& header : meeting.headers()) places.push_back(*name == 'x' ? header.send : header.recv);
    entry.windows.push_back(regions.window(places, std::max<int64_t>(1, bytes_of(call))));
  }
}

// Binding looks memory up by address; for its duration these windows are what it finds first.
void Collectives::Impl::bind(Entry& entry) {
  auto& known = communicator.internals().symmetric;
  const auto count = static_cast<std::ptrdiff_t>(entry.windows.size());
  known.insert(known.begin(), entry.windows.begin(), entry.windows.end());
  try {
    entry.bound = std::make_unique<runtime::Bound>(communicator, entry.loaded, entry.args);
  } catch (...) {
    known.erase(known.begin(), known.begin() + count);
    throw;
  }
  known.erase(known.begin(), known.begin() + count);
}

// All ranks come here in the same call or not at all. One that is elsewhere sees the announcement (agreement.h).
void Collectives::Impl::agree_on_load(const Call& call) {
  const std::string text = header_of(call, true).text();
  runtime::Agreement& agreement = communicator.internals().agreement;
  agreement.announce(agreement.next_binding(), text);
  const std::vector<std::string> all = communicator.transport().exchange(text, "the first call of its kind");
  agreement.retract();
  for (int other = 1; other < size; ++other) {
    if (all[static_cast<size_t>(other)] == all[0]) continue;
    const std::string message = fmt::format("ranks disagree about call {}:\n    rank 0 calls {}\n    rank {} calls {}",
                                            meeting.sequence(), all[0], other, all[static_cast<size_t>(other)]);
    communicator.transport().raise({ErrorKind::agreement, rank, message});
    transport::throw_failure(communicator.transport(), "comparing calls");
  }
}

std::shared_ptr<runtime::Loaded> Collectives::Impl::loaded_for(const Call& call, const Setting& setting) {
  std::shared_ptr<runtime::Loaded>& loaded = plans[api::plan_key(call, setting)];
  if (loaded) return loaded;
  agree_on_load(call);
  const plan::Plan plan = api::call_plan(call, setting);
  runtime::LoadOptions options;
  options.chunk_elements = api::chunk_elements(plan, call, setting);
  options.stream = setting.stream;
  loaded = communicator.load(plan, options);
  WEFT_LOG(info, "collectives", "{}: {}", describe(call), setting.text());
  return loaded;
}

// ---- started calls
void Collectives::Impl::begin(Pending::State& state) {
  state.phase = Pending::State::Phase::meeting;
  if (alone(state.call)) return complete(state);
  api::check_call(state.call, size, rank);
  state.call = scaled(state.call, state.scaled);
  meeting.publish(header_of(state.call, is_small(state.call) && state.call.count > 0));
}

void Collectives::Impl::launch(Pending::State& state) {
  if (state.call.operation == Operation::barrier || api::whole_count(state.call, size) == 0) return complete(state);
  Entry& entry = entry_for(state.call, is_small(state.call) && state.call.count > 0);
  state.phase = Pending::State::Phase::running;
  auto& known = communicator.internals().symmetric;
  const auto count = static_cast<std::ptrdiff_t>(entry.windows.size());
  known.insert(known.begin(), entry.windows.begin(), entry.windows.end());
  state.work = communicator.start(*entry.loaded, entry.args);
  known.erase(known.begin(), known.begin() + count);
}

void Collectives::Impl::complete(Pending::State& state) { state.phase = Pending::State::Phase::complete; }

bool Collectives::Impl::advance(Pending::State& state) {
  using Phase = Pending::State::Phase;
  if (state.phase == Phase::queued) begin(state);
  if (state.phase == Phase::meeting) {
    const bool small = is_small(state.call) && state.call.count > 0;
    if ((!small || meeting.must_meet()) && !meeting.arrived()) return false;
    launch(state);
  }
  if (state.phase == Phase::running) {
    if (!state.work.test()) return false;
    complete(state);
  }
  return true;
}

bool Collectives::Impl::progress() {
  while (!queue.empty()) {
    const std::shared_ptr<Pending::State> front = queue.front();
    if (!advance(*front)) return false;
    queue.pop_front();
  }
  auto& list = busy_engines();
  list.erase(std::remove(list.begin(), list.end(), this), list.end());
  return true;
}

bool Pending::test() {
  if (!state_ || state_->phase == State::Phase::complete) return true;
  const std::vector<Collectives::Impl*> list = busy_engines();  // a copy: those that finish leave it
  for (Collectives::Impl* engine : list) engine->progress();
  return state_->phase == State::Phase::complete;
}

void Pending::wait() {
  if (!state_) return;
  transport::Transport& transport = state_->owner->communicator.transport();
  const auto waited = transport::wait_until(transport, transport.timeout_ns(), [&] { return test(); });
  if (waited == transport::Waited::ready) return;
  const std::string doing = fmt::format("waiting for {}", describe(state_->call));
  if (waited == transport::Waited::aborted) transport::throw_failure(transport, doing);
  const std::string message = fmt::format("rank {} was {} for {}", transport.rank(), doing,
                                          human_ns(static_cast<double>(transport.timeout_ns())));
  transport.raise({ErrorKind::timeout, transport.rank(), message});
  throw Error(ErrorKind::timeout, message, "is a rank stopped, or does it not make this call? WEFT_TIMEOUT_S");
}

// ---- memory
void Collectives::Impl::forget(const void* region) {
  const Place place = regions.find(region, 1);
  for (Entry& entry : table) {
    const bool uses = entry.bound && (regions.find(entry.key.send, 1).region == place.region ||
                                      regions.find(entry.key.recv, 1).region == place.region || !entry.windows.empty());
    if (uses) entry = Entry();
  }
  for (auto& [key, loaded] : plans) loaded->last = nullptr;
}

// ---- the facade
Collectives::Collectives(runtime::Communicator& communicator, const CollectiveOptions& options)
    : impl_(std::make_unique<Impl>(communicator, options)) {}
Collectives::~Collectives() = default;
int Collectives::rank() const { return impl_->rank; }
int Collectives::size() const { return impl_->size; }
void Collectives::run(const Call& call) { impl_->run(call); }

Pending Collectives::start(const Call& call) {
  auto state = std::make_shared<Pending::State>();
  state->owner = impl_.get();
  state->call = call;
  state->counts.assign(call.counts.begin(), call.counts.end());
  state->call.counts = state->counts;
  api::check_call(call, impl_->size, impl_->rank);
  if (impl_->queue.empty()) busy_engines().push_back(impl_.get());
  impl_->queue.push_back(state);
  impl_->progress();
  return Pending(state);
}

void Collectives::all_reduce(const void* send, void* recv, int64_t count, Dtype dtype, Combine combine) {
  run({Operation::all_reduce, send, recv, count, dtype, combine, 0, 1, {}});
}
void Collectives::reduce_scatter(const void* send, void* recv, int64_t count, Dtype dtype, Combine combine) {
  run({Operation::reduce_scatter, send, recv, count, dtype, combine, 0, 1, {}});
}
void Collectives::reduce_scatter_v(const void* send, void* recv, std::span<const int64_t> counts, Dtype dtype,
                                   Combine combine) {
  run({Operation::reduce_scatter, send, recv, 0, dtype, combine, 0, 1, counts});
}
void Collectives::all_gather(const void* send, void* recv, int64_t count, Dtype dtype) {
  run({Operation::all_gather, send, recv, count, dtype, Combine::sum, 0, 1, {}});
}
void Collectives::all_gather_v(const void* send, void* recv, std::span<const int64_t> counts, Dtype dtype) {
  run({Operation::all_gather, send, recv, 0, dtype, Combine::sum, 0, 1, counts});
}
void Collectives::broadcast(const void* send, void* recv, int64_t count, Dtype dtype, int root) {
  run({Operation::broadcast, send, recv, count, dtype, Combine::sum, root, 1, {}});
}
void Collectives::reduce(const void* send, void* recv, int64_t count, Dtype dtype, Combine combine, int root) {
  run({Operation::reduce, send, recv, count, dtype, combine, root, 1, {}});
}
void Collectives::scatter(const void* send, void* recv, int64_t count, Dtype dtype, int root) {
  run({Operation::scatter, send, recv, count, dtype, Combine::sum, root, 1, {}});
}
void Collectives::gather(const void* send, void* recv, int64_t count, Dtype dtype, int root) {
  run({Operation::gather, send, recv, count, dtype, Combine::sum, root, 1, {}});
}
void Collectives::all_to_all(const void* send, void* recv, int64_t count, Dtype dtype) {
  run({Operation::all_to_all, send, recv, count, dtype, Combine::sum, 0, 1, {}});
}
void Collectives::barrier() { run({Operation::barrier, nullptr, nullptr, 0, Dtype::u8, Combine::sum, 0, 1, {}}); }

void* Collectives::allocate(int64_t bytes) { return impl_->regions.allocate(bytes); }
void Collectives::release(void* symmetric) {
  impl_->forget(symmetric);
  impl_->regions.release(symmetric);
}
void* Collectives::arena_allocate(int64_t bytes) {
  if (!impl_->regions.arena())
    throw Error(ErrorKind::user, "this communicator has no arena", "create it with arena_bytes, or set WEFT_ARENA");
  return impl_->regions.arena()->allocate(bytes);
}
void Collectives::arena_release(void* memory) {
  if (impl_->regions.arena()) impl_->regions.arena()->release(memory);
}
bool Collectives::is_mapped(const void* memory) const { return impl_->regions.find(memory, 1).region != 0; }

std::string Collectives::explain(const Call& call, bool mapped) const {
  CallShape shape;
  shape.operation = call.operation;
  shape.dtype = call.dtype;
  shape.ranks = impl_->size;
  shape.bytes = impl_->bytes_of(call);
  shape.send_mapped = shape.recv_mapped = mapped && !impl_->is_small(call);
  shape.in_place = call.send == call.recv;
  return api::choose(shape, impl_->settings).text();
}

}  // namespace weft
