// "1 rank", "2 ranks".
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace weft {

// A number and what is counted; `many` where an s does not do ("pass", "passes").
inline std::string counted(int64_t number, std::string_view one, std::string_view many = "") {
  if (number == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", number, one) : fmt::format("{} {}", number, many);
}

}  // namespace weft
