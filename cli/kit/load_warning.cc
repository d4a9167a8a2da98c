#include "cli/kit/load_warning.h"

#include "measure/machine.h"

namespace fovea::cli {

void warn_of_load(const LoadMeter& load, const Console& console, std::vector<std::string>& warnings) {
  const std::string text = load_warning(load.others(), this_machine().cores);
  if (text.empty()) return;
  console.note(text);
  warnings.push_back(text);
}

}  // namespace fovea::cli
