#include "models/weight_shares.h"

#include <algorithm>
#include <utility>

#include "models/mesh.h"

namespace fovea {

WeightShares::WeightShares(const Context& context, std::span<const Parameter> parameters, const dist::Group& ranks)
    : context_(context), ranks_(ranks.split(0, "weights")), dtype_(DType::f32) {
  std::vector<std::vector<Placed>> placed;
  std::vector<std::int64_t> sizes;
  for (const Parameter& p : parameters) {
    const std::int64_t layer = nn::layer_of(p.name);
    if (layer < 0) continue;
    placed.resize(std::max(placed.size(), static_cast<std::size_t>(layer) + 1));
    sizes.resize(placed.size(), 0);
    if (!p.trained()) continue;
    dtype_ = p.var.dtype();
    std::int64_t& size = sizes[static_cast<std::size_t>(layer)];
    placed[static_cast<std::size_t>(layer)].push_back(
        {p.name, p.var.shape(), static_cast<std::size_t>(size) * size_of(dtype_)});
    size += p.var.value().numel();
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    Droppable whole(static_cast<std::size_t>(sizes[i]) * size_of(dtype_));
    const Tensor all = whole.tensor(0, {sizes[i]}, dtype_);
    Layer layer{std::move(placed[i]), {}, std::move(whole), all, {}};
    for (int r = 0; r < ranks_.size(); ++r)
      layer.rows.push_back(dist::part_begin(sizes[i], ranks_.size(), r + 1) -
                           dist::part_begin(sizes[i], ranks_.size(), r));
    layer.share =
        Tensor::empty(context_, {layer.rows[static_cast<std::size_t>(ranks_.rank())]}, dtype_, Lifetime::persistent);
    now_ += all.bytes();
    layers_.push_back(std::move(layer));
  }
  peak_ = now_;
}

Tensor WeightShares::room(std::string_view name) const {
  const std::int64_t layer = nn::layer_of(name);
  if (layer < 0) return {};
  for (const Placed& p : at(layer).parameters)
    if (p.name == name) return at(layer).whole.tensor(p.begin, p.shape, dtype_);
  return {};
}

void WeightShares::open(std::int64_t i) {
  Layer& layer = layers_[static_cast<std::size_t>(i)];
  if (layer.open) return;
  layer.all.copy_from(ranks_.all_gather(context_, layer.share, layer.rows));
  layer.open = true;
  now_ += layer.all.bytes();
  peak_ = std::max(peak_, now_);
}

void WeightShares::close(std::int64_t i) {
  Layer& layer = layers_[static_cast<std::size_t>(i)];
  if (!layer.open) return;
  layer.whole.drop();
  layer.open = false;
  now_ -= layer.all.bytes();
}

void WeightShares::take() const {
  for (const Layer& layer : layers_) {
    const std::int64_t begin = dist::part_begin(layer.all.numel(), ranks_.size(), ranks_.rank());
    layer.share.copy_from(layer.all.slice(0, begin, begin + layer.share.numel()));
  }
}

void WeightShares::open_all() {
  for (std::size_t i = 0; i < layers_.size(); ++i) open(static_cast<std::int64_t>(i));
}

void WeightShares::close_all() {
  for (std::size_t i = 0; i < layers_.size(); ++i) close(static_cast<std::int64_t>(i));
  if (!std::exchange(begun_, true)) peak_ = 0;
}

std::size_t WeightShares::share_bytes() const {
  std::size_t bytes = 0;
  for (const Layer& layer : layers_) bytes += layer.share.bytes();
  return bytes;
}

WholeWeights::WholeWeights(const Model& model) : shares_(weight_shares_of(model)) {
  if (shares_ != nullptr) shares_->open_all();
}

WholeWeights::~WholeWeights() {
  if (shares_ != nullptr) shares_->close_all();
}

}  // namespace fovea
