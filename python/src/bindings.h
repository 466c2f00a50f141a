// The extension module weft._weft: Python binds the C++ library. What is written here is thin; the package's own Python
// (python/weft/*.py) says what a user sees.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "weft/ir/evaluate.h"
#include "weft/ir/program.h"

namespace weft::python {

namespace nb = nanobind;

void bind_programs(nb::module_& module);
void bind_ranks(nb::module_& module);

using Shapes = std::map<std::string, std::vector<std::vector<int64_t>>>;
ir::Sizes sizes_of(int ranks, const std::map<std::string, int64_t>& dims, const Shapes& tensors);

}  // namespace weft::python
