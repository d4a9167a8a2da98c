#pragma once

#include <vector>

#include "io/file.h"

namespace fovea::cli {

// Brings the pages about the mechanisms up to date with the registry: the generated end of FOLDER/NAME.md (parameters,
// support, picture), the pictures, and the index FOLDER/README.md. Returns the files that changed. A page that is not
// there is an error: its words are written by people.
std::vector<Path> write_mechanism_docs(const Path& folder);

}  // namespace fovea::cli
