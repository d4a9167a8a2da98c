#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "fovea/export.h"

namespace fovea {

// What kind of failure it was. The command line turns it into an exit code, Python into an exception type.
enum class ErrorCode {
  usage,          // a wrong argument, name or option
  bad_input,      // a file or data set that cannot be read as what it claims to be
  shape,          // tensors whose sizes do not fit together
  unsupported,    // a combination that the support matrix leaves empty
  io,             // the operating system refused a read or a write
  out_of_memory,  // an allocation beyond the limit
  interrupted,    // the user asked to stop
  diverged,       // training left the finite numbers
  internal,       // a broken invariant of ours
};

// The one exception type. The text has up to three lines: what was wrong, where, and what to do about it.
class FOVEA_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string what, std::string where = {}, std::string hint = {});

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }
  const std::string& hint() const { return hint_; }

  // The same error seen from one level further out: "model" + "layers[1]" = "model.layers[1]".
  Error inside(const std::string& outer) const;

 private:
  ErrorCode code_;
  std::string message_, where_, hint_;
};

[[noreturn]] FOVEA_EXPORT void fail(ErrorCode code, std::string what, std::string where = {}, std::string hint = {});

// Checks a condition that a caller can get wrong.
inline void require(bool ok, ErrorCode code, const char* what) {
  if (!ok) fail(code, what);
}

// Process exit code of the command line for a kind of failure (see `fovea --help`).
FOVEA_EXPORT int exit_code(ErrorCode code);

}  // namespace fovea
