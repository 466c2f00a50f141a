// Rings and the packing of low-latency messages (link.h).
#include "weft/runtime/link.h"

#include <algorithm>

namespace weft::runtime {
namespace {

constexpr int64_t credit_bytes = 64;  // a line per credit word: each is written by another rank

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

uint32_t power_of_two(int64_t at_least) {
  uint32_t value = 1;
  while (value < at_least) value *= 2;
  return value;
}

uint32_t short_flag(uint64_t flag) {
  return static_cast<uint32_t>((tag_of(flag) & 0xffff) << 16 | (number_of(flag) & 0xffff));
}

}  // namespace

int64_t slot_bytes(plan::Protocol protocol, int64_t payload_bytes) {
  switch (protocol) {
    case plan::Protocol::simple: return 64 + round_up(payload_bytes, 64);
    case plan::Protocol::ll128: return std::max<int64_t>(1, lines_ll128(payload_bytes)) * 64;
    case plan::Protocol::ll: return round_up(std::max<int64_t>(1, words_ll(payload_bytes)) * 8, 64);
  }
  return 0;
}

void Mirror::put(int peer, const void* at, int64_t bytes, bool late) const {
  transport::Put put;
  put.owner = put.to = peer;
  put.head = static_cast<const std::byte*>(at) - window->at[static_cast<size_t>(peer)];
  put.head_bytes = bytes, put.late = late;
  transport->put(*window, put);
}

void Mirror::put_with_body(int peer, const void* head, int64_t head_bytes, const void* body, int64_t body_bytes) const {
  const std::byte* const block = window->at[static_cast<size_t>(peer)];
  transport::Put put;
  put.owner = put.to = peer;
  put.head = static_cast<const std::byte*>(head) - block, put.head_bytes = head_bytes;
  put.body = static_cast<const std::byte*>(body) - block, put.body_bytes = body_bytes;
  transport->put(*window, put);
}

void mirror_message(const SendEnd& end, plan::Protocol protocol, const std::byte* slot, int64_t bytes, bool whole) {
  if (protocol == plan::Protocol::ll)
    return end.mirror.put(end.peer, slot, whole ? end.slot_bytes : round_up(words_ll(bytes) * 8, 8));
  if (protocol == plan::Protocol::ll128) return end.mirror.put(end.peer, slot, lines_ll128(bytes) * 64);
  const auto* head = reinterpret_cast<const SlotHead*>(slot);
  if (bytes <= small_bytes) return end.mirror.put(end.peer, head, sizeof *head);
  end.mirror.put_with_body(end.peer, head, sizeof *head, head + 1, round_up(bytes, 8));
}

bool RingKey::serves(const RingKey& wanted) const {
  return protocol == wanted.protocol && ordinal == wanted.ordinal && channels >= wanted.channels &&
         slots >= wanted.slots && payload_bytes >= wanted.payload_bytes;
}

RingSet::RingSet(transport::Transport& transport, const RingKey& key) : key_(key), ranks_(transport.size()) {
  const auto slots = static_cast<int64_t>(power_of_two(key.slots));
  const int64_t one_slot = slot_bytes(key.protocol, key.payload_bytes), ring = slots * one_slot;
  const int64_t pairs = static_cast<int64_t>(key.channels) * ranks_;
  window_ = transport.allocate_mirrored(pairs * (ring + credit_bytes), "the slots of links");
  const int me = transport.rank();
  for (int channel = 0; channel < key.channels; ++channel)
    for (int peer = 0; peer < ranks_; ++peer) {
      std::byte* const here = window_->at[static_cast<size_t>(me)];
      std::byte* const there = window_->at[static_cast<size_t>(peer)];
      const auto mine = static_cast<int64_t>(index(channel, peer)), theirs = static_cast<int64_t>(index(channel, me));
      const auto mask = static_cast<uint32_t>(slots - 1);
      SendEnd& send = sends_.emplace_back();
      send.slots = there + pairs * credit_bytes + theirs * ring;
      send.credit = reinterpret_cast<Word*>(here + mine * credit_bytes);
      send.parked = &transport.parked(peer);
      send.mask = mask, send.peer = peer, send.slot_bytes = one_slot;
      if (!transport.mappable(peer)) send.mirror = {&transport, window_.get()};
      RecvEnd& recv = recvs_.emplace_back();
      recv.slots = here + pairs * credit_bytes + mine * ring;
      recv.credit = reinterpret_cast<Word*>(there + theirs * credit_bytes);
      recv.parked = &transport.parked(peer);
      recv.mask = mask, recv.peer = peer, recv.slot_bytes = one_slot;
      recv.mirror = send.mirror;
    }
  for (size_t i = 0; i < recvs_.size(); ++i) recvs_[i].back = &sends_[i];
}

void RingSet::push_credits(transport::Transport& transport) {
  for (RecvEnd& end : recvs_) {
    if (end.pushed == end.taken) continue;
    end.push();
    if (end.parked->load(std::memory_order_relaxed)) transport.wake(end.peer);
  }
}

void pack_ll128(std::byte* slot, const std::byte* message, int64_t bytes, uint64_t flag) {
  auto* line = reinterpret_cast<Line128*>(slot);
  for (int64_t at = 0; at < bytes; at += line_bytes, ++line) {
    std::memcpy(line->data, message + at, static_cast<size_t>(std::min(line_bytes, bytes - at)));
    line->flag.store(flag, std::memory_order_release);
  }
}

int64_t unpack_ll128(const std::byte* slot, std::byte* message, int64_t bytes, uint64_t flag, int64_t done,
                     uint64_t& foreign) {
  const auto* line = reinterpret_cast<const Line128*>(slot) + done;
  for (int64_t at = done * line_bytes; at < bytes; at += line_bytes, ++line, ++done) {
    const uint64_t seen = line->flag.load(std::memory_order_acquire);
    if (seen != flag) {
      if (number_of(seen) == number_of(flag)) foreign = seen;
      return done;
    }
    std::memcpy(message + at, line->data, static_cast<size_t>(std::min(line_bytes, bytes - at)));
  }
  return done;
}

void pack_ll(std::byte* slot, int64_t slot_bytes, const std::byte* message, int64_t bytes, uint64_t flag,
             uint64_t slots) {
  auto* word = reinterpret_cast<Word*>(slot);
  const uint64_t mark = static_cast<uint64_t>(short_flag(flag)) << 32;
  int64_t at = 0;
  for (; at < bytes; at += 4, ++word) {
    uint32_t data = 0;
    std::memcpy(&data, message + at, static_cast<size_t>(std::min<int64_t>(4, bytes - at)));
    word->store(mark | data, std::memory_order_release);
  }
  // A number of 16 bits comes again after 65,536 messages: words that shorter messages left alone must not match then.
  if (rewrites_slot(flag, slots))
    for (auto* end = reinterpret_cast<Word*>(slot + slot_bytes); word < end; ++word)
      word->store(mark, std::memory_order_relaxed);
}

int64_t unpack_ll(const std::byte* slot, std::byte* message, int64_t bytes, uint64_t flag, int64_t done,
                  uint64_t& foreign) {
  const auto* word = reinterpret_cast<const Word*>(slot) + done;
  const uint32_t mark = short_flag(flag);
  for (int64_t at = done * 4; at < bytes; at += 4, ++word, ++done) {
    const uint64_t seen = word->load(std::memory_order_acquire);
    const auto seen_mark = static_cast<uint32_t>(seen >> 32);
    if (seen_mark != mark) {
      if (seen_mark && (seen_mark & 0xffff) == (mark & 0xffff))
        foreign = uint64_t{seen_mark} >> 16 << number_bits | number_of(flag);
      return done;
    }
    const auto data = static_cast<uint32_t>(seen);
    std::memcpy(message + at, &data, static_cast<size_t>(std::min<int64_t>(4, bytes - at)));
  }
  return done;
}

}  // namespace weft::runtime
