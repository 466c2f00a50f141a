// One call, and the table of those that were made before (collectives_engine.h).
#include "weft/api/collectives_engine.h"

#include <algorithm>
#include <cstring>

#include "weft/base/hash.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/transport/wait.h"

namespace weft {

using api::CallHeader;
using api::CallShape;
using api::Place;
using api::Setting;

uint64_t api::mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdull;
}

uint64_t api::hash_counts(std::span<const int64_t> counts) {
  if (counts.empty()) return 0;
  return hash64({reinterpret_cast<const char*>(counts.data()), counts.size() * sizeof(int64_t)}) | 1;
}

uint64_t Collectives::Impl::Entry::Key::hash() const {
  uint64_t h = api::mix(what, count ^ counts_hash);
  h = api::mix(h, reinterpret_cast<uintptr_t>(send));
  h = api::mix(h, reinterpret_cast<uintptr_t>(recv) ^ placement);
  return h ^ (h >> 29);
}

namespace {

// Of an uneven all_to_all: what this rank sends to each, minus what it gets from each, every pair and count as a number
// of its own. Over all ranks that is 0 (but for chance) exactly where every pair agrees.
uint64_t pair_sums(const Call& call, int rank, int ranks) {
  const auto pair = [](int from, int to, int64_t count) {
    return api::mix(api::mix(static_cast<uint64_t>(from) << 32 | static_cast<uint64_t>(to), 0x5eed),
                    static_cast<uint64_t>(count));
  };
  uint64_t sum = 0;
  for (int peer = 0; peer < ranks; ++peer)
    sum += pair(rank, peer, call.counts[static_cast<size_t>(peer)]) -
           pair(peer, rank, call.recv_counts[static_cast<size_t>(peer)]);
  return sum;
}

bool is_pairs(const Call& call) { return call.operation == Operation::all_to_all && api::is_uneven(call); }
bool is_rooted_parts(const Call& call) {
  return (call.operation == Operation::scatter || call.operation == Operation::gather) && api::is_uneven(call);
}

}  // namespace

CallHeader Collectives::Impl::header_of(const Call& call, bool small) const {
  CallHeader header;
  header.operation = call.operation;
  header.dtype = call.dtype;
  header.combine = call.combine;
  header.root = call.root;
  header.count = call.count;
  header.in_place = call.send == call.recv;
  if (small) return header;
  header.uneven = api::is_uneven(call);
  if (is_pairs(call))
    header.count = api::send_count(call, size, rank), header.counts_hash = pair_sums(call, rank, size);
  else if (!is_rooted_parts(call))
    header.counts_hash = api::hash_counts(call.counts);
  const int64_t element = size_bytes(call.dtype);
  header.send = regions->find(call.send ? call.send : call.recv, api::send_count(call, size, rank) * element);
  header.recv = regions->find(call.recv ? call.recv : call.send, api::recv_count(call, size, rank) * element);
  return header;
}

// Where all ranks' buffers lie.
uint64_t Collectives::Impl::placement() const {
  uint64_t hash = 1;
  for (const CallHeader& header : meeting.headers()) {
    hash = api::mix(hash, static_cast<uint64_t>(header.send.offset) << 16 ^ header.send.region);
    hash = api::mix(hash, static_cast<uint64_t>(header.recv.offset) << 16 ^ header.recv.region ^
                              (header.in_place ? uint64_t{1} << 63 : 0));
  }
  return hash;
}

// S of this call, as all ranks know it.
int64_t Collectives::Impl::agreed_bytes(const Call& call, bool small) const {
  if (small || !is_pairs(call)) return bytes_of(call);
  int64_t most = 0;
  for (const CallHeader& header : meeting.headers()) most = std::max(most, header.count);
  return most * size_bytes(call.dtype);
}

// Nothing to tell anybody: one rank.
bool Collectives::Impl::alone(const Call& call) {
  if (size > 1) return false;
  api::check_call(call, size, rank);
  const int64_t count = api::recv_count(call, size, rank);
  if (count != api::send_count(call, size, rank) && call.operation != Operation::barrier)
    throw Error(ErrorKind::user, fmt::format("{}: the one rank sends {} elements and gets {}", describe(call),
                                             api::send_count(call, size, rank), count));
  if (call.combine == Combine::premul_sum && reduces(call.operation))
    api::multiply(call.dtype, call.send, call.recv, count, call.scale);
  else if (count > 0 && call.send != call.recv)
    std::memmove(call.recv, call.send, static_cast<size_t>(count * size_bytes(call.dtype)));
  return true;
}

void Collectives::Impl::run_one(const Call& call) {
  if (alone(call)) return;
  const bool small = is_small(call);
  if (small && call.combine != Combine::premul_sum) {
    // Found before anything is published: a call that is refused has not been made.
    Entry* known = find(key_of(call, true));
    if (!known) api::check_call(call, size, rank);
    meeting.publish(header_of(call, true));
    if (__builtin_expect(!known || meeting.must_meet(), 0)) {
      if (meeting.must_meet() || must_load(call)) meeting.wait();
      known = &entry_for(call, true);
    }
    known->bound->launch();
    return;
  }
  api::check_call(call, size, rank);
  std::shared_ptr<std::byte[]> memory;
  std::vector<int64_t> counts;
  Call now = scaled(call, memory);
  meeting.publish(header_of(now, small));
  if (!small || meeting.must_meet() || must_load(now)) meeting.wait();
  complete_counts(now, counts);
  if (now.operation == Operation::barrier || agreed_bytes(now, small) == 0) return;
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

// ---- parts that not everybody knows. All ranks have met.
void Collectives::Impl::complete_counts(Call& call, std::vector<int64_t>& counts) {
  if (is_pairs(call)) return compare_pairs(call);
  if (!is_rooted_parts(call)) return;
  std::vector<int64_t> all;
  for (const CallHeader& header : meeting.headers()) all.push_back(header.count);
  for (int peer = 0; rank == call.root && peer < size; ++peer) {
    const int64_t mine = call.counts[static_cast<size_t>(peer)], theirs = all[static_cast<size_t>(peer)];
    if (mine == theirs) continue;
    const std::string message = fmt::format(
        "ranks disagree about call {} ({} {}):\n    the root, rank {}, has {} elements for rank {}\n    "
        "rank {} has {}",
        meeting.sequence(), name(call.operation), name(call.dtype), rank, mine, peer, peer, theirs);
    communicator.transport().raise({ErrorKind::agreement, rank, message});
    transport::throw_failure(communicator.transport(), "comparing counts");
  }
  counts = std::move(all);
  call.counts = counts;
}

void Collectives::Impl::compare_pairs(const Call& call) {
  uint64_t sum = 0;
  for (const CallHeader& header : meeting.headers()) sum += header.counts_hash;
  if (sum == 0) return;
  // All ranks see that, so all come here: now the counts themselves.
  std::string mine;
  for (const auto list : {call.counts, call.recv_counts})
    mine.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(int64_t));
  const std::vector<std::string> all = communicator.transport().exchange(mine, "counts that differ");
  const auto count = [&](int of, int peer, bool received) {
    int64_t value = 0;
    const auto at = static_cast<size_t>(peer + (received ? size : 0)) * sizeof value;
    std::memcpy(&value, all[static_cast<size_t>(of)].data() + at, sizeof value);
    return value;
  };
  std::string differing = "?";
  for (int from = size; from-- > 0;)
    for (int to = size; to-- > 0;)
      if (count(from, to, false) != count(to, from, true))
        differing = fmt::format("rank {} sends {} elements to rank {}\n    rank {} expects {} from rank {}", from,
                                count(from, to, false), to, to, count(to, from, true), from);
  communicator.transport().raise({ErrorKind::agreement, rank,
                                  fmt::format("ranks disagree about call {} (all_to_all {}):\n    {}",
                                              meeting.sequence(), name(call.dtype), differing)});
  transport::throw_failure(communicator.transport(), "comparing counts");
}

// ---- the table
Collectives::Impl::Entry::Key Collectives::Impl::key_of(const Call& call, bool small) const {
  Entry::Key key;
  key.what = static_cast<uint64_t>(call.operation) | static_cast<uint64_t>(call.dtype) << 8 |
             static_cast<uint64_t>(call.combine) << 16 | static_cast<uint64_t>(static_cast<uint32_t>(call.root)) << 32;
  key.count = static_cast<uint64_t>(call.count);
  key.send = call.send;
  key.recv = call.recv;
  if (small) return key;
  key.counts_hash = api::mix(api::hash_counts(call.counts), api::hash_counts(call.recv_counts));
  key.placement = api::mix(placement(), static_cast<uint64_t>(agreed_bytes(call, small)));
  return key;
}

Collectives::Impl::Entry* Collectives::Impl::find(const Entry::Key& key) {
  Entry& entry = table[key.hash() % table_size];
  return __builtin_expect(entry.bound != nullptr && entry.key == key, 1) ? &entry : nullptr;
}

Collectives::Impl::Entry& Collectives::Impl::entry_for(const Call& call, bool small) {
  const Entry::Key key = key_of(call, small);
  if (Entry* known = find(key)) return *known;
  forget_released();
  const Setting setting = api::choose(shape_of(call, small), settings);
  KnownPlan& known = plan_for(call, setting);
  Entry entry;
  entry.key = key;
  if (!small && setting.algorithm->needs_mapped()) entry.windows = windows_for(known.plan, call);
  const api::Loading loading(*this);  // rings may have to grow
  entry.bound = std::make_unique<runtime::Bound>(communicator, known.loaded, api::call_args(known.plan, call, size),
                                                 entry.windows);
  return table[key.hash() % table_size] = std::move(entry);
}

CallShape Collectives::Impl::shape_of(const Call& call, bool small) const {
  CallShape shape;
  shape.operation = call.operation;
  shape.dtype = call.dtype;
  shape.ranks = size;
  shape.bytes = agreed_bytes(call, small);
  shape.given = api::is_uneven(call);
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

// A small call whose plan is not here yet: its ranks must meet before they load it together.
bool Collectives::Impl::must_load(const Call& call) const {
  return is_small(call) && plans.count(api::plan_key(call, api::choose(shape_of(call, true), settings))) == 0;
}

// All ranks come here in the same call or not at all, and have met.
Collectives::Impl::KnownPlan& Collectives::Impl::plan_for(const Call& call, const Setting& setting) {
  const std::string key = api::plan_key(call, setting);
  if (const auto found = plans.find(key); found != plans.end()) return found->second;
  KnownPlan known;
  known.plan = api::call_plan(call, setting);
  runtime::LoadOptions options;
  options.chunk_elements = api::chunk_elements(known.plan, call, setting);
  options.stream = setting.stream;
  const api::Loading loading(*this);
  known.loaded = communicator.load(known.plan, options);
  const auto& buffers = known.plan.buffers;
  const bool maps = std::any_of(buffers.begin(), buffers.end(), [](const plan::Buffer& b) { return b.mapped; });
  WEFT_LOG(info, "collectives", "{}: {}{}", describe(call), setting.text(), maps ? ", on mapped memory" : "");
  return plans[key] = std::move(known);
}

runtime::Windows Collectives::Impl::windows_for(const plan::Plan& plan, const Call& call) const {
  runtime::Windows windows;
  for (const char* name : {"x", "y"}) {
    const plan::Buffer& buffer = plan.buffers[static_cast<size_t>(plan::find_buffer(plan, name))];
    if (!buffer.mapped) continue;
    std::vector<Place> places;
    for (const CallHeader& header : meeting.headers()) places.push_back(*name == 'x' ? header.send : header.recv);
    windows.push_back(regions->window(places, std::max<int64_t>(1, bytes_of(call))));
  }
  return windows;
}

// Memory was released, here or by the communicator that this one was split from: nothing bound may keep it mapped.
void Collectives::Impl::forget_released() {
  if (const uint64_t now = regions->releases(); std::exchange(seen_releases, now) == now) return;
  for (Entry& entry : table)
    if (!entry.windows.empty()) entry = Entry();
}

}  // namespace weft
