// Envelopes, orders and chunks (collectives_messages.h).
#include "weft/api/collectives_messages.h"

#include <algorithm>
#include <cstring>

#include "weft/base/text.h"
#include "weft/transport/wait.h"

namespace weft::api {
namespace {

using Word = std::atomic<uint64_t>;

constexpr uint64_t envelope_count = 16, order_count = 32, slot_count = 4;
constexpr int64_t small_bytes = 960, chunk_bytes = 64 << 10;
constexpr int offset_bits = 48;

// Lines of eight words, the last of which is stored last: it says that the line, and what belongs to it, is there.
struct alignas(64) EnvelopeLine {
  Word tag, count, dtype, id, place, unused[2], number;
  std::byte data[small_bytes];
};
struct alignas(64) OrderLine {
  Word id, copied, unused[5], number;
};
struct alignas(64) ChunkLine {
  Word bytes, unused[6], number;
  std::byte data[chunk_bytes];
};
struct alignas(64) Count {
  Word taken;
};

constexpr int64_t line_bytes = 64;

}  // namespace

struct Messages::Inbox {
  Count envelopes_taken, orders_taken, slots_taken;  // of what the owner of this memory has sent to that peer
  OrderLine orders[order_count];
  EnvelopeLine envelopes[envelope_count];
  ChunkLine slots[slot_count];
};

Messages::Messages(runtime::Communicator& communicator, const Regions& regions)
    : communicator_(communicator),
      transport_(communicator.transport()),
      regions_(regions),
      me_(communicator.rank()),
      peers_(static_cast<size_t>(communicator.size())) {
  if (communicator.size() > 1)
    window_ = transport_.allocate_mirrored(communicator.size() * static_cast<int64_t>(sizeof(Inbox)), "messages");
}

Messages::~Messages() {
  for (const Ref& message : open_) message->owner = nullptr;
}

Messages::Inbox& Messages::at(int rank, int from) const {
  return reinterpret_cast<Inbox*>(window_->at[static_cast<size_t>(rank)])[from];
}

// What was stored into `peer`'s memory: to it, where it does not map that, and it wakes.
void Messages::show(int peer, const void* head, int64_t head_bytes, const void* body, int64_t body_bytes) {
  if (!transport_.mappable(peer)) {
    const std::byte* const block = window_->at[static_cast<size_t>(peer)];
    transport::Put put;
    put.owner = put.to = peer;
    put.head = static_cast<const std::byte*>(head) - block, put.head_bytes = head_bytes;
    if (body_bytes > 0)
      put.body = static_cast<const std::byte*>(body) - block, put.body_bytes = (body_bytes + 7) / 8 * 8;
    transport_.put(*window_, put);
  }
  if (transport_.parked(peer).load(std::memory_order_relaxed)) transport_.wake(peer);
  ++moves_;
}

std::string Messages::Message::text() const {
  const std::string who = peer == any_source ? "any rank" : fmt::format("rank {}", peer);
  const std::string which = tag == any_tag ? "any tag" : fmt::format("tag {}", tag);
  return fmt::format("{} {} {} elements {} {}, {}", sends ? "send" : "receive", name(dtype), count,
                     sends ? "to" : "from", who, which);
}

// ---- the caller's side
void Messages::check(const Message& message, bool any) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::user, fmt::format("{}: {}", message.text(), what),
                "ranks of a communicator count from 0, tags are 0 or more");
  };
  if (message.dtype == Dtype::f64x2) refuse("f64x2 exists inside plans only");
  const bool any_peer = any && message.peer == any_source;
  if (!any_peer && (message.peer < 0 || message.peer >= communicator_.size()))
    refuse(fmt::format("{} is no rank of {}", message.peer, communicator_.size()));
  if (message.tag < 0 && !(any && message.tag == any_tag)) refuse(fmt::format("{} is no tag", message.tag));
  int64_t bytes = 0;
  if (message.count < 0 || __builtin_mul_overflow(message.count, int64_t{size_bytes(message.dtype)}, &bytes))
    refuse(fmt::format("a count of {}", message.count));
  if (message.count > 0 && !message.from && !message.to) refuse("the buffer is null");
}

void Messages::open(const Ref& message) {
  message->bytes = message->count * size_bytes(message->dtype);
  open_.push_back(message);
}

void Messages::close(const Ref& message) {
  message->finish();
  ++moves_;
  std::erase(open_, message);  // not there: it was finished with the error of all
}

std::shared_ptr<Pending::State> Messages::send(const void* data, int64_t count, Dtype dtype, int to, int tag) {
  auto message = std::make_shared<Message>();
  message->sends = true;
  message->from = static_cast<const std::byte*>(data);
  message->count = count, message->dtype = dtype, message->peer = to, message->tag = tag;
  check(*message, false);
  open(message);
  if (to != me_) {
    peers_[static_cast<size_t>(to)].posted.push_back(message);
    return message;
  }
  Envelope envelope;  // to itself: as if it had come
  envelope.source = me_, envelope.tag = tag, envelope.count = count, envelope.dtype = dtype;
  envelope.data.assign(message->from, message->from + message->bytes);
  close(message);
  try {
    arrived(std::move(envelope));
  } catch (...) { message->error = std::current_exception(); }
  return message;
}

std::shared_ptr<Pending::State> Messages::receive(void* data, int64_t count, Dtype dtype, int from, int tag,
                                                  Arrival* arrival) {
  auto message = std::make_shared<Message>();
  message->to = static_cast<std::byte*>(data);
  message->count = count, message->dtype = dtype, message->peer = from, message->tag = tag;
  message->arrival = arrival;
  check(*message, true);
  open(message);
  for (auto at = unexpected_.begin(); at != unexpected_.end(); ++at) {
    if ((from != any_source && from != at->source) || (tag != any_tag && tag != at->tag)) continue;
    const Envelope envelope = std::move(*at);
    unexpected_.erase(at);
    accept(message, envelope);
    return message;
  }
  receives_.push_back(message);
  return message;
}

// ---- matching
void Messages::arrived(Envelope envelope) {
  ++moves_;
  for (auto at = receives_.begin(); at != receives_.end(); ++at) {
    const Message& it = **at;
    if ((it.peer != any_source && it.peer != envelope.source) || (it.tag != any_tag && it.tag != envelope.tag))
      continue;
    const Ref message = *at;
    receives_.erase(at);
    accept(message, envelope);
    return;
  }
  unexpected_.push_back(std::move(envelope));
}

void Messages::differ(const Message& receive, const Envelope& envelope) const {
  const std::string message = fmt::format(
      "ranks disagree about a message from rank {} to rank {}, tag {}:\n    rank {} sends {} {} elements\n"
      "    rank {} receives {} {} elements",
      envelope.source, me_, envelope.tag, envelope.source, name(envelope.dtype), envelope.count, me_,
      name(receive.dtype), receive.count);
  transport_.raise({ErrorKind::agreement, me_, message});
  transport::throw_failure(transport_, "matching messages");
}

void Messages::accept(const Ref& receive, const Envelope& envelope) {
  if (receive->dtype != envelope.dtype || receive->count != envelope.count) differ(*receive, envelope);
  if (receive->arrival) *receive->arrival = {envelope.source, envelope.tag};
  receive->peer = envelope.source, receive->tag = envelope.tag;
  if (envelope.id == 0) {
    if (receive->bytes > 0) std::memcpy(receive->to, envelope.data.data(), static_cast<size_t>(receive->bytes));
    return close(receive);
  }
  Peer& peer = peers_[static_cast<size_t>(envelope.source)];
  const std::byte* const there = regions_.address(envelope.place, envelope.source);
  if (there)
    std::memcpy(receive->to, there, static_cast<size_t>(receive->bytes));
  else
    peer.arriving.push_back(receive);
  peer.orders.push_back({envelope.id, there != nullptr, there ? receive : nullptr});
  ++due_orders_;
}

// ---- what can be done with one peer
bool Messages::send_envelopes(int to) {
  Peer& peer = peers_[static_cast<size_t>(to)];
  bool any = false;
  while (!peer.posted.empty()) {
    const uint64_t taken = at(me_, to).envelopes_taken.taken.load(std::memory_order_acquire);
    if (peer.envelopes_sent - taken >= envelope_count) return any;
    const Ref message = peer.posted.front();
    peer.posted.pop_front();
    EnvelopeLine& line = at(to, me_).envelopes[peer.envelopes_sent % envelope_count];
    const bool small = message->bytes <= small_bytes;
    const Place place = small ? Place() : regions_.find(message->from, message->bytes);
    if (small && message->bytes > 0) std::memcpy(line.data, message->from, static_cast<size_t>(message->bytes));
    line.tag.store(static_cast<uint64_t>(message->tag), std::memory_order_relaxed);
    line.count.store(static_cast<uint64_t>(message->count), std::memory_order_relaxed);
    line.dtype.store(static_cast<uint64_t>(message->dtype), std::memory_order_relaxed);
    line.id.store(small ? 0 : ++peer.last_id, std::memory_order_relaxed);
    line.place.store(uint64_t{place.region} << offset_bits | static_cast<uint64_t>(place.offset),
                     std::memory_order_relaxed);
    line.number.store(++peer.envelopes_sent, std::memory_order_release);
    show(to, &line, line_bytes, line.data, small ? message->bytes : 0);
    if (small)
      sent_.push_back(message);
    else
      peer.offered[peer.last_id] = message;
    any = true;
  }
  return any;
}

// What came over a wire is believed only where it can be true: its dtype exists, and what travels with it fits.
void Messages::require_whole(int from, const Envelope& envelope) {
  const std::vector<Dtype>& known = all_dtypes();
  const bool dtype = std::find(known.begin(), known.end(), envelope.dtype) != known.end();
  const int64_t most = envelope.id == 0 && dtype ? small_bytes / size_bytes(envelope.dtype) : INT64_MAX / 16;
  if (dtype && envelope.count >= 0 && envelope.count <= most) return;
  transport_.raise({ErrorKind::peer, from,
                    fmt::format("rank {} sent a message of {} elements of dtype {}, which cannot be", from,
                                envelope.count, static_cast<int>(envelope.dtype)),
                    "its memory or its connection is damaged: start all ranks again"});
  transport::throw_failure(transport_, "reading messages");
}

bool Messages::read_envelopes(int from) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  bool any = false;
  for (;; any = true) {
    const EnvelopeLine& line = at(me_, from).envelopes[peer.envelopes_taken % envelope_count];
    if (line.number.load(std::memory_order_acquire) != peer.envelopes_taken + 1) return any;
    Envelope envelope;
    envelope.source = from;
    envelope.tag = static_cast<int>(line.tag.load(std::memory_order_relaxed));
    envelope.count = static_cast<int64_t>(line.count.load(std::memory_order_relaxed));
    envelope.dtype = static_cast<Dtype>(line.dtype.load(std::memory_order_relaxed));
    envelope.id = line.id.load(std::memory_order_relaxed);
    require_whole(from, envelope);
    const uint64_t place = line.place.load(std::memory_order_relaxed);
    envelope.place = {static_cast<uint32_t>(place >> offset_bits),
                      static_cast<int64_t>(place & ((uint64_t{1} << offset_bits) - 1))};
    if (envelope.id == 0) { envelope.data.assign(line.data, line.data + envelope.count * size_bytes(envelope.dtype)); }
    Count& count = at(from, me_).envelopes_taken;
    count.taken.store(++peer.envelopes_taken, std::memory_order_release);
    show(from, &count, sizeof count.taken, nullptr, 0);
    arrived(std::move(envelope));
  }
}

bool Messages::send_orders(int to) {
  Peer& peer = peers_[static_cast<size_t>(to)];
  bool any = false;
  for (; !peer.orders.empty(); any = true) {
    if (peer.orders_sent - at(me_, to).orders_taken.taken.load(std::memory_order_acquire) >= order_count) return any;
    OrderLine& line = at(to, me_).orders[peer.orders_sent % order_count];
    line.id.store(peer.orders.front().id, std::memory_order_relaxed);
    line.copied.store(peer.orders.front().copied ? 1 : 0, std::memory_order_relaxed);
    line.number.store(++peer.orders_sent, std::memory_order_release);
    show(to, &line, line_bytes, nullptr, 0);
    const Ref receive = std::move(peer.orders.front().receive);
    peer.orders.pop_front();
    --due_orders_;
    if (receive) close(receive);
  }
  return any;
}

bool Messages::read_orders(int from) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  bool any = false;
  for (;; any = true) {
    const OrderLine& line = at(me_, from).orders[peer.orders_taken % order_count];
    if (line.number.load(std::memory_order_acquire) != peer.orders_taken + 1) return any;
    const auto offered = peer.offered.find(line.id.load(std::memory_order_relaxed));
    WEFT_CHECK(offered != peer.offered.end(), "rank {} orders a message that was not offered", from);
    const Ref message = offered->second;
    peer.offered.erase(offered);
    if (line.copied.load(std::memory_order_relaxed))
      close(message);
    else
      peer.leaving.push_back(message);
    Count& count = at(from, me_).orders_taken;
    count.taken.store(++peer.orders_taken, std::memory_order_release);
    show(from, &count, sizeof count.taken, nullptr, 0);
  }
}

bool Messages::send_chunk(int to) {
  Peer& peer = peers_[static_cast<size_t>(to)];
  if (peer.leaving.empty() ||
      peer.slots_sent - at(me_, to).slots_taken.taken.load(std::memory_order_acquire) >= slot_count)
    return false;
  const Ref message = peer.leaving.front();
  const int64_t bytes = std::min(chunk_bytes, message->bytes - message->done_bytes);
  ChunkLine& line = at(to, me_).slots[peer.slots_sent % slot_count];
  std::memcpy(line.data, message->from + message->done_bytes, static_cast<size_t>(bytes));
  line.bytes.store(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
  line.number.store(++peer.slots_sent, std::memory_order_release);
  show(to, &line, line_bytes, line.data, bytes);
  message->done_bytes += bytes;
  if (message->done_bytes < message->bytes) return true;
  peer.leaving.pop_front();
  sent_.push_back(message);
  return true;
}

bool Messages::take_chunk(int from) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  if (peer.arriving.empty()) return false;
  const ChunkLine& line = at(me_, from).slots[peer.slots_taken % slot_count];
  if (line.number.load(std::memory_order_acquire) != peer.slots_taken + 1) return false;
  const Ref message = peer.arriving.front();
  const auto bytes = static_cast<int64_t>(line.bytes.load(std::memory_order_relaxed));
  WEFT_CHECK(bytes <= std::min(chunk_bytes, message->bytes - message->done_bytes), "a chunk of {} bytes", bytes);
  std::memcpy(message->to + message->done_bytes, line.data, static_cast<size_t>(bytes));
  Count& count = at(from, me_).slots_taken;
  count.taken.store(++peer.slots_taken, std::memory_order_release);
  show(from, &count, sizeof count.taken, nullptr, 0);
  message->done_bytes += bytes;
  if (message->done_bytes < message->bytes) return true;
  peer.arriving.pop_front();
  close(message);
  return true;
}

bool Messages::step(int peer) {
  bool any = send_envelopes(peer);
  any |= read_envelopes(peer);
  any |= send_orders(peer);
  any |= read_orders(peer);
  any |= send_chunk(peer);
  any |= take_chunk(peer);
  return any;
}

void Messages::progress() {
  if (idle() || progressing_ || !window_) return;
  progressing_ = true;
  try {
    // After a failure nothing is touched any more: the caller may take its buffers back.
    if (transport_.abort_word().load(std::memory_order_acquire))
      transport::throw_failure(transport_, "moving messages");
    const bool mirrors = transport_.mirrors();
    for (bool any = true; any;) {
      any = false;
      if (mirrors) transport_.progress();
      for (int peer = 0; peer < communicator_.size(); ++peer)
        if (peer != me_) any |= step(peer);
    }
    // A send is complete when nothing of it waits for this rank any more.
    if (!sent_.empty() && (!mirrors || transport_.flush(true)))
      for (const Ref& message : std::exchange(sent_, {})) close(message);
  } catch (...) {
    for (const Ref& message : std::exchange(open_, {})) message->finish(std::current_exception());
    due_orders_ = 0;
  }
  progressing_ = false;
}

std::string Messages::waiting(int64_t waited_ns) const {
  std::vector<std::string> open, unexpected;
  for (const Ref& message : open_) open.push_back(message->text());
  for (const Envelope& envelope : unexpected_)
    unexpected.push_back(fmt::format("{} {} elements from rank {}, tag {}", name(envelope.dtype), envelope.count,
                                     envelope.source, envelope.tag));
  constexpr size_t shown = 8;
  for (auto* list : {&open, &unexpected})
    if (list->size() > shown) list->resize(shown), list->push_back("...");
  return fmt::format("rank {} waits since {} for: {}; messages that came and nobody receives: {}", me_,
                     human_ns(static_cast<double>(waited_ns)), join(open, "; "),
                     unexpected.empty() ? "none" : join(unexpected, "; "));
}

}  // namespace weft::api
