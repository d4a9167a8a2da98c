#include "experiment/scale/mesh_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/mechanism.h"
#include "parallel/traffic.h"

namespace fovea {
namespace {

// Share of a step that is backward: gradients of all ranks are added up behind it.
constexpr double kBackward = 2.0 / 3.0;
constexpr double kBucketBytes = 4.0 * (1 << 20);  // the last bucket has nothing to hide behind
constexpr double kWeightBytes = 4.0, kGradientBytes = 4.0, kMomentBytes = 8.0;

class MeshForecaster {
 public:
  MeshForecaster(const StepModel& step, const ModelConfig& model, const TrainingStep& wanted, const Cluster& cluster)
      : step_(step), model_(model), wanted_(wanted), cluster_(cluster) {}

  // Why the ranks cannot be divided so; empty: they can.
  std::string obstacle(const dist::MeshShape& shape) const {
    if (shape.data > wanted_.batch) return fmt::format("data={}: a batch has {} examples", shape.data, wanted_.batch);
    if (shape.sequence == 1) return "";
    if (shape.sequence > wanted_.length) return fmt::format("sequence={}: sequences are shorter", shape.sequence);
    for (const std::string& layer : step_.order)
      if (!divided::divides(Mechanism::parse(layer)))
        return fmt::format("sequence: {} has no form in which ranks divide its work", layer);
    return "";
  }

  MeshForecast of(const dist::MeshShape& shape) const {
    MeshForecast out{.shape = shape};
    const Share share = share_of(shape);
    out.compute =
        step_.outside.seconds.fixed + share.rounds * step_.outside.seconds.varying(share.sequences, share.length);
    out.memory = step_.outside.bytes.at(share.sequences, share.length);
    for (const std::string& layer : step_.order) add_layer(layer, share, out);
    if (cluster_.cores > 0.0) out.compute *= std::max(1.0, share.ranks * cluster_.threads / cluster_.cores);
    add_weights(share, out);
    out.fits = cluster_.memory <= 0.0 || out.memory <= cluster_.memory;
    return out;
  }

 private:
  // What one rank has of a step: `rounds` parts of a batch, each of so many sequences of so many of their tokens.
  struct Share {
    double ranks, divided, rounds, sequences, length;
    std::int64_t parts_of_sequence;
    bool divides_state;
  };

  Share share_of(const dist::MeshShape& shape) const {
    // A batch is cut into no fewer parts than there are ranks on the axis data.
    const std::int64_t parts = std::max(wanted_.accumulation, shape.data);
    const auto sequence = static_cast<double>(shape.sequence);
    return {.ranks = static_cast<double>(shape.ranks()),
            .divided = sequence,
            .rounds = std::ceil(static_cast<double>(parts) / static_cast<double>(shape.data)),
            .sequences = static_cast<double>(wanted_.batch) / static_cast<double>(parts),
            .length = static_cast<double>(wanted_.length) / sequence,
            .parts_of_sequence = shape.sequence,
            .divides_state = shape.divides(dist::Divide::state)};
  }

  void add_layer(const std::string& name, const Share& share, MeshForecast& out) const {
    const PieceCost& layer = step_.layers.at(name);
    const divided::Traffic traffic = share.parts_of_sequence > 1
                                         ? divided::traffic(Mechanism::parse(name), sizes(), share.parts_of_sequence)
                                         : divided::Traffic();
    const double bytes = share.sequences * (traffic.forward + traffic.backward);
    out.compute += layer.seconds.fixed + share.rounds * divided(layer.seconds, share, traffic.work);
    out.memory += layer.bytes.fixed + divided(layer.bytes, share, 1.0);
    out.received += share.rounds * bytes;
    out.exchange += share.rounds * cluster_.link.seconds(traffic.messages, bytes);
  }

  // Of a rank's part of each sequence. What grows with the pairs falls on the busiest rank.
  double divided(const CostCurve& curve, const Share& share, double busiest) const {
    const auto whole = static_cast<double>(wanted_.length);
    return share.sequences * share.length * (curve.per_token + curve.per_pair * whole * busiest);
  }

  // Weights, their gradients and moments; and the sums of gradients that backward does not hide.
  void add_weights(const Share& share, MeshForecast& out) const {
    const auto weights = static_cast<double>(step_.weights());
    const double moments = share.divides_state ? kMomentBytes / share.ranks : kMomentBytes;
    out.weights = weights * (kWeightBytes + kGradientBytes + moments);
    out.memory += out.weights;
    if (share.ranks <= 1.0) return;
    const double bytes = weights * kGradientBytes, part = (share.ranks - 1.0) / share.ranks * bytes;
    out.memory += bytes;  // the buckets in which gradients travel
    out.received += 2.0 * part;
    const double last = cluster_.link.all_reduce_seconds(share.ranks, std::min(bytes, kBucketBytes));
    out.exchange += std::max(last, cluster_.link.all_reduce_seconds(share.ranks, bytes) - kBackward * out.compute);
    if (!share.divides_state) return;
    out.received += part;  // the new values of the weights that others look after
    out.exchange += cluster_.link.seconds(share.ranks - 1.0, part);
  }

  divided::TrafficSizes sizes() const {
    const std::int64_t width = model_.head_width > 0 ? model_.head_width : model_.width / model_.heads;
    return {.length = wanted_.length,
            .heads = model_.heads,
            .kv_heads = model_.key_heads(),
            .d_k = width,
            .d_v = width,
            .causal = model_.causal,
            .dtype = model_.dtype};
  }

  const StepModel& step_;
  const ModelConfig& model_;
  const TrainingStep& wanted_;
  const Cluster& cluster_;
};

bool better(const MeshForecast& a, const MeshForecast& b) {
  if (a.fits != b.fits) return a.fits;
  if (!a.fits) return a.memory < b.memory;
  return a.seconds() < b.seconds();
}

}  // namespace

MeshForecasts forecast_meshes(const StepModel& step, const ModelConfig& model, const TrainingStep& wanted,
                              const Cluster& cluster) {
  const MeshForecaster forecast(step, model, wanted, cluster);
  MeshForecasts out;
  for (std::int64_t sequence = 1; sequence <= cluster.ranks; ++sequence) {
    if (cluster.ranks % sequence != 0) continue;
    const dist::MeshShape shape{.data = cluster.ranks / sequence, .sequence = sequence};
    const std::string obstacle = forecast.obstacle(shape);
    if (!obstacle.empty()) {
      if (std::find(out.left_out.begin(), out.left_out.end(), obstacle) == out.left_out.end())
        out.left_out.push_back(obstacle);
      continue;
    }
    out.meshes.push_back(forecast.of(shape));
    if (shape.ranks() == 1 || out.meshes.back().fits) continue;
    dist::MeshShape saving = shape;  // where memory is short
    saving.divide = dist::Divide::state;
    out.meshes.push_back(forecast.of(saving));
  }
  std::stable_sort(out.meshes.begin(), out.meshes.end(), better);
  return out;
}

}  // namespace fovea
