#pragma once

#include "fovea/error.h"
#include "io/file.h"

// Checkpoints of a run that stay beside "last" when it is replaced.
namespace fovea {

// Of the checkpoint that was made at this step: "step-500" in the folder of the run.
Path kept_folder(const Path& run, std::int64_t step);

// Removes all but the latest `most`, and those of steps that are still to come: the run took another way from there.
void drop_kept(const Path& run, std::int64_t most, std::int64_t step);

// The error of a checkpoint that cannot be read; where it is damaged, with the latest beside it that is not.
Error with_older(const Error& error, const Path& checkpoint);

}  // namespace fovea
