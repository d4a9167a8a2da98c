#pragma once

#include <string>
#include <vector>

#include "experiment/settings.h"
#include "fovea/context.h"
#include "fovea/data.h"
#include "io/file.h"

namespace fovea {

// A finished run, for a page.
struct FinishedRun {
  std::string name, folder;
};

// What the heads of these models read in the first example of the test part, side by side on one page.
void write_inspect_page(const std::vector<FinishedRun>& runs, const Dataset& data, const ContextOptions& machine,
                        const Path& file);

}  // namespace fovea
