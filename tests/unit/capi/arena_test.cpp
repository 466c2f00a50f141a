// Arenas of processes: mapped in every communicator, alive beyond them, private in forked children.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "weft/capi/weft.h"

namespace {

// Ranks in processes of their own, with nothing in common but a path.
void in_processes(int ranks, const std::string& name, bool (*body)(const std::string& file, int rank, int ranks)) {
  const std::string file = "/tmp/weft-arena-" + name + std::to_string(getpid());
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(fork());
    if (children.back() == 0) _exit(body(file, rank, ranks) ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

weft_comm* join(const std::string& file, int rank, int ranks, weft_arena* arena) {
  weft_comm_options options = {};
  options.struct_bytes = sizeof options;
  options.timeout_s = 60;
  options.arena = arena;
  weft_comm* comm = nullptr;
  if (weft_comm_create_with(file.c_str(), rank, ranks, &options, &comm) != WEFT_OK)
    std::fprintf(stderr, "rank %d: %s\n", rank, weft_last_error());
  return comm;
}

#define NEED(condition)                                                                                  \
  do {                                                                                                   \
    if (!(condition)) {                                                                                  \
      std::fprintf(stderr, "rank %d, line %d: %s: %s\n", rank, __LINE__, #condition, weft_last_error()); \
      return false;                                                                                      \
    }                                                                                                    \
  } while (0)

bool sums(weft_comm* comm, int64_t* x, int64_t count, int rank, int ranks) {
  for (int64_t i = 0; i < count; ++i) x[i] = i * (rank + 1);
  NEED(weft_all_reduce_flat(comm, x, x, count, WEFT_I64, WEFT_SUM) == WEFT_OK);
  for (int64_t i = 0; i < count; ++i) NEED(x[i] == i * ranks * (ranks + 1) / 2);
  return true;
}

// Memory from before, in two communicators one after the other and in a group of the second; it outlives both.
bool two_lives(const std::string& file, int rank, int ranks) {
  weft_arena* arena = nullptr;
  NEED(weft_arena_create((64 + rank) << 20, &arena) == WEFT_OK);  // sizes need not be equal
  constexpr int64_t count = 100'000;
  for (int i = 0; i <= rank; ++i) NEED(weft_arena_alloc(arena, 5000 + 1000 * static_cast<size_t>(i)));
  auto* x = static_cast<int64_t*>(weft_arena_alloc(arena, count * 8));
  NEED(x && weft_arena_holds(arena, x) && reinterpret_cast<uintptr_t>(x) % 64 == 0);
  for (const char* life : {".1", ".2"}) {
    weft_comm* comm = join(file + life, rank, ranks, arena);
    NEED(comm && weft_is_mapped(comm, x, count * 8) && !weft_is_mapped(comm, &comm, 8));
    NEED(sums(comm, x, count, rank, ranks));
    weft_comm* group = nullptr;
    NEED(weft_comm_split(comm, rank == ranks - 1 ? 1 : 0, rank, &group) == WEFT_OK);
    NEED(weft_is_mapped(group, x, count * 8));
    NEED(sums(group, x, count, weft_comm_rank(group), weft_comm_size(group)));
    NEED(weft_barrier(comm) == WEFT_OK && weft_comm_destroy(group) == WEFT_OK && weft_comm_destroy(comm) == WEFT_OK);
  }
  x[count - 1] = 5;
  NEED(weft_arena_free(arena, x) == WEFT_OK);
  NEED(weft_arena_free(arena, x) == WEFT_ERROR_USER);
  NEED(weft_arena_destroy(arena) == WEFT_ERROR_USER);  // the small ones are in use
  return true;
}
TEST(ProcessArena, IsMappedInEveryCommunicator) {
  for (const int ranks : {1, 2, 3, 5}) in_processes(ranks, "lives", two_lives);
}

bool one_has_none(const std::string& file, int rank, int ranks) {
  weft_arena* arena = nullptr;
  if (rank != 1) NEED(weft_arena_create(8 << 20, &arena) == WEFT_OK);
  std::vector<int64_t> own(5000);
  auto* x = arena ? static_cast<int64_t*>(weft_arena_alloc(arena, 40'000)) : own.data();
  weft_comm* comm = join(file, rank, ranks, arena);
  NEED(comm && !weft_is_mapped(comm, x, 40'000) && sums(comm, x, 5000, rank, ranks));
  NEED(weft_barrier(comm) == WEFT_OK && weft_comm_destroy(comm) == WEFT_OK);
  return true;
}
TEST(ProcessArena, WhereARankHasNoneNobodysIsMapped) { in_processes(3, "none", one_has_none); }

TEST(ProcessArena, AForkedChildHasACopy) {
  weft_arena* arena = nullptr;
  ASSERT_EQ(weft_arena_create(16 << 20, &arena), WEFT_OK) << weft_last_error();
  auto* x = static_cast<int*>(weft_arena_alloc(arena, 1 << 20));
  x[0] = 1, x[100'000] = 2;
  const pid_t child = fork();
  if (child == 0) {
    const bool good = x[0] == 1 && x[100'000] == 2 && !weft_arena_alloc(arena, 64);
    x[0] = 77, x[100'000] = 78;
    const bool freed = weft_arena_free(arena, x) == WEFT_OK;
    _exit(good && freed && x[0] == 77 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(x[0], 1) << "a child wrote into its parent's memory";
  EXPECT_EQ(x[100'000], 2);
  EXPECT_EQ(weft_arena_free(arena, x), WEFT_OK);
  EXPECT_EQ(weft_arena_destroy(arena), WEFT_OK) << weft_last_error();
}

TEST(ProcessArena, ThreadsAllocateWhileTheProcessForks) {
  weft_arena* arena = nullptr;
  ASSERT_EQ(weft_arena_create(64 << 20, &arena), WEFT_OK);
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        const size_t bytes = 64u << (i % 14);
        auto* x = static_cast<char*>(weft_arena_alloc(arena, bytes));
        if (!x) continue;
        std::memset(x, t, bytes);
        for (size_t k = 0; k < bytes; k += 61)
          if (x[k] != t) std::abort();  // two blocks at one place
        weft_arena_free(arena, x);
      }
    });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(weft_arena_alloc(arena, 64) ? 1 : 0);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(weft_arena_destroy(arena), WEFT_OK) << weft_last_error();
}

TEST(ProcessArena, IsFullAtItsEndAndReusesWhatIsReleased) {
  weft_arena* arena = nullptr;
  ASSERT_EQ(weft_arena_create(4 << 20, &arena), WEFT_OK);
  for (int round = 0; round < 50; ++round) {
    std::vector<void*> blocks;
    while (void* block = weft_arena_alloc(arena, 300'000)) blocks.push_back(block);
    EXPECT_EQ(blocks.size(), (4u << 20) / 303'104);
    void* const empty = weft_arena_alloc(arena, 0);
    EXPECT_NE(empty, nullptr);
    blocks.push_back(empty);
    for (size_t i = 0; i < blocks.size(); i += 2) EXPECT_EQ(weft_arena_free(arena, blocks[i]), WEFT_OK);
    for (size_t i = 1; i < blocks.size(); i += 2) EXPECT_EQ(weft_arena_free(arena, blocks[i]), WEFT_OK);
  }
  int outside = 0;
  EXPECT_EQ(weft_arena_free(arena, &outside), WEFT_ERROR_USER);
  EXPECT_EQ(weft_arena_destroy(arena), WEFT_OK) << weft_last_error();
  EXPECT_EQ(weft_arena_create(-5, &arena), WEFT_ERROR_USER);
}

}  // namespace
