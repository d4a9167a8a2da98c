#include "experiment/token_frequencies.h"

#include <cmath>
#include <map>

#include "data/batches.h"

namespace fovea {

double frequency_loss(const Split& split) {
  const Context host({.threads = 1});
  std::map<std::int32_t, double> counts;
  double all = 0.0;
  for (Batches batches(split, {.shuffle = false}); !batches.epoch_done();)
    for (const std::int32_t token : batches.next(host).targets.to_vector<std::int32_t>())
      if (token >= 0) ++counts[token], ++all;
  double entropy = 0.0;
  for (const auto& [token, count] : counts) entropy -= count / all * std::log(count / all);
  return entropy;
}

}  // namespace fovea
