// A forked rank has a copy of every flag of its parent, so a plain flag is raised once per rank. These flags lie in
// memory that forks share; they are made when the program begins, before anything can have been forked.
#include "weft/base/once.h"

#include <sys/mman.h>

#include <new>

namespace weft {

OncePerJob::OncePerJob() {
  void* page = mmap(nullptr, sizeof *said_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED) said_ = new (page) std::atomic<uint32_t>{0};
}

namespace {

struct All {
  OncePerJob evaluating, compiling, timeline, timeline_cut;
};
All& all() {
  static auto* flags = new All;  // never unmapped: logs are written until the end
  return *flags;
}
[[maybe_unused]] const All* const made_early = &all();

}  // namespace

OncePerJob& evaluating_said() { return all().evaluating; }
OncePerJob& compiling_said() { return all().compiling; }
OncePerJob& timeline_begun() { return all().timeline; }
OncePerJob& timeline_cut_said() { return all().timeline_cut; }

}  // namespace weft
