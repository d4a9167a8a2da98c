#include "cli/kit/progress.h"

#include <unistd.h>

#include <memory>

namespace fovea::cli {

ProgressOptions progress_options(const Console& console, std::string label, std::string unit) {
  ProgressOptions options;
  options.label = std::move(label);
  options.unit = std::move(unit);
  options.terminal = Terminal::of(STDERR_FILENO);
  options.quiet = console.quiet || console.silent;
  return options;
}

std::function<void(std::int64_t done, std::int64_t all)> eval_progress(const Console& console, std::string label) {
  ProgressOptions options = progress_options(console, std::move(label), "examples");
  options.passing = true;
  const auto progress = std::make_shared<Progress>(std::move(options));
  return [progress](std::int64_t done, std::int64_t all) { progress->update({.step = done, .total = all}); };
}

}  // namespace fovea::cli
