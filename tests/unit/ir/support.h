// Helpers of the ir tests: a header of tensors in every layout, and errors by rule.
#pragma once

#include <gtest/gtest.h>

#include "weft/ir/program.h"

namespace weft::ir {

// What the text is refused with, or "accepted".
inline std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::user || error.kind() == ErrorKind::unsupported ? error.rule() : "kind " + std::string(name(error.kind()));
  }
  return "accepted";
}

inline std::string message_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace weft::ir
