// The engine behind Collectives: header, meeting, table, launch; and the queue of started calls.
//
// A call goes: [header] -> (large: meet) -> table -> launch. The table is direct-mapped and bounded; an entry is a bound
// launch of exactly this call on exactly this memory of all ranks. What is not there is made: a setting is chosen, its
// plan loaded, memory bound. Loading is collective and waits, so it is done after ranks have met in this call, and
// several communicators that load at once do so in one order (Loading, below). Started calls stand in a queue and take the
// same way without blocking.
#pragma once

#include <deque>
#include <functional>
#include <map>

#include "weft/api/collectives_memory.h"
#include "weft/api/collectives_messages.h"
#include "weft/api/collectives_pending.h"
#include "weft/api/collectives_plan.h"

namespace weft {

namespace api {

struct StartedCall : Pending::State {
  std::string text() const override { return describe(call); }
  void keep_counts();  // those of the call, since the caller's may go
  Call call;
  std::vector<int64_t> counts, recv_counts;
  std::function<void(StartedCall&)> prepare;  // before it begins, when all before it are complete
  enum class Phase { queued, meeting, running } phase = Phase::queued;
  runtime::Work work;
  std::shared_ptr<std::byte[]> scaled;
};

}  // namespace api

struct Collectives::Impl {
  Impl(runtime::Communicator& c, const CollectiveOptions& options);
  Impl(Impl& parent, std::unique_ptr<transport::Transport> transport, const std::vector<int>& members);
  ~Impl();

  struct Entry {
    // What it is for: all of it is compared.
    struct Key {
      uint64_t what = 0, count = 0, counts_hash = 0, placement = 0;
      const void* send = nullptr;
      void* recv = nullptr;
      bool operator==(const Key&) const = default;
      uint64_t hash() const;
    };
    Key key;
    std::unique_ptr<runtime::Bound> bound;
    runtime::Windows windows;
  };
  struct KnownPlan {
    plan::Plan plan;
    std::shared_ptr<runtime::Loaded> loaded;
  };

  // collectives_engine.cpp
  void run(const Call& call);
  void run_one(const Call& call);
  bool alone(const Call& call);
  bool is_small(const Call& call) const {
    return bytes_of(call) <= small_limits[static_cast<size_t>(call.operation)] && !api::is_uneven(call) &&
           call.count > 0;
  }
  int64_t bytes_of(const Call& call) const {
    return api::bounded_product(api::whole_count(call, size), size_bytes(call.dtype));
  }
  int64_t agreed_bytes(const Call& call, bool small) const;
  api::CallHeader header_of(const Call& call, bool small) const;
  uint64_t placement() const;
  Entry::Key key_of(const Call& call, bool small) const;
  Entry* find(const Entry::Key& key);
  Entry& entry_for(const Call& call, bool small);
  bool must_load(const Call& small) const;
  api::CallShape shape_of(const Call& call, bool small) const;
  KnownPlan& plan_for(const Call& call, const api::Setting& setting);
  runtime::Windows windows_for(const plan::Plan& plan, const Call& call) const;
  void complete_counts(Call& call, std::vector<int64_t>& counts);
  void compare_pairs(const Call& call);
  Call scaled(const Call& call, std::shared_ptr<std::byte[]>& memory) const;
  void forget_released();

  // collectives_started.cpp
  Pending start(const Call& call);
  Pending enqueue(const std::shared_ptr<api::StartedCall>& state);
  bool progress();  // of the queue and the messages; true: nothing is left
  void progress_calls();
  bool advance(api::StartedCall& state);
  void begin(api::StartedCall& state);
  void launch(api::StartedCall& state);
  bool idle() const { return queue.empty() && messages.idle(); }
  void be_busy();
  uint64_t moves() const;
  std::string waiting(int64_t waited_ns) const;
  Pending begun(const std::shared_ptr<Pending::State>& message);
  // The counts and the data of an all_to_all whose receivers do not know what comes.
  std::vector<std::shared_ptr<api::StartedCall>> exchanged_all_to_all(const Call& call, int64_t room,
                                                                      std::span<int64_t> got);

  // Of a communicator that split() made.
  std::unique_ptr<transport::Transport> own_transport;
  std::unique_ptr<runtime::Communicator> own_communicator;

  runtime::Communicator& communicator;
  const int rank, size;
  uint64_t order = 0;  // agreed; later communicators have larger ones
  api::Meeting meeting;
  std::shared_ptr<api::Regions> regions;
  api::Messages messages;
  api::ChoiceSettings settings;
  std::array<int64_t, 16> small_limits{};
  std::map<std::string, KnownPlan> plans;
  static constexpr size_t table_size = 1024;
  std::vector<Entry> table{table_size};
  std::deque<std::shared_ptr<api::StartedCall>> queue;
  uint64_t completed = 0;
  uint64_t seen_releases = 0;  // whose memory no entry of the table holds
  bool advancing = false;      // its calls are being advanced further up this thread's stack
  std::vector<int> members;    // of the parent's ranks; empty: it has no parent

 private:
  void set_up();
};

namespace api {

// Engines with something started by this thread: whoever waits advances them all.
std::vector<Collectives::Impl*>& busy_engines();
void progress_all();

uint64_t hash_counts(std::span<const int64_t> counts);
uint64_t mix(uint64_t hash, uint64_t value);

// For its lifetime this thread does what only all ranks of a communicator can do together, and waits in it. Two
// communicators may come to that in different order on different ranks; so while a rank waits in one it goes into those
// that were made earlier, never into later ones: the earliest of all that are under way is always entered by all its
// ranks, completes, and so do the others, one after the other.
class Loading {
 public:
  explicit Loading(const Collectives::Impl& engine);
  ~Loading();
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
  // Here and now. Never where the same transport is in use further up: its exchanges have one order.
  static bool allows(const Collectives::Impl& engine);

 private:
  uint64_t order_before_;
  void (*hook_before_)();
};

}  // namespace api
}  // namespace weft
