// The yardstick for "plain": all_reduce and Adam written by hand on memory that both ranks map, without any framework.
// Each rank adds its half of all gradients into everybody's sum (two-shot), waits, and updates all parameters.
//
//   hand_written FOLDER ELEMENTS RANKS     command: adam STEP -> ns of the slowest rank
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "adam_loop.h"
#include "commands.h"

namespace {

struct Shared {
  std::atomic<uint64_t> arrived[64 * 8];
  int64_t took[64];
};

void meet(Shared* shared, int rank, int ranks, uint64_t& meetings) {
  shared->arrived[rank * 8].store(++meetings, std::memory_order_release);
  for (int other = 0; other < ranks; other++)
    for (uint32_t spins = 0; shared->arrived[other * 8].load(std::memory_order_acquire) < meetings; spins++)
      if (spins % 1024 == 1023) sched_yield();
}

float* map(int64_t bytes) {
  void* at = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::exit(2);
  return static_cast<float*>(at);
}

void sum_into(const std::vector<float*>& g, const std::vector<float*>& sums, int64_t begin, int64_t end) {
  constexpr int64_t block = 8192;
  for (int64_t b = begin; b < end; b += block) {
    const int64_t e = std::min(end, b + block);
    float* __restrict own = sums[0];
    for (int64_t i = b; i < e; i++) own[i] = g[0][i] + g[1][i];
    for (size_t r = 2; r < g.size(); r++)
      for (int64_t i = b; i < e; i++) own[i] += g[r][i];
    for (size_t r = 1; r < sums.size(); r++)
      for (int64_t i = b; i < e; i++) sums[r][i] = own[i];
  }
}

void run(int rank, int ranks, int64_t count, const std::string& folder, Shared* shared, const std::vector<float*>& g,
         const std::vector<float*>& sums) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(rank % static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), &set);
  sched_setaffinity(0, sizeof set, &set);
  std::vector<float> m(count, 0.1f), v(count, 0.1f), w(count, 0.5f);
  Commands commands(folder, rank);
  std::string name;
  int64_t step = 0;
  uint64_t meetings = 0;
  while (commands.next(name, step)) {
    rewrite(g[rank], count, static_cast<uint32_t>(step * 7 + rank));
    meet(shared, rank, ranks, meetings);
    const int64_t begin = clock_ns();
    sum_into(g, sums, rank * count / ranks, (rank + 1) * count / ranks);
    meet(shared, rank, ranks, meetings);
    adam_update(adam_step(1e-3, step, 1.0 / ranks), count, sums[rank], m.data(), v.data(), w.data());
    shared->took[rank] = clock_ns() - begin;
    meet(shared, rank, ranks, meetings);
    int64_t slowest = 0;
    for (int r = 0; r < ranks; r++) slowest = std::max(slowest, shared->took[r]);
    commands.answer(static_cast<double>(slowest));
  }
}

}  // namespace

int main(int, char** argv) {
  const int64_t count = std::atoll(argv[2]);
  const int ranks = std::atoi(argv[3]);
  Shared* shared = reinterpret_cast<Shared*>(map(sizeof(Shared)));
  std::vector<float*> g, sums;
  for (int r = 0; r < ranks; r++) g.push_back(map(count * 4)), sums.push_back(map(count * 4));
  for (int r = 1; r < ranks; r++)
    if (fork() == 0) {
      run(r, ranks, count, argv[1], shared, g, sums);
      _exit(0);
    }
  run(0, ranks, count, argv[1], shared, g, sums);
  while (wait(nullptr) > 0) {}
}
