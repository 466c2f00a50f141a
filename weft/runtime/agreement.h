// Agreement: how ranks notice that they do not run the same thing, without a message more than the plan has.
//
// Problem: ranks that disagree about a size or a plan hang or mix bits. Ways: check before each collective (a barrier
// per call), check nothing, or let what is sent anyway carry a tag. We take the last (docs/plan.md, 9): each rank
// stores the header of its launch into its own memory, where peers can read it, and folds it into 24 bits that stand in
// every flag. A foreign tag, or a wait of more than 50 us, compares headers; the error shows both.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/expr/expr.h"
#include "weft/transport/transport.h"

namespace weft::runtime {

constexpr int max_channels = 64;

// What stands in the mapped board for one launch of one channel. Written by its owner only; `sequence` last, where it
// also stands last, so that a mirrored entry is whole when its number is there.
struct alignas(64) HeaderEntry {
  std::atomic<uint64_t> hash, binding;
  std::atomic<uint64_t> scalar_count;
  std::array<std::atomic<double>, 12> scalars;
  std::atomic<uint64_t> sequence;
};
static_assert(sizeof(HeaderEntry) == 128);

// What a binding is, in words: written when something is bound, read on the slow path.
struct alignas(64) DetailEntry {
  static constexpr size_t words = 255;
  std::array<std::atomic<uint64_t>, words> text;
  std::atomic<uint64_t> binding;
};

struct Board {
  static constexpr int history = 8;  // launches per channel that can still be compared
  std::array<std::array<HeaderEntry, history>, max_channels> headers;
  std::array<DetailEntry, history> details;
  alignas(64) std::atomic<uint64_t> announced, announced_after;  // binding under way, and the launches before it
};

class Agreement {
 public:
  explicit Agreement(transport::Transport& transport);  // collective

  // The next launch on this channel: publishes, returns its tag (24 bits, never 0).
  uint64_t begin(int channel, uint64_t hash, uint64_t binding, std::span<const expr::ScalarValue> scalars) {
    const uint64_t sequence = ++sequences_[static_cast<size_t>(channel)];
    HeaderEntry& entry = mine_->headers[static_cast<size_t>(channel)][sequence % Board::history];
    entry.sequence.store(0, std::memory_order_relaxed);
    entry.hash.store(hash, std::memory_order_release);
    entry.binding.store(binding, std::memory_order_release);
    const size_t count = scalars.size() < entry.scalars.size() ? scalars.size() : entry.scalars.size();
    entry.scalar_count.store(scalars.size(), std::memory_order_release);
    for (size_t i = 0; i < count; ++i) entry.scalars[i].store(scalars[i].as_f64(), std::memory_order_release);
    entry.sequence.store(sequence, std::memory_order_release);
    if (__builtin_expect(mirrors_, 0)) show(&entry, sizeof entry, true);
    return tag(hash, sequence);
  }
  // Makes sure that `text` can be read by peers under this number.
  void describe(uint64_t binding, const std::string& text);
  bool described(uint64_t binding) const {
    return mine_->details[binding % Board::history].binding.load(std::memory_order_relaxed) == binding;
  }
  uint64_t next_binding() { return ++bindings_; }

  // What this rank binds, while that waits for all ranks: a peer that has launched something else instead would wait
  // for us, and we for it. Taken back when it is done.
  void announce(uint64_t binding, const std::string& text);
  void retract() {
    mine_->announced.store(0, std::memory_order_release);
    if (mirrors_) show(&mine_->announced, 8, true);
  }

  // Compares my present launch on `channel` with what peers have published for the same number. A difference is raised
  // on all ranks and thrown. Peers that are not there yet, or long past, say nothing; one that has been binding since
  // before `waited_ns` of at least a second disagrees too.
  void compare(int channel, int64_t waited_ns);
  // The same after a foreign tag from `peer`: if no header explains it, that is an error too.
  [[noreturn]] void stranger(int channel, int peer, const std::string& where);
  uint64_t sequence(int channel) const { return sequences_[static_cast<size_t>(channel)]; }

  static uint64_t tag(uint64_t hash, uint64_t sequence) {
    uint64_t x = hash ^ (sequence * 0x9e3779b97f4a7c15ull);
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 29;
    const uint64_t tag = x & 0xffffff;
    return tag ? tag : 1;
  }

 private:
  struct Seen {
    uint64_t hash = 0, binding = 0;
    std::vector<double> scalars;
    size_t scalar_count = 0;
  };
  bool read(int rank, int channel, uint64_t sequence, Seen& seen) const;
  std::string text_of(int rank, const Seen& seen) const;
  bool binds_instead(int rank, Seen& seen) const;
  void show(const void* at, int64_t bytes, bool late);  // what stands in my block, to peers that do not map it
  Board& board(int rank) const { return *reinterpret_cast<Board*>(window_->at[static_cast<size_t>(rank)]); }

  transport::Transport& transport_;
  std::shared_ptr<transport::Window> window_;
  Board* mine_;
  bool mirrors_;
  std::array<uint64_t, max_channels> sequences_{};
  uint64_t bindings_ = 0;
};

// At load. Collective: `parts` are named texts (plan, parameters ...); a difference is Error(agreement) on all ranks
// with the names of what differs, the two values, and the first line that differs.
struct NamedText {
  std::string name, text;
};
void agree_on_load(transport::Transport& transport, std::string_view what, const std::vector<NamedText>& parts);

}  // namespace weft::runtime
