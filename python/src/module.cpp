// The module itself, and how errors cross: weft.Error with kind, message, remedy and rule.
#include "python/src/bindings.h"
#include "weft/base/error.h"

namespace weft::python {
namespace {

// Set by the package (weft/__init__.py): a Python class is what a user can subclass, pickle and document.
PyObject* error_class = nullptr;

void raise_python(const Error& error) {
  if (!error_class) return PyErr_SetString(PyExc_RuntimeError, error.what());
  nb::object made =
      nb::steal(PyObject_CallFunction(error_class, "sssss", error.what(), std::string(name(error.kind())).c_str(),
                                      error.message().c_str(), error.remedy().c_str(), error.rule().c_str()));
  if (made.is_valid()) PyErr_SetObject(error_class, made.ptr());
}

}  // namespace
}  // namespace weft::python

namespace nb = nanobind;

NB_MODULE(_weft, module) {
  module.doc() = "Weft's C++ library; use the package `weft`.";
  nb::set_leak_warnings(false);  // optimizers and ranks live until the process ends
  module.def(
      "set_error_class", [](nb::object type) { weft::python::error_class = type.release().ptr(); }, nb::arg("type"));
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const weft::Error& error) { weft::python::raise_python(error); }
  });
  weft::python::bind_programs(module);
  weft::python::bind_ranks(module);
}
