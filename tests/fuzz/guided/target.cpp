// A coverage-guided fuzzer of one form of text: WEFT_FUZZ_FORM says which, WEFT_FUZZ_PLANTED that a fault is planted, which
// it must find (preset `fuzz`; docs/proof.md). libFuzzer calls this with what it thinks of, and keeps what reaches new code.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/texts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const weft::fuzz::Try attempt = [] {
    for (const weft::fuzz::TextForm& form : weft::fuzz::text_forms())
      if (std::strcmp(form.name, WEFT_FUZZ_FORM) == 0) return form.attempt;
    std::abort();
  }();
  try {
    attempt({reinterpret_cast<const char*>(data), size}, WEFT_FUZZ_PLANTED);
  } catch (const weft::fuzz::Fault& fault) {
    std::fprintf(stderr, "fault found: %s\n", fault.what());
    std::abort();
  }
  return 0;
}
