#pragma once

#include "experiment/settings.h"

namespace fovea {

// The files of a run beside the checkpoints.
inline constexpr const char* kRunFile = "run.json";        // RunSettings
inline constexpr const char* kResultFile = "result.json";  // RunResult
// Of several runs, in the folder above theirs.
inline constexpr const char* kComparisonFile = "comparison.json";

// Settings as written by run_model into a folder; refuses one that holds no run.
RunSettings load_settings(const std::string& folder);

// Refuses a folder that already holds a run or something else. A run that was stopped before it saved anything may be
// started anew.
void require_new_folder(const std::string& folder);

// A run folder stands for its best checkpoint; a checkpoint folder for itself. `who` asks.
Path checkpoint_of(const std::string& folder, const char* who);

// "runs/listops-20240131-142501"
std::string default_folder(const std::string& name);

// A name as part of a path: "diag:block=32" becomes "diag-block-32".
std::string folder_name(const std::string& name);

}  // namespace fovea
