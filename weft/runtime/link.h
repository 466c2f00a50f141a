// Links: rings of slots in memory of the receiver, a flag per message, credits pushed back to the sender.
//
// Problem: a message must be seen when it is whole, a stale slot must never be taken for a new message, and a message
// of another launch must be noticed. Ways: an empty/full bit (the receiver must reset it: one more write in the way of
// the sender, and an aborted launch leaves it wrong), a number (stale slots are harmless by construction), a number and
// a tag (strangers are visible too). We take the last: flag = [tag 24 | number 40], the number running over the life of
// the ring, so that nothing is ever reset and all plans share the rings of a communicator without a barrier.
//
// Protocols: `simple`: the flag in the slot's head line; up to 48 bytes ride in that line (one hop instead of two).
// `ll128`: 56 bytes and a flag in each 64-byte line: a message is read while it is still being written. `ll`: 4 bytes
// and a flag of 32 bits, [tag 16 | number 16], in each 8-byte word, which is whole on any machine; where its number
// begins a half of its range, the sender clears the slot's rest, so that no word of 32,768 messages ago can match.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/transport/transport.h"

namespace weft::runtime {

using Word = std::atomic<uint64_t>;

constexpr int number_bits = 40;
constexpr uint64_t number_mask = (uint64_t{1} << number_bits) - 1;
inline uint64_t tag_of(uint64_t flag) { return flag >> number_bits; }
inline uint64_t number_of(uint64_t flag) { return flag & number_mask; }

// The head of a `simple` slot.
struct SlotHead {
  Word bytes;  // of the message: where counts are not agreed (`given`), a difference is seen
  std::byte small[48];
  Word flag;  // last: words that are mirrored are stored in their order
};
static_assert(sizeof(SlotHead) == 64);
struct Line128 {
  std::byte data[56];
  Word flag;
};
static_assert(sizeof(Line128) == 64);
constexpr int64_t small_bytes = sizeof(SlotHead::small), line_bytes = sizeof(Line128::data);

// Bytes of a slot that carries `payload_bytes`.
int64_t slot_bytes(plan::Protocol protocol, int64_t payload_bytes);

// Credits travel in three ways. A rank runs the launches of a communicator one after the other, so a message of launch
// k says that its sender has taken everything of earlier launches: no word is needed (an exchange of one message each
// way then costs no credits at all, a third of an 8-byte call). Inside a launch the receiver pushes a word every few
// messages. And before it waits it pushes what it has held back, so that the stated slots are always there.
// Over a transport that mirrors: what was stored into the copy of the peer's memory goes to the peer.
struct Mirror {
  transport::Transport* transport = nullptr;
  transport::Window* window = nullptr;  // null: the peer's memory is mapped
  void put(int peer, const void* at, int64_t bytes, bool late = false) const;
  void put_with_body(int peer, const void* head, int64_t head_bytes, const void* body, int64_t body_bytes) const;
};

struct SendEnd {
  std::byte* slots = nullptr;    // in the receiver's memory
  const Word* credit = nullptr;  // messages the receiver has taken; here
  std::atomic<uint32_t>* parked = nullptr;
  uint64_t sent = 0, taken_seen = 0;
  uint64_t launch = 0, sent_before = 0;  // the launch that used this end last, and what was sent before it
  uint32_t mask = 0;
  int32_t peer = 0;
  int64_t slot_bytes = 0;
  Mirror mirror;

  std::byte* slot(uint64_t ahead) const { return slots + static_cast<int64_t>((sent + ahead) & mask) * slot_bytes; }
  void enter(uint64_t now) {
    if (launch != now) launch = now, sent_before = sent;
  }
  // Fewer than `limit` messages under way, counting `ahead` that this step will send before.
  bool has_room(uint64_t ahead, uint64_t limit) {
    if (sent + ahead - taken_seen < limit) return true;
    taken_seen = credit->load(std::memory_order_acquire);
    return sent + ahead - taken_seen < limit;
  }
};

struct RecvEnd {
  std::byte* slots = nullptr;  // here
  Word* credit = nullptr;      // in the sender's memory
  std::atomic<uint32_t>* parked = nullptr;
  SendEnd* back = nullptr;                   // to the same peer, in the same rings
  uint64_t taken = 0, told = 0, pushed = 0;  // told: what the sender knows or will learn; pushed: in its word
  uint64_t launch = 0, taken_before = 0;     // the launch that used this end last, and what was taken before it
  int64_t unpacked = 0;                      // ll, ll128: lines of the present message that are in the staging memory
  uint32_t mask = 0;
  int32_t peer = 0;
  int64_t slot_bytes = 0;
  Mirror mirror;

  std::byte* slot(uint64_t ahead) const { return slots + static_cast<int64_t>((taken + ahead) & mask) * slot_bytes; }
  // A message of launch `now` is taken. True: credits are due.
  bool take(uint64_t now, uint64_t tell_every) {
    if (launch != now) launch = now, taken_before = taken;
    ++taken;
    back->enter(now);
    if (back->taken_seen < back->sent_before) back->taken_seen = back->sent_before;
    if (back->sent != back->sent_before && told < taken_before) told = taken_before;
    return taken - told >= tell_every;
  }
  void push() {
    if (pushed == taken) return;
    told = pushed = taken;
    credit->store(taken, std::memory_order_release);
    if (__builtin_expect(mirror.window != nullptr, 0)) mirror.put(peer, credit, sizeof *credit);
  }
};

// All rings of one protocol and ordinal, of all channels and pairs; the same shape on all ranks.
struct RingKey {
  plan::Protocol protocol = plan::Protocol::simple;
  int ordinal = 0;  // which family of that protocol in its plan
  int channels = 1;
  int64_t slots = 4, payload_bytes = 0;
  bool serves(const RingKey& wanted) const;
};

class RingSet {
 public:
  // Collective.
  RingSet(transport::Transport& transport, const RingKey& key);
  const RingKey& key() const { return key_; }
  SendEnd& to(int channel, int peer) { return sends_[index(channel, peer)]; }
  RecvEnd& from(int channel, int peer) { return recvs_[index(channel, peer)]; }
  void push_credits(transport::Transport& transport);  // those that were held back; wakes who sleeps

 private:
  size_t index(int channel, int peer) const { return static_cast<size_t>(channel * ranks_ + peer); }
  RingKey key_;
  int ranks_;
  std::shared_ptr<transport::Window> window_;
  std::vector<SendEnd> sends_;
  std::vector<RecvEnd> recvs_;
};

// The message of `bytes` that stands in `slot` goes to a peer that does not map it. `whole`: the slot's rest was written
// too.
void mirror_message(const SendEnd& end, plan::Protocol protocol, const std::byte* slot, int64_t bytes, bool whole);
// Whether pack_ll writes the whole slot for this flag.
inline bool rewrites_slot(uint64_t flag, uint64_t slots) { return (number_of(flag) & 0x7fff) < slots; }

// ---- ll and ll128: between lines and contiguous staging memory
void pack_ll128(std::byte* slot, const std::byte* message, int64_t bytes, uint64_t flag);
// Takes over lines from `done` on as they come; returns how many are there. Sets `foreign` to a flag that has the right
// number and another tag.
int64_t unpack_ll128(const std::byte* slot, std::byte* message, int64_t bytes, uint64_t flag, int64_t done,
                     uint64_t& foreign);
void pack_ll(std::byte* slot, int64_t slot_bytes, const std::byte* message, int64_t bytes, uint64_t flag,
             uint64_t slots);
int64_t unpack_ll(const std::byte* slot, std::byte* message, int64_t bytes, uint64_t flag, int64_t done,
                  uint64_t& foreign);
inline int64_t lines_ll128(int64_t bytes) { return (bytes + line_bytes - 1) / line_bytes; }
inline int64_t words_ll(int64_t bytes) { return (bytes + 3) / 4; }

}  // namespace weft::runtime
