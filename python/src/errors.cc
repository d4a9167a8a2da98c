#include <nanobind/nanobind.h>

#include <string>

#include "bindings.h"
#include "fovea/error.h"
#include "io/missing.h"
#include "io/unknown_field.h"

namespace fovea::python {
namespace {

const char* kind_of(const Error& error) {
  if (dynamic_cast<const NoSuchFile*>(&error) != nullptr) return "missing";
  if (dynamic_cast<const UnknownField*>(&error) != nullptr) return "argument";
  switch (error.code()) {
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::io: return "io";
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::interrupted: return "interrupted";
    case ErrorCode::diverged: return "diverged";
    case ErrorCode::internal: return "internal";
    default: return "value";
  }
}

// _errors.py chooses the exception, and says it in Python's words.
void raise(const Error& error) {
  try {
    const auto text = [](const std::string& s) {
      return nb::steal<nb::str>(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
    };
    const nb::object made =
        nb::module_::import_("fovea._errors")
            .attr("make")(kind_of(error), text(error.message()), text(error.where()), text(error.hint()));
    PyErr_SetObject(made.type().ptr(), made.ptr());
  } catch (nb::python_error& failure) {  // the interpreter is going, or has no memory
    failure.restore();
  }
}

void translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted && PyErr_Occurred() != nullptr) return;  // what the signal raised
    raise(error);
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace fovea::python
