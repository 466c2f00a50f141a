// The communicator: memory, rings, loading, and launches in the order in which they were issued.
//
// Launches of a communicator run one after the other on each rank, in issue order; the blocking launch of an idle
// communicator runs on the caller's stack without a queue. Communicators are independent: whoever waits on one also
// advances what this thread has started on others, so two that are waited for in opposite order do not block.
#include "weft/runtime/communicator.h"

#include <algorithm>
#include <utility>

#include "weft/base/env.h"
#include "weft/base/text.h"
#include "weft/runtime/bound.h"
#include "weft/transport/wait.h"

namespace weft::runtime {

struct Work::State {
  std::shared_ptr<Loaded> keep;
  std::shared_ptr<BoundState> bound;
  std::vector<expr::ScalarValue> scalars;
  Communicator::Impl* owner = nullptr;
  bool begun = false, complete = false;

  Launch& launch() {
    if (!begun) begin(*bound, scalars), begun = true;
    return bound->launch;
  }
};

namespace {

// What this thread has started and not completed: waiting for one advances all.
std::vector<Communicator::Impl*>& busy_communicators() {
  thread_local std::vector<Communicator::Impl*> list;
  return list;
}

void forget(Communicator::Impl* impl) {
  auto& list = busy_communicators();
  list.erase(std::remove(list.begin(), list.end(), impl), list.end());
}

// An error inside a launch leaves cursors half way: the communicator is done for, on all ranks.
template <typename F>
void poisoning(transport::Transport& transport, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    transport.raise(transport::failure_of(error, transport.rank()));
    throw;
  } catch (const std::exception& error) {
    transport.raise({ErrorKind::internal, transport.rank(), error.what()});
    throw Error(ErrorKind::internal, error.what());
  }
}

void run_now(BoundState& bound, std::span<const expr::ScalarValue> scalars) {
  Launch& launch = begin(bound, scalars);
  drive(launch);
  end(launch);
}

}  // namespace

void advance_others(const Communicator::Impl& but) {
  const std::vector<Communicator::Impl*> list = busy_communicators();  // a copy: those that finish leave it
  for (Communicator::Impl* impl : list)
    if (impl != &but) impl->advance_queue();
}

Communicator::Impl::Impl(transport::Transport& t, kernel::KernelLibrary& k) : transport(t), kernels(k), agreement(t) {
  if (const std::string file = env("WEFT_TIMELINE"); !file.empty())
    timeline = std::make_unique<Timeline>(file, t.rank());
}

RingSet& Communicator::Impl::rings(const RingKey& wanted) {
  for (const auto& set : ring_sets)
    if (set->key().serves(wanted)) return *set;
  ring_sets.push_back(std::make_unique<RingSet>(transport, wanted));
  return *ring_sets.back();
}

void Communicator::Impl::check_alive() const {
  if (born != transport::forks_above()) transport::throw_forked("a communicator");
  if (transport.abort_word().load(std::memory_order_acquire)) transport::throw_failure(transport, "starting a launch");
}

std::shared_ptr<transport::Window> Communicator::Impl::find_symmetric(const void* data, int64_t& offset) const {
  for (const auto& weak : symmetric) {
    const auto window = weak.lock();
    if (!window) continue;
    const auto* base = window->at[static_cast<size_t>(transport.rank())];
    offset = static_cast<const std::byte*>(data) - base;
    if (offset >= 0 && offset < std::max<int64_t>(window->bytes, 1)) return window;
  }
  return nullptr;
}

// The front of the queue, and what follows it as far as it goes without waiting.
void Communicator::Impl::advance_queue() {
  if (mirrors) transport.progress();
  while (!queue.empty()) {
    Work::State& work = *queue.front();
    if (!poll(work.launch()) || (mirrors && !transport.flush(false))) return;
    end(work.launch());
    work.complete = true;
    queue.erase(queue.begin());
  }
  forget(this);
}

Communicator::Communicator(transport::Transport& transport, kernel::KernelLibrary& kernels)
    : impl_(std::make_unique<Impl>(transport, kernels)) {}
Communicator::~Communicator() {
  if (impl_) forget(impl_.get());
}
int Communicator::rank() const { return impl_->transport.rank(); }
int Communicator::size() const { return impl_->transport.size(); }
transport::Transport& Communicator::transport() { return impl_->transport; }
Communicator::Impl& Communicator::internals() { return *impl_; }

kernel::KernelLibrary& Communicator::kernels() { return impl_->kernels; }
void Communicator::explain_timeouts(std::function<std::string()> context) {
  impl_->timeout_context = std::move(context);
}
void Communicator::record(bool on) { impl_->recording = on; }
std::vector<Span> Communicator::take_spans() { return std::exchange(impl_->spans, {}); }

Symmetric Communicator::allocate(int64_t bytes, std::string_view what) {
  impl_->check_alive();
  auto window = impl_->transport.allocate(bytes, what);
  auto& list = impl_->symmetric;
  list.erase(std::remove_if(list.begin(), list.end(), [](const auto& weak) { return weak.expired(); }), list.end());
  list.push_back(window);
  return {window->at[static_cast<size_t>(rank())], bytes, window, 0};
}

std::shared_ptr<Loaded> Communicator::load(const plan::Plan& plan, const LoadOptions& options) {
  impl_->check_alive();
  return std::make_shared<Loaded>(*impl_, plan, options);
}

namespace {

std::shared_ptr<BoundState> bound_for(Loaded& plan, const plan::LaunchArgs& args) {
  const bool same =
      plan.last && plan.last->scratch_version == plan.scratch_version && same_binding(plan.last->args, args);
  if (!same) plan.last = bind(plan, args);
  return plan.last;
}

}  // namespace

namespace {

void enqueue(Communicator::Impl& owner, const std::shared_ptr<Work::State>& state) {
  state->owner = &owner;
  if (owner.queue.empty()) busy_communicators().push_back(&owner);
  owner.queue.push_back(state);
  owner.advance_queue();
}

}  // namespace

Work Communicator::start(Loaded& plan, const plan::LaunchArgs& args) {
  impl_->check_alive();
  auto state = std::make_shared<Work::State>();
  poisoning(impl_->transport, [&] {
    state->bound = bound_for(plan, args);
    state->scalars = args.scalars;
    enqueue(*impl_, state);
  });
  return Work(state);
}

void Communicator::launch(Loaded& plan, const plan::LaunchArgs& args) {
  if (!impl_->queue.empty()) return start(plan, args).wait();
  impl_->check_alive();
  poisoning(impl_->transport, [&] { run_now(*bound_for(plan, args), args.scalars); });
}

bool Work::test() {
  if (!state_ || state_->complete) return true;
  state_->owner->check_alive();
  poisoning(state_->owner->transport, [&] {
    state_->owner->advance_queue();
    for (const auto& rings : state_->owner->ring_sets) rings->push_credits(state_->owner->transport);
  });
  return state_->complete;
}

std::string Work::waiting() const {
  return state_ && state_->begun && !state_->complete ? runtime::waiting(state_->bound->launch) : "";
}
uint64_t Work::moves() const { return state_ && state_->bound ? state_->bound->launch.moves : 0; }

void Work::wait() {
  if (!state_) return;
  while (!state_->complete) {
    poisoning(state_->owner->transport, [&] {
      Communicator::Impl& owner = *state_->owner;
      drive(owner.queue.front()->launch());
      owner.advance_queue();
    });
  }
}

// ---- bound launches
struct Bound::Impl {
  Communicator::Impl* owner = nullptr;
  std::shared_ptr<Loaded> plan;
  std::shared_ptr<BoundState> state;
  Windows windows;
};

namespace {

// For its lifetime binding finds these windows before all others.
class Found {
 public:
  Found(Communicator::Impl& owner, const Windows& windows) : owner_(owner), count_(windows.size()) {
    owner.symmetric.insert(owner.symmetric.begin(), windows.begin(), windows.end());
  }
  ~Found() {
    owner_.symmetric.erase(owner_.symmetric.begin(), owner_.symmetric.begin() + static_cast<std::ptrdiff_t>(count_));
  }
  Found(const Found&) = delete;
  Found& operator=(const Found&) = delete;

 private:
  Communicator::Impl& owner_;
  size_t count_;
};

// Scratch that has grown since: what pointed into the old one is bound again.
void renew(Bound::Impl& impl) {
  if (__builtin_expect(impl.state->scratch_version == impl.plan->scratch_version, 1)) return;
  const Found found(*impl.owner, impl.windows);
  const auto scalars = impl.state->scalars;
  impl.state = bind(*impl.plan, impl.state->args);
  impl.state->scalars = scalars;
}

}  // namespace

Bound::Bound(Communicator& communicator, std::shared_ptr<Loaded> plan, const plan::LaunchArgs& args,
             const Windows& windows)
    : impl_(std::make_unique<Impl>()) {
  impl_->owner = &communicator.internals();
  impl_->owner->check_alive();
  impl_->plan = std::move(plan);
  impl_->windows = windows;
  const Found found(*impl_->owner, windows);
  impl_->state = bind(*impl_->plan, args);
}
Bound::~Bound() = default;

Work Bound::start() {
  impl_->owner->check_alive();
  auto state = std::make_shared<Work::State>();
  poisoning(impl_->owner->transport, [&] {
    renew(*impl_);
    state->keep = impl_->plan;
    state->bound = impl_->state;
    state->scalars = impl_->state->args.scalars;
    enqueue(*impl_->owner, state);
  });
  return Work(state);
}

void Bound::launch(std::span<const expr::ScalarValue> scalars) {
  Impl& impl = *impl_;
  if (__builtin_expect(impl.owner->transport.abort_word().load(std::memory_order_relaxed) != 0 ||
                           impl.owner->born != transport::forks_above(),
                       0))
    impl.owner->check_alive();
  poisoning(impl.owner->transport, [&] {
    renew(impl);
    while (!impl.owner->queue.empty()) Work(impl.owner->queue.back()).wait();
    run_now(*impl.state, scalars);
  });
}

}  // namespace weft::runtime
