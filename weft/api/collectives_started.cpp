// Calls that were started: a queue per communicator, advanced by whoever waits (collectives_engine.h).
#include <algorithm>

#include "weft/api/collectives_engine.h"
#include "weft/base/text.h"
#include "weft/transport/wait.h"

namespace weft {

using api::StartedCall;

std::vector<Collectives::Impl*>& api::busy_engines() {
  thread_local std::vector<Collectives::Impl*> list;
  return list;
}

void api::progress_all() {
  const std::vector<Collectives::Impl*> list = busy_engines();  // a copy: those that finish leave it
  for (Collectives::Impl* engine : list) {
    const auto& now = busy_engines();
    if (std::find(now.begin(), now.end(), engine) != now.end()) engine->progress();
  }
}

// ---- loading
namespace {

// Up this thread's stack: the earliest communicator that loads, and whose exchanges are under way.
thread_local uint64_t loading = UINT64_MAX;
thread_local std::vector<const transport::Transport*> loading_over;

}  // namespace

api::Loading::Loading(const Collectives::Impl& engine)
    : order_before_(loading), hook_before_(transport::while_waiting()) {
  loading = std::min(loading, engine.order);
  loading_over.push_back(&engine.communicator.transport());
  transport::while_waiting() = &api::progress_all;
}
api::Loading::~Loading() {
  loading = order_before_;
  loading_over.pop_back();
  transport::while_waiting() = hook_before_;
}
bool api::Loading::allows(const Collectives::Impl& engine) {
  return engine.order < loading &&
         std::find(loading_over.begin(), loading_over.end(), &engine.communicator.transport()) == loading_over.end();
}

void StartedCall::keep_counts() {
  counts.assign(call.counts.begin(), call.counts.end());
  recv_counts.assign(call.recv_counts.begin(), call.recv_counts.end());
  call.counts = counts, call.recv_counts = recv_counts;
}

void Collectives::Impl::be_busy() {
  auto& list = api::busy_engines();
  if (std::find(list.begin(), list.end(), this) == list.end()) list.push_back(this);
}

Pending Collectives::Impl::start(const Call& call) {
  api::check_call(call, size, rank);
  auto state = std::make_shared<StartedCall>();
  state->call = call;
  state->keep_counts();
  return enqueue(state);
}

Pending Collectives::Impl::enqueue(const std::shared_ptr<StartedCall>& state) {
  state->owner = this;
  queue.push_back(state);
  be_busy();
  progress();
  return Pending(state);
}

void Collectives::Impl::run(const Call& call) {
  if (__builtin_expect(!idle() || !api::busy_engines().empty(), 0)) return start(call).wait();
  run_one(call);
}

Pending Collectives::Impl::begun(const std::shared_ptr<Pending::State>& message) {
  message->owner = this;
  be_busy();
  progress();
  return Pending(message);
}

void Collectives::Impl::begin(StartedCall& state) {
  state.phase = StartedCall::Phase::meeting;
  if (state.prepare) state.prepare(state);
  if (alone(state.call)) return state.finish();
  state.call = scaled(state.call, state.scaled);
  meeting.publish(header_of(state.call, is_small(state.call)));
}

void Collectives::Impl::launch(StartedCall& state) {
  complete_counts(state.call, state.counts);
  const bool small = is_small(state.call);
  if (state.call.operation == Operation::barrier || agreed_bytes(state.call, small) == 0) return state.finish();
  Entry& entry = entry_for(state.call, small);
  state.phase = StartedCall::Phase::running;
  state.work = entry.bound->start();
}

// True: it is complete.
bool Collectives::Impl::advance(StartedCall& state) {
  using Phase = StartedCall::Phase;
  if (state.phase == Phase::queued) begin(state);
  if (!state.complete && state.phase == Phase::meeting) {
    const bool meets = !is_small(state.call) || meeting.must_meet() || must_load(state.call);
    if (meets && (!meeting.arrived() || !api::Loading::allows(*this))) return false;
    if (!meets && !api::Loading::allows(*this) && !find(key_of(state.call, true))) return false;
    launch(state);
  }
  if (!state.complete && state.phase == Phase::running && state.work.test()) state.finish();
  return state.complete;
}

// What a call throws is its own; those behind it go on.
void Collectives::Impl::progress_calls() {
  if (advancing) return;
  advancing = true;
  while (!queue.empty()) {
    const std::shared_ptr<StartedCall> front = queue.front();
    try {
      if (!advance(*front)) break;
    } catch (...) { front->finish(std::current_exception()); }
    ++completed;
    queue.pop_front();
  }
  advancing = false;
}

bool Collectives::Impl::progress() {
  progress_calls();
  messages.progress();
  if (!idle()) return false;
  auto& list = api::busy_engines();
  list.erase(std::remove(list.begin(), list.end(), this), list.end());
  return true;
}

uint64_t Collectives::Impl::moves() const {
  return completed + messages.moves() + (queue.empty() ? 0 : queue.front()->work.moves());
}

std::string Collectives::Impl::waiting(int64_t waited_ns) const {
  if (queue.empty()) return messages.waiting(waited_ns);
  const StartedCall& front = *queue.front();
  if (front.phase == StartedCall::Phase::meeting) return meeting.waiting(waited_ns);
  const std::string step = front.work.waiting();
  return fmt::format("rank {} waits in {} since {}{}; {}", rank, front.text(), human_ns(static_cast<double>(waited_ns)),
                     step.empty() ? "" : ": " + step, meeting.last_calls());
}

// Counts first, all to all; when they are here, the data.
std::vector<std::shared_ptr<StartedCall>> Collectives::Impl::exchanged_all_to_all(const Call& call, int64_t room,
                                                                                  std::span<int64_t> got) {
  if (static_cast<int>(got.size()) != size || static_cast<int>(call.counts.size()) != size)
    throw Error(ErrorKind::user,
                fmt::format("all_to_all: {} counts to send and room for {} that come, on {} ranks", call.counts.size(),
                            got.size(), size),
                "one per rank");
  Call known = call;
  known.recv_counts = got;
  auto counts = std::make_shared<StartedCall>(), data = std::make_shared<StartedCall>();
  data->call = known;
  data->keep_counts();
  std::fill(data->recv_counts.begin(), data->recv_counts.end(), 0);
  api::check_call(data->call, size, rank);
  counts->counts = data->counts;
  counts->call.operation = Operation::all_to_all;
  counts->call.send = counts->counts.data(), counts->call.recv = data->recv_counts.data();
  counts->call.uneven = false, counts->call.count = 1, counts->call.dtype = Dtype::i64;
  data->prepare = [this, room, got, counts](StartedCall& state) {
    if (counts->error) std::rethrow_exception(counts->error);
    std::copy(state.recv_counts.begin(), state.recv_counts.end(), got.begin());
    const int64_t come = api::recv_count(state.call, size, rank);
    try {
      if (come > room)
        throw Error(ErrorKind::user,
                    fmt::format("{} elements come to rank {}, which has room for {}", come, rank, room),
                    "exchange the counts first where nothing bounds them");
      api::check_call(state.call, size, rank);
    } catch (const Error& error) {  // the others have begun: they must hear of it
      communicator.transport().raise(transport::failure_of(error, rank));
      throw;
    }
  };
  return {counts, data};
}

// ---- the caller's side
bool Pending::test() {
  if (!state_) return true;
  if (!state_->complete) {
    if (!state_->owner)
      throw Error(ErrorKind::user, fmt::format("{} is not complete and its communicator is gone", state_->text()),
                  "wait for what was started before the communicator ends");
    api::progress_all();
  }
  if (state_->complete && state_->error) std::rethrow_exception(state_->error);
  return state_->complete;
}

void Pending::wait() {
  while (!test()) {
    Collectives::Impl& owner = *state_->owner;
    transport::Transport& transport = owner.communicator.transport();
    const uint64_t moves = owner.moves();
    const auto waited = transport::wait_until(transport, transport.timeout_ns(),
                                              [&] { return test() || !state_->owner || owner.moves() != moves; });
    if (waited == transport::Waited::ready) continue;
    if (waited == transport::Waited::aborted)
      transport::throw_failure(transport, fmt::format("waiting for {}", state_->text()));
    const std::string message = owner.waiting(transport.timeout_ns()),
                      remedy = transport::timeout_remedy(transport.timeout_ns());
    transport.note(message);
    transport.raise({ErrorKind::timeout, transport.rank(), message, remedy});
    throw Error(ErrorKind::timeout, message, remedy);
  }
}

}  // namespace weft
