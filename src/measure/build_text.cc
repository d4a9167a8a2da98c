#include <fmt/format.h>

#include <string_view>

#include "fovea/version.h"
#include "measure/commit.h"  // written by cmake/commit.cmake
#include "measure/machine.h"

namespace fovea {

std::string build_text() {
  const std::string_view commit = FOVEA_COMMIT;
  return commit.empty() ? FOVEA_VERSION : fmt::format("{} ({})", FOVEA_VERSION, commit);
}

}  // namespace fovea
