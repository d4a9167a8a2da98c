#pragma once

#include <optional>
#include <string>

#include "cli/kit/options.h"
#include "experiment/run_model.h"
#include "experiment/settings.h"

namespace fovea::cli {

// The options of a run that have a name of their own on the command line; the rest is --set.
struct RunOptions {
  MachineOptions machine;
  RunChoices typed;
  std::optional<std::string> dtype;
  bool profile = false, health = false;
  bool json_lines = false;

  RunChoices choices() const;  // with the dtype
  Watch watch() const;
  bool any() const;  // something of a run was typed
};
void add_run_options(const Arguments& verb, RunOptions& options);

}  // namespace fovea::cli
