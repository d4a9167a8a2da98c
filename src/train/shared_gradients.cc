#include "train/shared_gradients.h"

#include <algorithm>
#include <cmath>

namespace fovea {
namespace {

// The ranks that have all gradients together, each of them once.
const dist::Group& who_has_all(const dist::Mesh& mesh) {
  return mesh.shape.divides(dist::Divide::gradients) ? mesh.all : mesh.all_weights;
}

}  // namespace

Tensor clip_shares(Context& context, std::span<const Parameter> parameters, double limit, const dist::Mesh& mesh) {
  const dist::Group& ranks = who_has_all(mesh);
  if (ranks.size() == 1) return clip_norm(context, parameters, limit);
  std::vector<Parameter> own;  // what several ranks have is counted by the first of them
  for (const Parameter& p : parameters) {
    const bool first_stage = p.stages.empty() || p.stages.front() == mesh.pipeline.rank();
    if (first_stage && (p.cut.cuts() || mesh.tensor.rank() == 0)) own.push_back(p);
  }
  const double norm_here = gradient_norm(context, own).item();
  double squares = 0.0;
  for (const double norm : ranks.all_gather(std::span(&norm_here, 1))) squares += norm * norm;
  const Tensor norm = Tensor::from<double>(context, {}, std::vector{std::sqrt(squares)});
  clip_to(context, parameters, norm, limit);
  return norm;
}

void agree_on_finite(const Tensor& finite, const dist::Mesh& mesh) {
  const dist::Group& ranks = who_has_all(mesh);
  if (ranks.size() == 1) return;
  const double own = finite.item();
  const std::vector<double> all = ranks.all_gather(std::span(&own, 1));
  finite.fill(*std::min_element(all.begin(), all.end()));
}

}  // namespace fovea
