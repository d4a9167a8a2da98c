#pragma once

#include <string>
#include <vector>

#include "inspect/health_report.h"
#include "io/file.h"
#include "report/html.h"

namespace fovea {

// Two tables: norms of gradients by part, and the worst of every attention layer beside what theory allows.
std::vector<Section> health_sections(const HealthReport& report, const std::string& name = {});

// The same for a terminal, with what went wrong.
std::string health_text(const HealthReport& report, const Terminal& terminal);

// Norms by part over the steps, of the file in a run's folder.
Figure health_figure(const Path& run);

}  // namespace fovea
