#include "fovea/error.h"

namespace fovea {
namespace {

std::string three_lines(const std::string& what, const std::string& where, const std::string& hint) {
  std::string text = what;
  if (!where.empty()) text += "\n  at      " + where;
  if (!hint.empty()) text += "\n  try     " + hint;
  return text;
}

}  // namespace

Error::Error(ErrorCode code, std::string what, std::string where, std::string hint)
    : std::runtime_error(three_lines(what, where, hint)),
      code_(code),
      message_(std::move(what)),
      where_(std::move(where)),
      hint_(std::move(hint)) {}

Error Error::inside(const std::string& outer) const {
  if (where_.empty()) return Error(code_, message_, outer, hint_);
  const bool indexed = where_.front() == '[';
  return Error(code_, message_, outer + (indexed ? "" : ".") + where_, hint_);
}

void fail(ErrorCode code, std::string what, std::string where, std::string hint) {
  throw Error(code, std::move(what), std::move(where), std::move(hint));
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
    case ErrorCode::shape:
    case ErrorCode::unsupported: return 2;
    case ErrorCode::bad_input: return 3;
    case ErrorCode::interrupted: return 130;
    default: return 1;
  }
}

}  // namespace fovea
