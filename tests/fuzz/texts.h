// What must hold of any text at all, one function a form: what is wrong is refused with an error of the right kind, what is
// accepted prints and reads back, and what is found right then is right. The coverage-guided fuzzers call these (target.cpp),
// and the normal suite does with a corpus and with random edits of it (texts_test.cpp), so that no clang is needed there.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "weft/plan/plan.h"

namespace weft::fuzz {

// What must hold does not.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A form of text. `planted`: with a fault in the form's own tools, for the test that fuzzing finds it.
using Try = void (*)(std::string_view text, bool planted);
struct TextForm {
  const char* name;
  Try attempt;
  const char* planted;  // what is wrong then
};
const std::vector<TextForm>& text_forms();  // program, schedule, plan, msccl, goal

// Longer texts are passed over: what is found in them is in shorter ones.
constexpr size_t most_bytes = 4096;

}  // namespace weft::fuzz
