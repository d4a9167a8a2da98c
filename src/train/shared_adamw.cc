#include "train/shared_adamw.h"

#include <algorithm>

namespace fovea {
namespace {

Tensor flat(const Tensor& x) { return x.reshape({-1}); }

}  // namespace

SharedAdamW::SharedAdamW(Context& context, std::vector<Parameter> parameters, AdamWOptions options)
    : context_(&context), options_(options), parameters_(std::move(parameters)) {
  std::erase_if(parameters_, [](const Parameter& p) { return !p.trained(); });
  own_ = std::make_unique<AdamW>(context, parameters_, options);
}

void SharedAdamW::divide(const dist::Group& ranks, bool gradients, WeightShares* weights) {
  if (ranks.size() == 1) return;
  ranks_ = ranks.split(0, "optimiser state");
  divides_gradients_ = gradients;
  weights_ = weights;
  buckets_ = buckets_of(parameters_, ranks_, weights != nullptr);
  cut();
  own_.reset();  // room for the new ranges
  std::vector<Parameter> own;
  for (const ParameterRange& range : ranges_) {
    const Parameter& p = parameters_[range.parameter];
    own.push_back({p.name, Var::leaf(numbers_of(range)), p.decay});
  }
  own_ = std::make_unique<AdamW>(*context_, std::move(own), options_);
}

// The ranges of the parameters that lie in the share of this rank.
void SharedAdamW::cut() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const ParameterBucket& bucket = buckets_[b];
    const std::int64_t begin = dist::part_begin(bucket.size, ranks_.size(), ranks_.rank()),
                       end = dist::part_begin(bucket.size, ranks_.size(), ranks_.rank() + 1);
    std::int64_t at = 0;
    for (std::size_t i = bucket.first; i < bucket.end; ++i) {
      const std::int64_t size = parameters_[i].var.value().numel();
      const std::int64_t from = std::clamp(begin - at, std::int64_t{0}, size),
                         to = std::clamp(end - at, std::int64_t{0}, size);
      if (from < to) ranges_.push_back({i, from, to, b, at + from - begin});
      at += size;
    }
  }
}

// Where this rank updates them.
Tensor SharedAdamW::numbers_of(const ParameterRange& range) const {
  const std::int64_t layer = buckets_[range.bucket].layer, size = range.end - range.begin;
  if (layer >= 0) return weights_->share(layer).slice(0, range.at, range.at + size);
  return flat(parameters_[range.parameter].var.value()).slice(0, range.begin, range.end);
}

void SharedAdamW::set_gradients(std::size_t bucket, const Tensor& share, std::span<const double> of) const {
  for (std::size_t r = 0; r < ranges_.size(); ++r) {
    const ParameterRange& range = ranges_[r];
    if (range.bucket != bucket) continue;
    own_->parameters()[r].var.slot()->grad = of[range.parameter - buckets_[bucket].first] > 0.0
                                                 ? share.slice(0, range.at, range.at + range.end - range.begin)
                                                 : Tensor();
  }
}

// Puts together what the ranks have of each parameter's numbers. An undefined whole is not wanted.
void SharedAdamW::gather(const ParameterBucket& bucket, const SliceOf& own, const WholeOf& whole) const {
  const DType dtype = parameters_[bucket.first].var.dtype();
  const Tensor mine = Tensor::empty(*context_, {bucket.rows[static_cast<std::size_t>(ranks_.rank())]}, dtype);
  for (std::size_t r = 0; r < ranges_.size(); ++r)
    if (const ParameterRange& range = ranges_[r]; &buckets_[range.bucket] == &bucket)
      mine.slice(0, range.at, range.at + range.end - range.begin).copy_from(own(r));
  const Tensor all = ranks_.all_gather(*context_, mine, bucket.rows);
  std::int64_t at = 0;
  for (std::size_t i = bucket.first; i < bucket.end; ++i) {
    const std::int64_t size = parameters_[i].var.value().numel();
    if (const Tensor to = whole(i); to.defined()) flat(to).copy_from(all.slice(0, at, at + size));
    at += size;
  }
}

void SharedAdamW::apply(const Context& context, const Tensor& pace, const Tensor& go) const {
  if (!divided()) return own_->apply(context, pace, go);
  for (std::size_t i = 0; i < ranges_.size() && !divides_gradients_; ++i) {
    const Tensor& grad = parameters_[ranges_[i].parameter].var.grad();
    own_->parameters()[i].var.slot()->grad =
        grad.defined() ? flat(grad).slice(0, ranges_[i].begin, ranges_[i].end) : Tensor();
  }
  own_->apply(context, pace, go);
  own_->zero_grad();
  for (const ParameterBucket& bucket : buckets_)
    if (bucket.layer < 0)  // others get those of layers when they need them
      gather(
          bucket, [this](std::size_t i) { return own_->parameters()[i].var.value(); },
          [this](std::size_t i) { return parameters_[i].var.value(); });
  if (weights_ != nullptr) weights_->close_all();  // what is whole is of before
}

void SharedAdamW::zero_grad() {
  for (const Parameter& p : parameters_) p.var.slot()->grad = Tensor();
  for (const Parameter& p : own_->parameters()) p.var.slot()->grad = Tensor();
}

std::vector<NamedTensor> SharedAdamW::moments(bool keep) const {
  std::vector<NamedTensor> all = keep || !divided() ? room_for_moments() : std::vector<NamedTensor>();
  if (!divided()) return all;
  for (const std::size_t moment : {0, 1})
    for (const ParameterBucket& bucket : buckets_)
      gather(
          bucket, [&](std::size_t i) { return moment == 0 ? own_->moments()[i].first : own_->moments()[i].second; },
          [&](std::size_t i) { return keep ? all[2 * i + moment].tensor : Tensor(); });
  return all;
}

std::vector<NamedTensor> SharedAdamW::room_for_moments() const {
  std::vector<NamedTensor> all;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto room = [&](const Tensor& own) {
      const Tensor& value = parameters_[i].var.value();
      return divided() ? Tensor::zeros(*context_, value.shape(), value.dtype()) : own;
    };
    const AdamW::Moments own = divided() ? AdamW::Moments() : own_->moments()[i];
    all.push_back({"first." + parameters_[i].name, room(own.first)});
    all.push_back({"second." + parameters_[i].name, room(own.second)});
  }
  return all;
}

void SharedAdamW::take_moments(std::span<const NamedTensor> read) {
  if (!divided()) return;  // they were read in place
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const auto part = [&](std::size_t moment) {
      return flat(read[2 * ranges_[i].parameter + moment].tensor).slice(0, ranges_[i].begin, ranges_[i].end);
    };
    own_->moments()[i].first.copy_from(part(0));
    own_->moments()[i].second.copy_from(part(1));
  }
}

std::size_t SharedAdamW::bytes() const {
  std::size_t bytes = 0;
  for (const AdamW::Moments& m : own_->moments()) bytes += m.first.bytes() + m.second.bytes();
  return bytes;
}

}  // namespace fovea
