#pragma once

#include <optional>
#include <string>

#include "cli/kit/options.h"
#include "experiment/settings.h"

namespace fovea::cli {

// The options of a run that have a name of their own on the command line; the rest is --set.
struct RunOptions {
  MachineOptions machine;
  RunChoices typed;
  std::optional<std::string> dtype;
  bool profile = false;
  bool json_lines = false;

  RunChoices choices() const;  // with the dtype
};
void add_run_options(const Arguments& verb, RunOptions& options);

}  // namespace fovea::cli
