// Creation, groups, and the calls by their names (collectives_engine.h has how they are made).
#include "weft/api/collectives.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "weft/api/collectives_batch.h"
#include "weft/api/collectives_engine.h"
#include "weft/api/environment.h"
#include "weft/base/env.h"
#include "weft/base/file.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/transport/group.h"

namespace weft {
namespace {

std::string first_of(const std::string& given, const char* ours, const char* nccls) {
  if (!given.empty()) return given;
  const std::string own = env(ours);
  return own.empty() ? env(nccls) : own;
}

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
  if (const auto set = env_count("WEFT_ARENA")) return *set;
  return std::min(most, free_memory_bytes() / (2 * ranks)) / (2 << 20) * (2 << 20);
}

constexpr int64_t shared_arena = -1;  // told instead of a size: the processes' own

// Communicators that this process has; each new one gets a number above those of all its ranks.
std::atomic<uint64_t> last_order{0};

struct Told {
  uint64_t order = 0;
  std::string text;  // of rank 0
};

// Rank 0 decides, so that differing environments cannot split the ranks; its failure is everybody's.
Told agree(transport::Transport& transport, const std::function<std::string()>& decide) {
  std::string mine;
  if (transport.rank() == 0) {
    try {
      mine = "+" + decide();
    } catch (const Error& error) { mine = fmt::format("-{}", error.what()); }
  }
  const std::vector<std::string> all =
      transport.exchange(fmt::format("{} {}", last_order.load(), mine), "settings of collectives");
  Told told;
  for (const std::string& text : all) told.order = std::max<uint64_t>(told.order, std::stoull(text) + 1);
  for (uint64_t seen = last_order.load(); seen < told.order && !last_order.compare_exchange_weak(seen, told.order);) {}
  told.text = all[0].substr(all[0].find(' ') + 1);
  if (told.text[0] == '-') throw Error(ErrorKind::user, told.text.substr(1));
  told.text.erase(0, 1);
  return told;
}

}  // namespace

Collectives::Impl::Impl(runtime::Communicator& c, const CollectiveOptions& options)
    : communicator(c),
      rank(c.rank()),
      size(c.size()),
      meeting(c),
      regions(std::make_shared<api::Regions>(c)),
      messages(c, *regions) {
  const Told told = agree(c.transport(), [&] {
    api::check_environment();
    const api::ChoiceSettings chosen = settings_from(options, c.transport());
    const int64_t arena = chosen.network ? 0 : options.process_arena ? shared_arena : arena_bytes(options, size);
    return fmt::format("{}\n{}", arena, api::print(chosen));
  });
  order = told.order;
  const size_t line = told.text.find('\n');
  settings = api::parse_settings(told.text.substr(line + 1));
  const int64_t arena = std::stoll(told.text.substr(0, line));
  if (arena == shared_arena) regions->share_arena(options.process_arena);
  if (arena > 0) regions->reserve_arena(arena);
  set_up();
  if (rank == 0 && !settings.algorithms.empty())
    WEFT_LOG(warn, "collectives", "algorithms are restricted to \"{}\": sums need not be in rank order",
             settings.algorithms);
}

// A group: the parent's choices, memory of its own beside the parent's.
Collectives::Impl::Impl(Impl& parent, std::unique_ptr<transport::Transport> transport, const std::vector<int>& ranks)
    : own_transport(std::move(transport)),
      own_communicator(std::make_unique<runtime::Communicator>(*own_transport, parent.communicator.kernels())),
      communicator(*own_communicator),
      rank(communicator.rank()),
      size(communicator.size()),
      meeting(communicator),
      regions(std::make_shared<api::Regions>(communicator, parent.regions, ranks)),
      messages(communicator, *regions),
      settings(parent.settings),
      members(ranks) {
  settings.network = own_transport->mirrors();
  order = agree(*own_transport, [] { return std::string(); }).order;
  set_up();
}

void Collectives::Impl::set_up() {
  for (const Operation operation : all_operations())
    small_limits[static_cast<size_t>(operation)] =
        settings.network ? INT64_MAX : api::small_bytes(settings, operation, size);
  communicator.explain_timeouts([this] { return meeting.last_calls(); });
}

Collectives::Impl::~Impl() {
  if (api::Batched* batch = api::present_batch()) batch->forget(*this);
  communicator.explain_timeouts({});
  for (const auto& state : queue) state->owner = nullptr;
  auto& list = api::busy_engines();
  list.erase(std::remove(list.begin(), list.end(), this), list.end());
}

// ---- the facade
Collectives::Collectives(runtime::Communicator& communicator, const CollectiveOptions& options)
    : impl_(std::make_unique<Impl>(communicator, options)) {}
Collectives::Collectives(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Collectives::~Collectives() = default;
int Collectives::rank() const { return impl_->rank; }
int Collectives::size() const { return impl_->size; }
const std::vector<int>& Collectives::members() const { return impl_->members; }

// What was started comes first: a rank that is late may be loading its plan, which is no exchange about groups or memory.
static void drain(Collectives::Impl& impl) {
  while (!impl.queue.empty()) Pending(impl.queue.back()).wait();
}

std::unique_ptr<Collectives> Collectives::split(int color, int key) {
  drain(*impl_);
  transport::Group group = transport::split(impl_->communicator.transport(), color, key);
  if (!group.transport) return nullptr;
  return std::make_unique<Collectives>(std::make_unique<Impl>(*impl_, std::move(group.transport), group.members));
}

void Collectives::run(const Call& call) {
  if (api::Batched* batch = api::present_batch(); __builtin_expect(batch != nullptr, 0)) {
    api::check_call(call, impl_->size, impl_->rank);
    auto state = std::make_shared<api::StartedCall>();
    state->call = call;
    state->keep_counts();
    return batch->note(*impl_, {state});
  }
  impl_->run(call);
}
Pending Collectives::start(const Call& call) { return impl_->start(call); }

void Collectives::all_reduce(const void* send, void* recv, int64_t count, Dtype dtype, Combine combine) {
  run({Operation::all_reduce, send, recv, count, dtype, combine, 0, 1, {}, {}, false});
}
void Collectives::reduce_scatter(const void* send, void* recv, int64_t count, Dtype dtype, Combine combine) {
  run({Operation::reduce_scatter, send, recv, count, dtype, combine, 0, 1, {}, {}, false});
}
void Collectives::reduce_scatter_v(const void* send, void* recv, std::span<const int64_t> counts, Dtype dtype,
                                   Combine combine) {
  run({Operation::reduce_scatter, send, recv, 0, dtype, combine, 0, 1, counts, {}, false});
}
void Collectives::all_gather(const void* send, void* recv, int64_t count, Dtype dtype) {
  run({Operation::all_gather, send, recv, count, dtype, Combine::sum, 0, 1, {}, {}, false});
}
void Collectives::all_gather_v(const void* send, void* recv, std::span<const int64_t> counts, Dtype dtype) {
  run({Operation::all_gather, send, recv, 0, dtype, Combine::sum, 0, 1, counts, {}, false});
}
void Collectives::broadcast(const void* send, void* recv, int64_t count, Dtype dtype, int root) {
  run({Operation::broadcast, send, recv, count, dtype, Combine::sum, root, 1, {}, {}, false});
}
void Collectives::reduce(const void* send, void* recv, int64_t count, Dtype dtype, Combine combine, int root) {
  run({Operation::reduce, send, recv, count, dtype, combine, root, 1, {}, {}, false});
}
void Collectives::scatter(const void* send, void* recv, int64_t count, Dtype dtype, int root) {
  run({Operation::scatter, send, recv, count, dtype, Combine::sum, root, 1, {}, {}, false});
}
void Collectives::gather(const void* send, void* recv, int64_t count, Dtype dtype, int root) {
  run({Operation::gather, send, recv, count, dtype, Combine::sum, root, 1, {}, {}, false});
}
void Collectives::all_to_all(const void* send, void* recv, int64_t count, Dtype dtype) {
  run({Operation::all_to_all, send, recv, count, dtype, Combine::sum, 0, 1, {}, {}, false});
}
void Collectives::barrier() {
  run({Operation::barrier, nullptr, nullptr, 0, Dtype::u8, Combine::sum, 0, 1, {}, {}, false});
}

void Collectives::check() {
  transport::Transport& transport = impl_->communicator.transport();
  transport.check_peers();
  if (transport.abort_word().load(std::memory_order_acquire))
    transport::throw_failure(transport, "looking after peers");
}

void Collectives::scatter_v(const void* send, std::span<const int64_t> counts, void* recv, int64_t count, Dtype dtype,
                            int root) {
  run({Operation::scatter, send, recv, count, dtype, Combine::sum, root, 1, counts, {}, true});
}
void Collectives::gather_v(const void* send, int64_t count, void* recv, std::span<const int64_t> counts, Dtype dtype,
                           int root) {
  run({Operation::gather, send, recv, count, dtype, Combine::sum, root, 1, counts, {}, true});
}
void Collectives::all_to_all_v(const void* send, std::span<const int64_t> counts, void* recv,
                               std::span<const int64_t> recv_counts, Dtype dtype) {
  run({Operation::all_to_all, send, recv, 0, dtype, Combine::sum, 0, 1, counts, recv_counts, true});
}
int64_t Collectives::all_to_all_v(const void* send, std::span<const int64_t> counts, void* recv, int64_t room,
                                  std::span<int64_t> got, Dtype dtype) {
  const auto parts = impl_->exchanged_all_to_all(
      {Operation::all_to_all, send, recv, 0, dtype, Combine::sum, 0, 1, counts, {}, true}, room, got);
  if (api::Batched* batch = api::present_batch()) return batch->note(*impl_, parts), 0;
  for (const auto& part : parts) impl_->enqueue(part);
  Pending(parts.back()).wait();
  return std::accumulate(got.begin(), got.end(), int64_t{0});
}

// ---- messages
Pending Collectives::start_send(const void* data, int64_t count, Dtype dtype, int to, int tag) {
  return impl_->begun(impl_->messages.send(data, count, dtype, to, tag));
}
Pending Collectives::start_receive(void* data, int64_t count, Dtype dtype, int from, int tag, Arrival* arrival) {
  return impl_->begun(impl_->messages.receive(data, count, dtype, from, tag, arrival));
}
void Collectives::send(const void* data, int64_t count, Dtype dtype, int to, int tag) {
  Pending sent = start_send(data, count, dtype, to, tag);
  if (api::Batched* batch = api::present_batch()) return batch->note(sent);
  sent.wait();
}
Arrival Collectives::receive(void* data, int64_t count, Dtype dtype, int from, int tag) {
  Arrival arrival;
  if (api::Batched* batch = api::present_batch()) {
    batch->note(start_receive(data, count, dtype, from, tag));
    return {from, tag};
  }
  start_receive(data, count, dtype, from, tag, &arrival).wait();
  return arrival;
}

// ---- memory
void* Collectives::allocate(int64_t bytes) {
  drain(*impl_);
  return impl_->regions->allocate(bytes);
}
void Collectives::release(void* symmetric) {
  impl_->regions->release(symmetric);
  impl_->forget_released();  // groups do when they bind the next buffers
}
void* Collectives::arena_allocate(int64_t bytes) {
  if (!impl_->regions->arena())
    throw Error(ErrorKind::user, "this communicator has no arena", "create it with arena_bytes, or set WEFT_ARENA");
  return impl_->regions->arena()->allocate(bytes);
}
void Collectives::arena_release(void* memory) {
  if (impl_->regions->arena()) impl_->regions->arena()->release(memory);
}
bool Collectives::is_mapped(const void* memory, int64_t bytes) const {
  return impl_->regions->find(memory, bytes).region != 0;
}

std::string Collectives::explain(const Call& call, bool mapped) const {
  api::CallShape shape;
  shape.operation = call.operation;
  shape.dtype = call.dtype;
  shape.ranks = impl_->size;
  shape.bytes = impl_->bytes_of(call);
  shape.send_mapped = shape.recv_mapped = mapped && !impl_->is_small(call);
  shape.in_place = call.send == call.recv;
  return api::choose(shape, impl_->settings).text();
}

}  // namespace weft
