// Which processor generated code was made for. -march=native asks the processor for its model and features, so the
// cache must ask the same: a home directory is shared by machines, and an AVX-512 kernel dies on one without.
#include <sys/utsname.h>

#include "weft/base/error.h"
#include "weft/codegen/compiler.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace weft::codegen {

std::string cpu_identity() {
#if defined(__x86_64__)
  std::string text = "x86_64";
  const struct { unsigned leaf, subleaf; } asked[] = {{0, 0}, {1, 0}, {7, 0}, {7, 1}, {0xd, 1}, {0x80000001, 0}};
  for (const auto& ask : asked) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid_count(ask.leaf, ask.subleaf, &a, &b, &c, &d);
    if (ask.leaf == 1) b = 0;    // which core we happen to run on
    if (ask.leaf == 0xd) b = 0;  // size of the state in use
    text += fmt::format(" {:x}.{:x}.{:x}.{:x}", a, b, c, d);
  }
  return text;
#elif defined(__aarch64__)
  return fmt::format("aarch64 {:x} {:x}", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#else
  utsname machine{};
  uname(&machine);
  return machine.machine;
#endif
}

}  // namespace weft::codegen
