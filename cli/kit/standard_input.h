#pragma once

#include <string>

#include "io/file.h"

namespace fovea::cli {

// The name of a file as it was given; of "-" a file that holds what came in on standard input, gone with the program.
// Its ending tells the kind of data: lines of JSON, columns between tabs, else text.
std::string given_file(const std::string& name);

// Keeps what came in with the folder of a run, which is read again when the run goes on. Gives the name of the copy.
std::string keep_in(const std::string& folder, const std::string& file);

}  // namespace fovea::cli
