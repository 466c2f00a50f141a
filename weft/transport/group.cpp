// Groups, their pools and their mail (group.h).
#include "weft/transport/group.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/transport/mail.h"
#include "weft/transport/mapping.h"

namespace weft::transport {
namespace {

constexpr int64_t huge_page = 2 << 20;

// What a group's windows are cut from: mapped memory and, where the parent mirrors, mirrored memory.
struct Pool {
  struct Kind {
    std::shared_ptr<Window> window;
    std::map<int64_t, int64_t> used;  // offset -> bytes, of windows that are held here
    int64_t touched = 0;              // below it memory may be other than zero
  };
  Kind mapped, mirrored;
  std::mutex mutex;  // windows end on any thread
};

struct CutWindow : Window {
  ~CutWindow() override {
    const std::lock_guard lock(pool->mutex);
    kind->used.erase(offset);
  }
  std::shared_ptr<Pool> pool;
  Pool::Kind* kind = nullptr;
  int64_t offset = 0;
};

void clear(std::byte* at, int64_t bytes) {
  // Gives the pages of a shared file back, and with them their content.
  if (bytes > 0 && madvise(at, static_cast<size_t>(bytes), MADV_REMOVE) != 0)
    std::memset(at, 0, static_cast<size_t>(bytes));
}

class GroupTransport final : public MailTransport {
 public:
  GroupTransport(Transport& parent, std::shared_ptr<Pool> pool, std::vector<int> members)
      : parent_(parent), pool_(std::move(pool)), members_(std::move(members)) {
    const auto me = std::find(members_.begin(), members_.end(), parent.rank());
    rank_ = static_cast<int>(me - members_.begin());
    for (int peer = 0; peer < size(); ++peer) mirrors_ |= !mappable(peer);
    Pool::Kind& kind = mail_kind();
    kind.used[0] = mail_bytes;
    kind.touched = std::max(kind.touched, mail_bytes);
  }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  bool mappable(int peer) const override { return parent_.mappable(above(peer)); }
  std::string_view name() const override { return parent_.name(); }
  bool mirrors() const override { return mirrors_; }

  std::shared_ptr<Window> allocate(int64_t bytes, std::string_view what) override {
    return cut(pool_->mapped, bytes, what);
  }
  std::shared_ptr<Window> allocate_mirrored(int64_t bytes, std::string_view what) override {
    return cut(mirrors_ ? pool_->mirrored : pool_->mapped, bytes, what);
  }
  void put(Window& window, const Put& put) override {
    const auto& cut = static_cast<CutWindow&>(window);
    put_above(*cut.kind->window, put, cut.offset);
  }
  bool progress() override { return parent_.progress(); }
  bool flush(bool late_too) override { return parent_.flush(late_too); }

  const std::atomic<uint64_t>& abort_word() const override { return parent_.abort_word(); }
  Failure failure() const override { return parent_.failure(); }
  void note(std::string_view doing) override { parent_.note(doing); }
  void raise(const Failure& failure) override {
    std::vector<std::string> names;
    for (const int member : members_) names.push_back(std::to_string(member));
    Failure above = failure;
    if (failure.rank >= 0 && failure.rank < size()) above.rank = this->above(failure.rank);
    above.message =
        fmt::format("in the group of ranks {}, numbered from 0 there: {}", join(names, ", "), failure.message);
    parent_.raise(above);
  }
  std::atomic<uint32_t>& parked(int rank) override { return parent_.parked(above(rank)); }
  void park(int64_t at_most_ns) override { parent_.park(at_most_ns); }
  void wake(int rank) override { parent_.wake(above(rank)); }
  int64_t timeout_ns() const override { return parent_.timeout_ns(); }
  bool oversubscribed() const override { return parent_.oversubscribed(); }
  void check_peers() override { parent_.check_peers(); }

  int64_t pool_bytes() const { return pool_->mapped.window->bytes; }

 protected:
  Mail& mail(int rank, uint64_t half) override {
    return reinterpret_cast<Mail*>(mail_kind().window->at[static_cast<size_t>(above(rank))])[half];
  }
  void published(const Mail& mail) override {
    Put put;
    put.owner = rank_;
    put.head = reinterpret_cast<const std::byte*>(&mail) - reinterpret_cast<const std::byte*>(&this->mail(rank_, 0));
    put.head_bytes = sizeof mail.sequence;
    put.body = put.head + put.head_bytes;
    put.body_bytes = static_cast<int64_t>(offsetof(Mail, data) - sizeof mail.sequence) + (mail.here_bytes + 7) / 8 * 8;
    for (put.to = 0; put.to < size(); ++put.to)
      if (!mappable(put.to)) put_above(*mail_kind().window, put, 0);
  }

 private:
  static constexpr int64_t mail_bytes = (2 * sizeof(Mail) + 4095) / 4096 * 4096;

  int above(int rank) const { return members_[static_cast<size_t>(rank)]; }
  Pool::Kind& mail_kind() { return mirrors_ ? pool_->mirrored : pool_->mapped; }
  void put_above(Window& window, Put put, int64_t offset) {
    put.owner = above(put.owner), put.to = above(put.to);
    put.head += offset, put.body += offset;
    parent_.put(window, put);
  }

  // Windows end when their last holder goes, on each rank at its time. So all tell what they hold, and the first place
  // that is free on all of them is taken.
  std::shared_ptr<Window> cut(Pool::Kind& kind, int64_t bytes, std::string_view what) {
    agree_on_bytes(bytes, what);
    const int64_t block = rounded_block_bytes(bytes);
    const int64_t offset = place(kind, block, what);
    auto window = std::make_shared<CutWindow>();
    window->pool = pool_, window->kind = &kind, window->offset = offset, window->bytes = bytes;
    for (const int member : members_) {
      std::byte* const base = kind.window->at[static_cast<size_t>(member)];
      window->at.push_back(base ? base + offset : nullptr);
    }
    {
      const std::lock_guard lock(pool_->mutex);
      kind.used[offset] = block;
    }
    // What is here of it: my own block, and copies of those that I do not map.
    for (int peer = 0; peer < size(); ++peer)
      if (std::byte* const at = window->at[static_cast<size_t>(peer)]; at && (peer == rank_ || !mappable(peer)))
        clear(at, std::min(block, kind.touched - offset));
    kind.touched = std::max(kind.touched, offset + block);
    agree_on_success("", what);
    return window;
  }

  int64_t place(Pool::Kind& kind, int64_t block, std::string_view what) {
    std::string mine;
    {
      const std::lock_guard lock(pool_->mutex);
      for (const auto& [offset, bytes] : kind.used) mine += fmt::format("{}+{} ", offset, bytes);
    }
    std::vector<std::pair<int64_t, int64_t>> used;
    for (const std::string& list : exchange(mine, fmt::format("what a group holds, for {}", what)))
      for (const std::string& item : split_words(list)) {
        long long offset = 0, bytes = 0;
        if (std::sscanf(item.c_str(), "%lld+%lld", &offset, &bytes) == 2) used.emplace_back(offset, bytes);
      }
    std::sort(used.begin(), used.end());
    const int64_t alignment = block >= huge_page ? huge_page : 4096;
    int64_t at = 0;
    for (const auto& [offset, bytes] : used) {
      if (at + block <= offset) break;
      at = std::max(at, (offset + bytes + alignment - 1) / alignment * alignment);
    }
    if (at + block <= kind.window->bytes) return at;
    throw Error(
        ErrorKind::io,
        fmt::format("no room for {} in a group: {} needed of the {} that each of its ranks has", what,
                    human_bytes(static_cast<double>(block)), human_bytes(static_cast<double>(kind.window->bytes))),
        "large buffers may come from the communicator that was split (allocate, arena): its groups see them too");
  }
  static std::vector<std::string> split_words(const std::string& text) { return weft::split(text, ' '); }

  Transport& parent_;
  std::shared_ptr<Pool> pool_;
  std::vector<int> members_;
  int rank_ = 0;
  bool mirrors_ = false;
};

// Of each kind, per rank. Sparse, so a share of what is free rather than a guess of what is needed.
int64_t pool_bytes(Transport& parent, int64_t free_bytes) {
  constexpr int64_t least = 8 << 20, most = int64_t{4} << 30, most_mirrored = 256 << 20, shares = 8;
  const int64_t ranks = parent.size();
  int64_t bytes = std::min(most, free_bytes / (shares * ranks));
  if (const auto* group = dynamic_cast<const GroupTransport*>(&parent)) bytes = group->pool_bytes() / shares;
  if (parent.mirrors()) bytes = std::min(most_mirrored, bytes / ranks);  // each rank has a copy of all
  return std::max(least, bytes / huge_page * huge_page);
}

}  // namespace

Group split(Transport& parent, int color, int key) {
  const std::vector<std::string> all =
      parent.exchange(fmt::format("{} {} {}", color, key, free_memory_bytes()), "split into groups");
  std::vector<std::pair<long long, int>> keyed;
  long long free_bytes = 0;
  for (int rank = parent.size(); rank-- > 0;) {
    long long c = 0, k = 0;
    std::sscanf(all[static_cast<size_t>(rank)].c_str(), "%lld %lld %lld", &c, &k, &free_bytes);  // rank 0's stays
    if (c == color) keyed.emplace_back(k, rank);
  }
  std::sort(keyed.begin(), keyed.end());
  auto pool = std::make_shared<Pool>();
  const int64_t bytes = pool_bytes(parent, free_bytes);
  pool->mapped.window = parent.allocate(bytes, "memory of groups");
  if (parent.mirrors()) pool->mirrored.window = parent.allocate_mirrored(bytes, "mirrored memory of groups");
  Group group;
  if (color < 0) return group;
  for (const auto& [k, rank] : keyed) group.members.push_back(rank);
  group.transport = std::make_unique<GroupTransport>(parent, std::move(pool), group.members);
  return group;
}

}  // namespace weft::transport
