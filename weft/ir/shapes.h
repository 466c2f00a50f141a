// Shape lists: the parameter tensors of a model, for `tensors P`.
//
// One tensor a line, "NAME SIZE SIZE ..." or "NAME [SIZE, SIZE]"; '#' begins a comment. No size: one element.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "weft/base/text.h"

namespace weft::ir {

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};

// Kind user with line and caret for what cannot be read; kind io where the file cannot.
std::vector<NamedShape> read_shapes(const std::filesystem::path& path);
std::vector<NamedShape> parse_shapes(std::string_view text);
std::vector<std::vector<int64_t>> shapes_only(const std::vector<NamedShape>& list);  // for Sizes::tensors
int64_t elements(const std::vector<NamedShape>& list);

}  // namespace weft::ir
