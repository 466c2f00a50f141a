// Headers of calls, packed into a line, compared and waited for (collectives_meet.h).
#include "weft/api/collectives_meet.h"

#include <algorithm>

#include "weft/base/text.h"
#include "weft/transport/wait.h"

namespace weft::api {
namespace {

constexpr int offset_bits = 48;

uint64_t pack(const Place& place) {
  return (static_cast<uint64_t>(place.region) << offset_bits) | static_cast<uint64_t>(place.offset);
}
Place unpack(uint64_t word) {
  return {static_cast<uint32_t>(word >> offset_bits), static_cast<int64_t>(word & ((uint64_t{1} << offset_bits) - 1))};
}
uint64_t pack_what(const CallHeader& header) {
  return static_cast<uint64_t>(header.operation) | static_cast<uint64_t>(header.dtype) << 8 |
         static_cast<uint64_t>(header.combine) << 16 | static_cast<uint64_t>(header.in_place) << 24 |
         static_cast<uint64_t>(header.uneven) << 25 | static_cast<uint64_t>(static_cast<uint32_t>(header.root)) << 32;
}

}  // namespace

bool CallHeader::agrees(const CallHeader& other) const {
  if (operation != other.operation || dtype != other.dtype || combine != other.combine || root != other.root ||
      uneven != other.uneven)
    return false;
  const bool pairs = operation == Operation::all_to_all;
  if (uneven && (pairs || operation == Operation::scatter || operation == Operation::gather)) return true;
  return count == other.count && counts_hash == other.counts_hash;
}

std::string CallHeader::text() const {
  Call call;
  call.operation = operation;
  call.dtype = dtype;
  call.combine = combine;
  call.root = root;
  call.count = count;
  std::string text = describe(call);
  if (uneven && operation == Operation::all_to_all) return text + " sent, each pair its own count";
  if (uneven && counts_hash == 0) return text + ", each rank its own count";
  if (counts_hash) text += fmt::format(" (counts {:08x})", static_cast<uint32_t>(counts_hash));
  return text;
}

Meeting::Meeting(runtime::Communicator& communicator)
    : communicator_(communicator),
      window_(communicator.transport().allocate_mirrored(sizeof(Lines), "headers of calls")),
      headers_(static_cast<size_t>(communicator.size())),
      seen_(static_cast<size_t>(communicator.size())),
      mirrors_(communicator.transport().mirrors()) {}

void Meeting::show(const Line& line) {
  transport::Transport& transport = communicator_.transport();
  transport::Put put;
  put.owner = communicator_.rank(), put.late = true;
  put.head = reinterpret_cast<const std::byte*>(&line) - window_->at[static_cast<size_t>(put.owner)];
  put.head_bytes = sizeof line;
  for (put.to = 0; put.to < communicator_.size(); ++put.to)
    if (!transport.mappable(put.to)) transport.put(*window_, put);
}

uint64_t Meeting::publish(const CallHeader& header) {
  const auto me = static_cast<size_t>(communicator_.rank());
  Line& line = lines(communicator_.rank())[++sequence_ % history];
  line.sequence.store(0, std::memory_order_relaxed);
  line.what.store(pack_what(header), std::memory_order_release);
  line.count.store(static_cast<uint64_t>(header.count), std::memory_order_release);
  line.send.store(pack(header.send), std::memory_order_release);
  line.recv.store(pack(header.recv), std::memory_order_release);
  line.counts_hash.store(header.counts_hash, std::memory_order_release);
  line.sequence.store(sequence_, std::memory_order_release);
  if (mirrors_) show(line);
  headers_[me] = header;
  std::fill(seen_.begin(), seen_.end(), false);
  seen_[me] = true;
  missing_ = communicator_.size() - 1;
  transport::Transport& transport = communicator_.transport();
  for (int peer = 0; peer < communicator_.size(); ++peer)
    if (transport.parked(peer).load(std::memory_order_relaxed) && peer != communicator_.rank()) transport.wake(peer);
  return sequence_;
}

CallHeader Meeting::read(const Line& line) {
  CallHeader header;
  const uint64_t what = line.what.load(std::memory_order_acquire);
  header.operation = static_cast<Operation>(what & 0xff);
  header.dtype = static_cast<Dtype>(what >> 8 & 0xff);
  header.combine = static_cast<Combine>(what >> 16 & 0xff);
  header.in_place = (what >> 24 & 1) != 0;
  header.uneven = (what >> 25 & 1) != 0;
  header.root = static_cast<int>(what >> 32);
  header.count = static_cast<int64_t>(line.count.load(std::memory_order_acquire));
  header.send = unpack(line.send.load(std::memory_order_acquire));
  header.recv = unpack(line.recv.load(std::memory_order_acquire));
  header.counts_hash = line.counts_hash.load(std::memory_order_acquire);
  return header;
}

bool Meeting::arrived() {
  if (mirrors_) communicator_.transport().flush(true), communicator_.transport().progress();
  for (int peer = 0; missing_ > 0 && peer < communicator_.size(); ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (seen_[p]) continue;
    const Line& line = lines(peer)[sequence_ % history];
    if (line.sequence.load(std::memory_order_acquire) != sequence_) continue;
    headers_[p] = read(line);
    compare(peer);
    seen_[p] = true;
    --missing_;
  }
  return missing_ == 0;
}

// What came over a wire is believed only where it can be true.
void Meeting::require_whole(int peer) {
  const CallHeader& header = headers_[static_cast<size_t>(peer)];
  const auto among = [](const auto& known, auto one) {
    return std::find(known.begin(), known.end(), one) != known.end();
  };
  if (among(all_operations(), header.operation) && among(all_dtypes(), header.dtype) &&
      among(all_combines(), header.combine))
    return;
  communicator_.transport().raise(
      {ErrorKind::peer, peer,
       fmt::format("the header of rank {} for call {} names an operation, dtype or reduction "
                   "that does not exist ({}, {}, {})",
                   peer, sequence_, static_cast<int>(header.operation), static_cast<int>(header.dtype),
                   static_cast<int>(header.combine)),
       "its memory or its connection is damaged: start all ranks again"});
  transport::throw_failure(communicator_.transport(), "comparing calls");
}

void Meeting::compare(int peer) {
  const int me = communicator_.rank();
  const CallHeader &mine = headers_[static_cast<size_t>(me)], &theirs = headers_[static_cast<size_t>(peer)];
  if (mine.agrees(theirs)) return;
  require_whole(peer);  // it is about to be printed
  const int low = std::min(me, peer), high = std::max(me, peer);
  const std::string message =
      fmt::format("ranks disagree about call {}:\n    rank {} calls {}\n    rank {} calls {}", sequence_, low,
                  headers_[static_cast<size_t>(low)].text(), high, headers_[static_cast<size_t>(high)].text());
  communicator_.transport().raise({ErrorKind::agreement, me, message});
  transport::throw_failure(communicator_.transport(), "comparing calls");
}

std::string Meeting::last_calls(int rank) const {
  std::vector<std::pair<uint64_t, std::string>> found;
  for (const Line& line : lines(rank))
    if (const uint64_t number = line.sequence.load(std::memory_order_acquire); number > 0)
      found.emplace_back(number, read(line).text());
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> list;
  for (size_t i = 0; i < std::min<size_t>(found.size(), 3); ++i)
    list.push_back(fmt::format("call {} {}", found[i].first, found[i].second));
  return fmt::format("rank {}: {}", rank, list.empty() ? "no call yet" : join(list, "; "));
}

std::string Meeting::last_calls() const {
  constexpr int shown = 16;
  std::string text = "the last calls:";
  for (int rank = 0; rank < std::min(communicator_.size(), shown); ++rank) text += "\n        " + last_calls(rank);
  return communicator_.size() > shown ? text + "\n        ..." : text;
}

std::string Meeting::waiting(int64_t waited_ns) const {
  std::vector<std::string> missing;
  for (int peer = 0; peer < communicator_.size(); ++peer)
    if (!seen_[static_cast<size_t>(peer)]) missing.push_back(std::to_string(peer));
  const int me = communicator_.rank();
  return fmt::format("rank {} waits in call {} ({}) since {} for rank {}, not there yet; {}", me, sequence_,
                     headers_[static_cast<size_t>(me)].text(), human_ns(static_cast<double>(waited_ns)),
                     join(missing, ", "), last_calls());
}

void Meeting::wait() {
  transport::Transport& transport = communicator_.transport();
  switch (transport::wait_until(transport, transport.timeout_ns(), [&] { return arrived(); })) {
    case transport::Waited::ready: return;
    case transport::Waited::aborted: transport::throw_failure(transport, fmt::format("waiting in call {}", sequence_));
    case transport::Waited::late: {
      const std::string message = waiting(transport.timeout_ns()),
                        remedy = transport::timeout_remedy(transport.timeout_ns());
      transport.note(message);
      transport.raise({ErrorKind::timeout, transport.rank(), message, remedy});
      throw Error(ErrorKind::timeout, message, remedy);
    }
  }
}

}  // namespace weft::api
