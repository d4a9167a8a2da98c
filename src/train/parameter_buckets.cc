#include "train/parameter_buckets.h"

#include "nn/layer_weights.h"

namespace fovea {

std::vector<ParameterBucket> buckets_of(std::span<const Parameter> parameters, const dist::Group& ranks,
                                        bool by_layer) {
  constexpr std::int64_t kNumbers = std::int64_t{1} << 20;
  std::vector<ParameterBucket> buckets;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::int64_t size = parameters[i].var.value().numel();
    const std::int64_t layer = by_layer ? nn::layer_of(parameters[i].name) : -1;
    const bool fits = !buckets.empty() && layer == buckets.back().layer &&
                      (layer >= 0 || buckets.back().size + size <= kNumbers) &&
                      parameters[i].var.dtype() == parameters[buckets.back().first].var.dtype();
    if (!fits) buckets.push_back({i, i, 0, {}, layer});
    buckets.back().end = i + 1;
    buckets.back().size += size;
  }
  for (ParameterBucket& bucket : buckets)
    for (int r = 0; r < ranks.size(); ++r)
      bucket.rows.push_back(dist::part_begin(bucket.size, ranks.size(), r + 1) -
                            dist::part_begin(bucket.size, ranks.size(), r));
  return buckets;
}

}  // namespace fovea
