// Notes with a time, and who acts on them (paced.h).
#include "weft/transport/paced.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <mutex>

#include "weft/base/text.h"
#include "weft/transport/layered.h"
#include "weft/transport/wait.h"
#include "weft/transport/words.h"

namespace weft::transport {
namespace {

struct Note {
  static constexpr int64_t inline_bytes = 128;
  int64_t due_ns = 0;
  uint32_t window = 0;
  int32_t owner = 0;
  int64_t head = 0, head_bytes = 0, body = 0, body_bytes = 0;
  std::array<uint64_t, inline_bytes / 8> words{};  // the head, where it fits; else it is read when it is due
};

// From one sender, in the receiver's memory.
struct NoteQueue {
  static constexpr uint64_t depth = 512;
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  alignas(64) std::array<Note, depth> notes;
};

struct PacedWindow : LayeredWindow {
  uint32_t number = 0;
  int64_t stride = 0;  // between the blocks of a rank's copy
  std::byte* copy(int of_rank, int owner) const { return inner->at[static_cast<size_t>(of_rank)] + owner * stride; }
};

class PacedTransport final : public LayeredTransport {
 public:
  PacedTransport(Transport& inner, const PacedOptions& options)
      : LayeredTransport(inner), options_(options), moved_(static_cast<size_t>(inner.size()), 0) {
    const auto n = static_cast<int64_t>(size());
    queues_ = inner.allocate(n * static_cast<int64_t>(sizeof(NoteQueue)), "messages on their way");
    free_at_ = inner.allocate(n * n * 64, "links that are taken");
    inner.barrier("paced links");
  }
  std::string_view name() const override { return "paced"; }
  bool mappable(int peer) const override {
    return peer == rank() || (options_.within_mapped && group(peer) == group(rank()));
  }
  bool mirrors() const override {
    for (int peer = 0; peer < size(); ++peer)
      if (!mappable(peer)) return true;
    return false;
  }

  std::shared_ptr<Window> allocate(int64_t bytes, std::string_view what) override {
    auto window = std::make_shared<LayeredWindow>();
    window->inner = inner_.allocate(bytes, what);
    window->bytes = bytes;
    window->at = window->inner->at;
    for (int peer = 0; peer < size(); ++peer)
      if (!mappable(peer)) window->at[static_cast<size_t>(peer)] = nullptr;
    return window;
  }

  std::shared_ptr<Window> allocate_mirrored(int64_t bytes, std::string_view what) override {
    auto window = std::make_shared<PacedWindow>();
    window->stride = (bytes + 4095) / 4096 * 4096;
    window->inner = inner_.allocate(window->stride * size(), what);
    window->bytes = bytes;
    for (int peer = 0; peer < size(); ++peer) window->at.push_back(window->copy(mappable(peer) ? peer : rank(), peer));
    {
      const std::lock_guard lock(mutex_);
      window->number = static_cast<uint32_t>(windows_.size());
      windows_.push_back(window);
    }
    inner_.barrier("mirrored memory");  // nobody's note comes before this rank knows the window
    return window;
  }

  void put(Window& window, const Put& put) override {
    auto& paced = static_cast<PacedWindow&>(window);
    Note note;
    note.window = paced.number, note.owner = put.owner;
    note.head = put.head, note.head_bytes = put.head_bytes, note.body = put.body, note.body_bytes = put.body_bytes;
    if (put.head_bytes <= Note::inline_bytes)
      std::memcpy(note.words.data(), paced.copy(rank(), put.owner) + put.head, static_cast<size_t>(put.head_bytes));
    note.due_ns = reserve(put.to, put.late ? 0 : put.head_bytes + put.body_bytes);
    post(put.to, note);
    if (!put.late && parked(put.to).load(std::memory_order_relaxed)) wake(put.to);
  }

  bool progress() override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    bool any = false;
    next_due_ns_ = INT64_MAX;
    for (int peer = 0; peer < size(); ++peer)
      if (!mappable(peer)) any |= take(peer);
    return any;
  }

  void park(int64_t at_most_ns) override {
    constexpr int64_t wake_ns = 100'000;  // what a sleeper needs at most to be there in time
    if (progress()) return;
    const int64_t left = next_due_ns_.load(std::memory_order_relaxed) - clock_ns();
    if (left < wake_ns)
      sched_yield();
    else
      inner_.park(std::min(at_most_ns, left - wake_ns));
  }

 private:
  int group(int rank) const { return options_.group_ranks > 0 ? rank / options_.group_ranks : rank; }
  NoteQueue& queue(int to, int from) const {
    return reinterpret_cast<NoteQueue*>(queues_->at[static_cast<size_t>(to)])[from];
  }

  // When the last byte of a message that is sent now has crossed.
  int64_t reserve(int to, int64_t bytes) {
    const bool inside = group(to) == group(rank());
    const Pace& pace = inside ? options_.within : options_.between;
    const bool shared = options_.shared && !inside;
    const int64_t link = shared ? int64_t{group(rank())} * size() + group(to) : int64_t{rank()} * size() + to;
    auto& free_at = *reinterpret_cast<std::atomic<int64_t>*>(free_at_->at[0] + link * 64);
    const int64_t now = clock_ns(),
                  crossing =
                      pace.bytes_per_ns > 0 ? static_cast<int64_t>(static_cast<double>(bytes) / pace.bytes_per_ns) : 0;
    int64_t before = free_at.load(std::memory_order_relaxed), after = 0;
    do after = std::max(before, now) + crossing;
    while (!free_at.compare_exchange_weak(before, after, std::memory_order_relaxed));
    return after + pace.alpha_ns;
  }

  void post(int to, const Note& note) {
    NoteQueue& queue = this->queue(to, rank());
    const std::lock_guard lock(post_mutex_);
    const uint64_t at = queue.written.load(std::memory_order_relaxed);
    const Waited waited = wait_until(inner_, timeout_ns(), [&] {
      if (at - queue.read.load(std::memory_order_acquire) < NoteQueue::depth) return true;
      progress();
      return false;
    });
    if (waited == Waited::late)
      raise(
          {ErrorKind::timeout, rank(),
           fmt::format("rank {} has {} messages under way to rank {}, which takes none", rank(), NoteQueue::depth, to),
           timeout_remedy(timeout_ns())});
    if (waited != Waited::ready) return;  // whoever waits next sees the failure
    queue.notes[at % NoteQueue::depth] = note;
    queue.written.store(at + 1, std::memory_order_release);
  }

  bool take(int from) {
    NoteQueue& queue = this->queue(rank(), from);
    const uint64_t written = queue.written.load(std::memory_order_acquire);
    uint64_t read = queue.read.load(std::memory_order_relaxed);
    if (read == written) return false;
    uint64_t& moved = moved_[static_cast<size_t>(from)];
    for (; moved < written; ++moved) move_body(queue.notes[moved % NoteQueue::depth], from);
    const uint64_t before = read;
    for (; read < written; ++read) {
      const Note& note = queue.notes[read % NoteQueue::depth];
      if (note.due_ns > clock_ns()) {
        next_due_ns_ = std::min(next_due_ns_.load(std::memory_order_relaxed), note.due_ns);
        break;
      }
      show_head(note, from);
    }
    if (read != before) queue.read.store(read, std::memory_order_release);
    return read != before;
  }

  void move_body(const Note& note, int from) {
    const auto window = windows_[note.window].lock();
    if (!window || note.body_bytes == 0) return;
    std::memcpy(window->copy(rank(), note.owner) + note.body, window->copy(from, note.owner) + note.body,
                static_cast<size_t>(note.body_bytes));
  }
  void show_head(const Note& note, int from) {
    const auto window = windows_[note.window].lock();
    if (!window) return;  // it is gone here; nobody looks
    const auto* words = note.head_bytes <= Note::inline_bytes ? reinterpret_cast<const std::byte*>(note.words.data())
                                                              : window->copy(from, note.owner) + note.head;
    store_words(window->copy(rank(), note.owner) + note.head, words, note.head_bytes);
  }

  PacedOptions options_;
  std::shared_ptr<Window> queues_, free_at_;
  std::mutex mutex_, post_mutex_;  // taking, leaving
  std::vector<std::weak_ptr<PacedWindow>> windows_;
  std::vector<uint64_t> moved_;  // per sender: notes whose bodies are here
  std::atomic<int64_t> next_due_ns_{INT64_MAX};
};

// ---- "alpha=5us,bw=1GB/s"
double scaled(std::string_view item, std::string_view value,
              std::initializer_list<std::pair<std::string_view, double>> units) {
  double number = 0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
  const std::string_view unit(end, static_cast<size_t>(value.data() + value.size() - end));
  std::vector<std::string> known;
  for (const auto& [name, factor] : units) {
    if (problem == std::errc() && unit == name && number >= 0 && number < 1e12) return number * factor;
    known.emplace_back(name);
  }
  throw Error(ErrorKind::user, fmt::format("paced: {}={} is not a number with a unit", item, value),
              "units are " + join(known, ", "));
}

void set_pace(std::string_view item, std::string_view key, std::string_view value, Pace& pace) {
  if (key == "alpha")
    pace.alpha_ns = static_cast<int64_t>(scaled(item, value, {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}));
  else
    pace.bytes_per_ns = scaled(item, value, {{"GB/s", 1}, {"MB/s", 1e-3}, {"kB/s", 1e-6}, {"Gbit/s", 0.125}});
}

std::string print(const Pace& pace, std::string_view prefix) {
  std::string text = fmt::format("{}alpha={}ns", prefix, pace.alpha_ns);
  if (pace.bytes_per_ns > 0) text += fmt::format(",{}bw={}GB/s", prefix, pace.bytes_per_ns);
  return text;
}

}  // namespace

PacedOptions parse_paced(std::string_view text) {
  PacedOptions options;
  for (const std::string& item : split(text, ',')) {
    if (item.empty()) continue;
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals), value = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (key == "alpha" || key == "bw")
      set_pace(key, key, value, options.between);
    else if (key == "within.alpha" || key == "within.bw")
      set_pace(key, key.substr(7), value, options.within), options.within_mapped = false;
    else if (key == "group")
      options.group_ranks = static_cast<int>(parse_count(value));
    else if (key == "shared" && value.empty())
      options.shared = true;
    else
      throw Error(ErrorKind::user, fmt::format("paced: {} is nothing that can be stated", item),
                  "write paced:alpha=5us,bw=1GB/s, and for groups of ranks group=4, within.alpha=, within.bw=, shared");
  }
  if (options.group_ranks < 0 || (options.group_ranks == 0 && (!options.within_mapped || options.shared)))
    throw Error(ErrorKind::user, "paced: what holds within or between groups needs group=RANKS, more than 0");
  return options;
}

std::string print(const PacedOptions& options) {
  std::string text = "paced:" + print(options.between, "");
  if (options.group_ranks > 0) text += fmt::format(",group={}", options.group_ranks);
  if (!options.within_mapped) text += "," + print(options.within, "within.");
  return options.shared ? text + ",shared" : text;
}

std::unique_ptr<Transport> make_paced(Transport& inner, const PacedOptions& options) {
  return std::make_unique<PacedTransport>(inner, options);
}

}  // namespace weft::transport
