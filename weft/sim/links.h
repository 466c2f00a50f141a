// The links of a run: opened when an end first names them, found again by (family, channel, sender, receiver).
// Internal to the room.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/sim/agenda.h"

namespace weft::sim {

constexpr uint32_t nobody = 0xFFFFFFFF;
constexpr uint32_t arrival_bit = 0x80000000;  // in Entry::tie: an arrival on a link, else a lane that sends

// Messages are numbered from 0; message m lies in slot m % slots. sent >= arrived >= taken >= returned.
struct Link {
  uint32_t sender = nobody, receiver = nobody;  // lanes
  uint32_t rank = 0, from = 0;                  // the simulated ranks that receive and send
  uint32_t first_slot = 0, slots = 1, tie = 0;
  uint32_t sent = 0, arrived = 0, taken = 0, returned = 0;
  uint16_t cost = 0, send_port = 0, receive_port = 0, family = 0;
  bool receiver_waits = false, sender_waits = false;
  uint32_t slot(uint32_t message) const {
    return first_slot + ((slots & (slots - 1)) == 0 ? message & (slots - 1) : message % slots);
  }
};

struct Slot {
  // Of its message: the first byte's arrival, and once it has arrived the last one's. Of an empty slot: when the sender
  // may fill it again.
  Time time = 0;
  int64_t bytes = 0;
};

// Open addressing: keys are dense enough in their bits for a multiplicative hash.
class LinkTable {
 public:
  LinkTable() : keys_(1024), values_(1024) {}
  static uint64_t key(int family, int channel, int64_t from, int64_t to) {
    return 1 + (static_cast<uint64_t>(family) << 54 | static_cast<uint64_t>(channel) << 44 |
                static_cast<uint64_t>(from) << 22 | static_cast<uint64_t>(to));
  }
  // The value of the key, which is `fresh` if it was not there.
  uint32_t find_or_add(uint64_t key, uint32_t fresh) {
    if (2 * (count_ + 1) > keys_.size()) grow();
    const size_t at = place(key);
    if (keys_[at] == 0) {
      keys_[at] = key;
      values_[at] = fresh;
      ++count_;
    }
    return values_[at];
  }

 private:
  size_t place(uint64_t key) const {
    size_t at = (key * 0x9E3779B97F4A7C15ull) >> 20 & (keys_.size() - 1);
    while (keys_[at] != 0 && keys_[at] != key) at = (at + 1) & (keys_.size() - 1);
    return at;
  }
  void grow() {
    std::vector<uint64_t> keys(2 * keys_.size());
    std::vector<uint32_t> values(keys.size());
    keys.swap(keys_);
    values.swap(values_);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == 0) continue;
      const size_t at = place(keys[i]);
      keys_[at] = keys[i];
      values_[at] = values[i];
    }
  }
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> values_;
  size_t count_ = 0;
};

}  // namespace weft::sim
