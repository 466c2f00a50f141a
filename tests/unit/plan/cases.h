// The plans under tests/cases/plan, for all tests of this room.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/source_dir.h"
#include "weft/base/file.h"
#include "weft/plan/plan.h"

namespace weft::plan::cases {

inline std::filesystem::path folder() { return std::filesystem::path(checkout_dir()) / "tests/cases/plan"; }
inline std::string text(const std::string& name) { return read_file(folder() / (name + ".plan")); }
inline Plan load(const std::string& name) { return parse(text(name)); }

inline std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    if (entry.path().extension() == ".plan") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace weft::plan::cases
