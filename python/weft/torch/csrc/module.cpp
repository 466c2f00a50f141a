// What Python sees of the backend: how one is made.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.h"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.doc() = "torch.distributed's backend \"weft\"";
  module.def(
      "create",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
         std::chrono::milliseconds timeout) -> c10::intrusive_ptr<c10d::Backend> {
        return c10::make_intrusive<weft_torch::Backend>(store, rank, size, timeout);
      },
      py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::call_guard<py::gil_scoped_release>());
  module.def("take_allocator", &weft_torch::take_allocator);
  module.def("in_arena", &weft_torch::in_arena);
  module.def("library_version", [] { return std::string(weft_version()); });
}
