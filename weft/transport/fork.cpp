// Forking and threads do not mix: only the forking thread lives on in the child, and whatever the others held stays held.
//
// Ranks that are processes are forked, so their parent must be alone. Ways: exec after fork (the caller's function cannot
// be handed over), a server forked early (the caller's data cannot), or refusing. We refuse, after one attempt to mend
// the common case: OpenMP keeps its threads after a parallel region, and a child that enters one would wait for threads
// that it does not have. The other way round, user code may fork in a rank (data loaders do): the child has copies of
// communicators whose peers know nothing of it, so copies are recognised by a counter that forks count up.
#include "weft/transport/fork.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "weft/base/text.h"

namespace weft::transport {
namespace {

std::atomic<uint32_t> forks{0};

[[maybe_unused]] const int watching = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });

void end_openmp_pools() {
  constexpr int omp_pause_hard = 2;
  using Pause = int (*)(int);
  if (const auto pause = reinterpret_cast<Pause>(dlsym(RTLD_DEFAULT, "omp_pause_resource_all"))) pause(omp_pause_hard);
}

std::vector<std::string> thread_names() {
  std::vector<std::string> names;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    names.push_back(name);
  }
  return names;
}

// Its runtime has a thread of its own, which holds nothing of ours.
constexpr bool has_sanitizer_thread() {
#if defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  return true;
#endif
#endif
  return false;
}

}  // namespace

uint32_t forks_above() { return forks.load(std::memory_order_relaxed); }

void throw_forked(std::string_view what) {
  throw Error(
      ErrorKind::user,
      fmt::format("{} is used in process {}, which is a fork of the process that it belongs to", what, getpid()),
      "launch in the process that made it; a forked helper (a data loader) must keep off, or be a new program "
      "(exec)");
}

int thread_count() { return static_cast<int>(thread_names().size()); }

void require_one_thread() {
  if (has_sanitizer_thread()) return;
  constexpr int patience = 100;  // ms: a thread that was joined may be seen a little longer
  for (int i = 0; i < patience && thread_count() > 1; ++i) {
    if (i == 0) end_openmp_pools();
    usleep(1000);
  }
  const std::vector<std::string> names = thread_names();
  if (names.size() <= 1) return;
  throw Error(ErrorKind::user,
              fmt::format("ranks that are processes are forked, and this process has {} threads ({})", names.size(),
                          join(names, ", ")),
              "start the ranks before anything makes threads, end those first, or use ranks that are threads "
              "(run_threads, --threads)");
}

}  // namespace weft::transport
