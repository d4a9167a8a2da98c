#include "train/shared_gradients.h"

#include <algorithm>
#include <cmath>

namespace fovea {

Tensor clip_shares(Context& context, std::span<const Parameter> parameters, double limit, const dist::Group& ranks) {
  if (ranks.size() == 1) return clip_norm(context, parameters, limit);
  std::vector<Parameter> whole, parts;
  for (const Parameter& p : parameters) (p.cut.cuts() ? parts : whole).push_back(p);
  const double of_whole = gradient_norm(context, whole).item(), own = gradient_norm(context, parts).item();
  double squares = of_whole * of_whole;
  for (const double part : ranks.all_gather(std::span(&own, 1))) squares += part * part;
  const Tensor norm = Tensor::from<double>(context, {}, std::vector{std::sqrt(squares)});
  clip_to(context, parameters, norm, limit);
  return norm;
}

void agree_on_finite(const Tensor& finite, const dist::Group& ranks) {
  if (ranks.size() == 1) return;
  const double own = finite.item();
  const std::vector<double> all = ranks.all_gather(std::span(&own, 1));
  finite.fill(*std::min_element(all.begin(), all.end()));
}

}  // namespace fovea
