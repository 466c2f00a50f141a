// What tests ask of errors.
#pragma once

#include <string>
#include <string_view>

#include "weft/base/error.h"

namespace weft {

// What `f` throws; where nothing is thrown, an internal error that says so.
template <typename F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) { return error; }
  return Error(ErrorKind::internal, "nothing was thrown");
}

// On a rank, where an EXPECT would be lost with the process: what is not so ends the rank, and the job with its words.
inline void need(bool condition, const std::string& what) {
  if (!condition) throw Error(ErrorKind::internal, what);
}

inline bool has(std::string_view text, std::string_view piece) { return text.find(piece) != std::string_view::npos; }

}  // namespace weft
