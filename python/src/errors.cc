#include <nanobind/nanobind.h>

#include "bindings.h"
#include "fovea/error.h"

namespace fovea::python {
namespace {

PyObject* exception_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::unsupported: return PyExc_NotImplementedError;
    case ErrorCode::io: return PyExc_OSError;
    case ErrorCode::out_of_memory: return PyExc_MemoryError;
    case ErrorCode::interrupted: return PyExc_KeyboardInterrupt;
    case ErrorCode::diverged: return PyExc_ArithmeticError;
    case ErrorCode::internal: return PyExc_RuntimeError;
    default: return PyExc_ValueError;
  }
}

void translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted && PyErr_Occurred() != nullptr) return;  // what the signal raised
    PyErr_SetString(exception_of(error.code()), error.what());
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace fovea::python
