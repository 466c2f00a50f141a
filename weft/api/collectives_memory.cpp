// Arenas and regions (collectives_memory.h).
#include "weft/api/collectives_memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "weft/api/process_arena.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/transport/descriptors.h"

namespace weft::api {
namespace {

constexpr int64_t page = 4096, huge = 2 << 20;

int64_t alignment_of(int64_t bytes) { return bytes >= huge ? huge : bytes >= page ? page : 64; }
int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// Several ranks' places, seen as one block that everybody allocated; keeps what it points into.
struct PlacesWindow : transport::Window {
  std::vector<std::shared_ptr<transport::Window>> keep;
};

}  // namespace

Arena::Arena(std::byte* base, int64_t bytes, int64_t kept_bytes) : base_(base), bytes_(bytes), kept_bytes_(kept_bytes) {
  free_[0] = bytes;
}

void* Arena::allocate(int64_t bytes) {
  if (bytes < 0 || bytes > bytes_) return nullptr;  // sums below stay far from the end of the numbers
  const int64_t alignment = alignment_of(bytes),
                need = round_up(std::max<int64_t>(bytes, 1), std::min(alignment, page));
  const std::lock_guard lock(mutex_);
  if (retired_) return nullptr;
  for (auto hole = free_.begin(); hole != free_.end();
       ++hole) {  // first fit: low addresses stay in use, high ones whole
    const auto [begin, size] = *hole;
    const int64_t at = round_up(begin, alignment);
    if (at + need > begin + size) continue;
    free_.erase(hole);
    if (at > begin) free_[begin] = at - begin;
    if (at + need < begin + size) free_[at + need] = begin + size - at - need;
    used_[at] = need;
    dirty_bytes_ = std::max<int64_t>(0, dirty_bytes_ - need);
    return base_ + at;
  }
  return nullptr;
}

void Arena::release(void* memory) {
  if (!memory) return;
  const std::lock_guard lock(mutex_);
  if (retired_) return;
  const auto found = used_.find(static_cast<std::byte*>(memory) - base_);
  if (found == used_.end())
    throw Error(ErrorKind::user, fmt::format("{} was not allocated from this arena, or is free already", memory));
  auto [begin, size] = *found;
  used_.erase(found);
  const int64_t released_at = begin, released = size;
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == begin + size) size += next->second, next = free_.erase(next);
  if (next != free_.begin())
    if (const auto before = std::prev(next); before->first + before->second == begin) {
      before->second += size;
      return keep_or_give_back(released_at, released);
    }
  free_[begin] = size;
  keep_or_give_back(released_at, released);
}

// MADV_REMOVE gives the pages of a shared file back; without it they stay, which wastes and breaks nothing.
void Arena::give_back(int64_t begin, int64_t bytes) {
  const int64_t first = round_up(begin, page), last = (begin + bytes) / page * page;
  if (last > first) madvise(base_ + first, static_cast<size_t>(last - first), MADV_REMOVE);
}

void Arena::keep_or_give_back(int64_t begin, int64_t bytes) {
  if (kept_bytes_ == 0) return give_back(begin, bytes);
  dirty_bytes_ += bytes;
  if (dirty_bytes_ <= kept_bytes_) return;
  for (const auto& [at, size] : free_) give_back(at, size);
  dirty_bytes_ = 0;
}

int64_t Arena::used_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [at, bytes] : used_) sum += bytes;
  return sum;
}

Regions::Regions(runtime::Communicator& communicator, std::shared_ptr<Regions> parent, std::vector<int> members)
    : communicator_(communicator), parent_(std::move(parent)), members_(std::move(members)) {
  if (parent_) level_ = parent_->level_ + 1;
  releases_ = parent_ ? parent_->releases_ : std::make_shared<std::atomic<uint64_t>>(0);
  if (level_ >= most_levels)
    throw Error(ErrorKind::unsupported, fmt::format("groups of groups, {} deep", level_), "split a larger group");
}

// The lowest that no region has: allocations and releases are collective, so it is the same on all ranks.
uint32_t Regions::free_id() const {
  for (uint32_t number = 1; number <= most_numbers; ++number) {
    const uint32_t id = level_ << number_bits | number;
    if (std::none_of(regions_.begin(), regions_.end(), [&](const Region& region) { return region.id == id; }))
      return id;
  }
  throw Error(ErrorKind::unsupported,
              fmt::format("more than {} symmetric allocations of one communicator at a time", most_numbers),
              "allocate larger blocks and cut them, or use the arena");
}

void Regions::add(std::shared_ptr<transport::Window> window, int64_t bytes) {
  const std::byte* base = window->at[static_cast<size_t>(communicator_.rank())];
  const bool mapped = std::count(window->at.begin(), window->at.end(), nullptr) == 0;
  regions_.push_back({free_id(), base, bytes, std::move(window), mapped});
}

void* Regions::allocate(int64_t bytes) {
  const runtime::Symmetric block = communicator_.allocate(bytes, "symmetric memory");
  add(block.window, std::max<int64_t>(bytes, 1));
  return block.data;
}

bool Regions::is_at(const void* base) const {
  const bool of_arena = (arena_ && arena_->holds(base)) || (shared_ && shared_->blocks().holds(base));
  return !of_arena &&
         std::any_of(regions_.begin(), regions_.end(), [&](const Region& region) { return region.base == base; });
}

void Regions::release(void* base) {
  if (!is_at(base))
    throw Error(ErrorKind::user, fmt::format("{} is not symmetric memory of this communicator", base),
                "release what allocate() gave, once");
  regions_.erase(
      std::find_if(regions_.begin(), regions_.end(), [&](const Region& region) { return region.base == base; }));
  ++*releases_;
}

void Regions::reserve_arena(int64_t bytes) {
  const runtime::Symmetric block = communicator_.allocate(bytes, "an arena");
  add(block.window, bytes);
  arena_ = std::make_unique<Arena>(static_cast<std::byte*>(block.data), bytes);
}

namespace {

struct ArenasWindow : transport::Window {
  std::vector<std::shared_ptr<transport::Mapping>> mappings;
};

// Of all ranks, mapped here. told: their sizes and identities.
std::shared_ptr<transport::Window> map_arenas(ProcessArena& own, int rank, const std::vector<std::string>& told,
                                              const std::vector<transport::Fd>& files) {
  auto window = std::make_shared<ArenasWindow>();
  window->bytes = own.bytes();
  for (size_t of = 0; of < told.size(); ++of) {
    if (static_cast<int>(of) == rank) {
      window->at.push_back(own.base());
      continue;
    }
    const size_t space = told[of].find(' ');
    window->mappings.push_back(
        mapped_arena(told[of].substr(space + 1), std::stoll(told[of].substr(0, space)), files[of]));
    window->at.push_back(window->mappings.back()->data());
  }
  return window;
}

}  // namespace

void Regions::share_arena(std::shared_ptr<ProcessArena> arena) {
  transport::Transport& transport = communicator_.transport();
  const bool have = arena && !arena->is_copy();
  const auto told =
      transport.exchange(have ? fmt::format("{} {}", arena->bytes(), arena->identity()) : "none", "arenas");
  shared_ = std::move(arena);
  std::shared_ptr<transport::Window> window;
  std::string why;
  if (std::count(told.begin(), told.end(), "none") > 0) {
    why = "a rank has none";
  } else {
    try {
      const auto files = transport::exchange_descriptors(transport, shared_->file(), "arenas");
      window = map_arenas(*shared_, communicator_.rank(), told, files);
    } catch (const Error& error) { why = error.message(); }
  }
  for (const std::string& text : transport.exchange(why, "arenas"))
    if (!text.empty()) {
      WEFT_LOG(info, "collectives", "memory of the processes' arenas is not mapped: {}", text);
      return;
    }
  add(std::move(window), shared_->bytes());
}

Arena* Regions::arena() {
  if (shared_) return &shared_->blocks();
  return arena_ || !parent_ ? arena_.get() : parent_->arena();
}

Place Regions::find(const void* memory, int64_t bytes) const {
  const auto* at = static_cast<const std::byte*>(memory);
  for (const Region& region : regions_)
    if (region.mapped && bytes >= 0 && at >= region.base && at <= region.base + region.bytes &&
        bytes <= region.base + region.bytes - at)
      return {region.id, at - region.base};
  return parent_ ? parent_->find(memory, bytes) : Place();
}

std::byte* Regions::block(uint32_t id, int rank, std::shared_ptr<transport::Window>& keep) const {
  if (id >> number_bits != level_) return parent_->block(id, members_[static_cast<size_t>(rank)], keep);
  for (const Region& region : regions_)
    if (region.id == id) return keep = region.window, region.window->at[static_cast<size_t>(rank)];
  return nullptr;
}

std::byte* Regions::address(const Place& place, int rank) const {
  std::shared_ptr<transport::Window> keep;
  std::byte* const base = place.region ? block(place.region, rank, keep) : nullptr;
  return base ? base + place.offset : nullptr;
}

std::shared_ptr<transport::Window> Regions::window(const std::vector<Place>& places, int64_t bytes) const {
  auto window = std::make_shared<PlacesWindow>();
  window->bytes = bytes;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    std::shared_ptr<transport::Window> keep;
    std::byte* const base = block(places[rank].region, static_cast<int>(rank), keep);
    WEFT_CHECK(base, "rank {} names region {}, which is not here", rank, places[rank].region);
    if (std::find(window->keep.begin(), window->keep.end(), keep) == window->keep.end()) window->keep.push_back(keep);
    window->at.push_back(base + places[rank].offset);
  }
  return window;
}

}  // namespace weft::api
