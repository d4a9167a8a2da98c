#pragma once

#include <string>

#include "fovea/error.h"
#include "io/file.h"

namespace fovea {

// Something that should be read is not there: for callers who tell that from a file that is no good.
class NoSuchFile : public Error {
 public:
  NoSuchFile(std::string what, std::string where, std::string hint)
      : Error(ErrorCode::bad_input, std::move(what), std::move(where), std::move(hint)) {}
};

// What to try where a path leads nowhere: the name beside it that is nearest, or where the path still was right.
std::string missing_hint(const Path& path);

}  // namespace fovea
