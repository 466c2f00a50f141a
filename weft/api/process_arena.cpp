// The arena of a process, and what fork makes of it (process_arena.h).
#include "weft/api/process_arena.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>

#include "weft/base/env.h"
#include "weft/base/log.h"
#include "weft/base/text.h"

namespace weft::api {
namespace {

// Released memory that keeps its pages, so that memory which comes and goes in every step is not zeroed every time.
int64_t kept_bytes(int64_t bytes) { return bytes / 32; }

struct Known {
  std::mutex mutex;
  std::vector<ProcessArena*> arenas;
};
Known& known() {
  static Known* const all = new Known;  // outlives what is destroyed at exit
  return *all;
}

std::string fresh_identity() {
  std::array<uint64_t, 2> random{};
  if (getrandom(random.data(), sizeof random, 0) != sizeof random)
    throw Error(ErrorKind::io, "getrandom gives nothing for the arena of this process");
  return fmt::format("{:016x}{:016x}", random[0], random[1]);
}

// While this process forks nobody may hold the lock of an arena: the child would have it for ever.
void before_fork() {
  known().mutex.lock();
  for (ProcessArena* arena : known().arenas) arena->blocks().hold();
}
void after_fork() {
  for (ProcessArena* arena : known().arenas) arena->blocks().let_go();
  known().mutex.unlock();
}
void in_child() {
  for (ProcessArena* arena : known().arenas) arena->become_copy();
  after_fork();
}

}  // namespace

ProcessArena::ProcessArena(int64_t bytes)
    : file_(transport::sealed_memfd(transport::rounded_block_bytes(bytes), "the arena of this process")),
      mapping_(file_.get(), transport::rounded_block_bytes(bytes), "the arena of this process"),
      blocks_(mapping_.data(), mapping_.bytes(), kept_bytes(mapping_.bytes())),
      identity_(fresh_identity()) {
  [[maybe_unused]] static const int watching = pthread_atfork(before_fork, after_fork, in_child);
  const std::lock_guard lock(known().mutex);
  known().arenas.push_back(this);
}

ProcessArena::~ProcessArena() {
  const std::lock_guard lock(known().mutex);
  std::erase(known().arenas, this);
}

void* ProcessArena::allocate(int64_t bytes) {
  void* const memory = blocks_.allocate(bytes);
  if (!memory && !copy_ && !said_.exchange(true))
    WEFT_LOG(
        info, "collectives",
        "the arena of this process ({}) has no room for {}: what does not fit lies elsewhere, which peers do not map; "
        "WEFT_ARENA sets its size",
        human_bytes(static_cast<double>(this->bytes())), human_bytes(static_cast<double>(bytes)));
  return memory;
}

std::shared_ptr<transport::Mapping> mapped_arena(const std::string& identity, int64_t bytes,
                                                 const transport::Fd& file) {
  static std::mutex mutex;
  static auto* const mapped = new std::map<std::string, std::weak_ptr<transport::Mapping>>;
  const std::lock_guard lock(mutex);
  std::erase_if(*mapped, [](const auto& entry) { return entry.second.expired(); });
  if (auto known = (*mapped)[identity].lock(); known && known->bytes() == bytes) return known;
  transport::check_sealed(file.get(), bytes, "the arena of a rank");
  auto fresh = std::make_shared<transport::Mapping>(file.get(), bytes, "the arena of a rank");
  (*mapped)[identity] = fresh;
  return fresh;
}

void ProcessArena::become_copy() {
  copy_ = true;
  blocks_.retire();
  const int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
  const auto size = static_cast<size_t>(bytes());
  // Where there is no room for a copy, a write is a fault here rather than a change there.
  if (mmap(base(), size, PROT_READ | PROT_WRITE, flags, file(), 0) == MAP_FAILED) mprotect(base(), size, PROT_READ);
}

int64_t process_arena_bytes() {
  constexpr int64_t most = int64_t{64} << 30;
  if (const auto set = env_count("WEFT_ARENA")) return *set;
  return std::min(most, static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
}

}  // namespace weft::api
