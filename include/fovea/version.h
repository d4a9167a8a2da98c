#pragma once

// The one place of the version: CMake reads it from this line.
#define FOVEA_VERSION "0.1.0"
