#include "data/dataset.h"

#include <algorithm>

namespace fovea {

double majority_share(const std::vector<Example>& examples, int classes) {
  if (examples.empty()) return 0;
  std::vector<std::size_t> counts(static_cast<std::size_t>(classes));
  for (const Example& example : examples) ++counts.at(static_cast<std::size_t>(example.label));
  const auto most = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  return most / static_cast<double>(examples.size());
}

}  // namespace fovea
