// A forked rank has a copy of every flag of its parent, so a plain flag is raised once per rank. These flags lie in
// memory that forks share; they are made when the program begins, before anything can have been forked.
#include "weft/codegen/once.h"

#include <sys/mman.h>

#include <new>

namespace weft::codegen {

OncePerJob::OncePerJob() {
  void* page = mmap(nullptr, sizeof *said_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED) said_ = new (page) std::atomic<uint32_t>{0};
}

OncePerJob& evaluating_said() {
  static auto* once = new OncePerJob;  // never unmapped: logs are written until the end
  return *once;
}

OncePerJob& compiling_said() {
  static auto* once = new OncePerJob;
  return *once;
}

namespace {
[[maybe_unused]] const OncePerJob* const made_early[] = {&evaluating_said(), &compiling_said()};
}  // namespace

}  // namespace weft::codegen
