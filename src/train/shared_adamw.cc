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

void SharedAdamW::divide(const dist::Group& ranks, bool gradients) {
  if (ranks.size() == 1) return;
  ranks_ = ranks.split(0, "optimiser state");
  divides_gradients_ = gradients;
  buckets_ = buckets_of(parameters_, ranks_);
  cut();
  own_.reset();  // room for the new ranges
  std::vector<Parameter> own;
  for (const ParameterRange& range : ranges_) {
    const Parameter& p = parameters_[range.parameter];
    own.push_back({p.name, Var::leaf(flat(p.var.value()).slice(0, range.begin, range.end)), p.decay});
  }
  own_ = std::make_unique<AdamW>(*context_, std::move(own), options_);
}

// The ranges of the parameters that lie in the share of this rank.
void SharedAdamW::cut() {
  for (const ParameterBucket& bucket : buckets_) {
    const std::int64_t begin = dist::part_begin(bucket.size, ranks_.size(), ranks_.rank()),
                       end = dist::part_begin(bucket.size, ranks_.size(), ranks_.rank() + 1);
    std::int64_t at = 0;
    for (std::size_t i = bucket.first; i < bucket.end; ++i) {
      const std::int64_t size = parameters_[i].var.value().numel();
      const std::int64_t from = std::clamp(begin - at, std::int64_t{0}, size),
                         to = std::clamp(end - at, std::int64_t{0}, size);
      if (from < to) ranges_.push_back({i, from, to});
      at += size;
    }
  }
}

void SharedAdamW::set_gradients(std::size_t bucket, const Tensor& share, std::span<const double> of) const {
  std::int64_t at = 0;
  for (std::size_t r = 0; r < ranges_.size(); ++r) {
    const ParameterRange& range = ranges_[r];
    if (range.parameter < buckets_[bucket].first || range.parameter >= buckets_[bucket].end) continue;
    const std::int64_t size = range.end - range.begin;
    own_->parameters()[r].var.slot()->grad =
        of[range.parameter - buckets_[bucket].first] > 0.0 ? share.slice(0, at, at + size) : Tensor();
    at += size;
  }
}

// Puts together what the ranks have of each parameter's numbers. An undefined whole is not wanted.
void SharedAdamW::gather(const SliceOf& own, const WholeOf& whole) const {
  std::size_t range = 0;
  for (const ParameterBucket& bucket : buckets_) {
    const DType dtype = parameters_[bucket.first].var.dtype();
    const Tensor mine = Tensor::empty(*context_, {bucket.rows[static_cast<std::size_t>(ranks_.rank())]}, dtype);
    std::int64_t at = 0;
    for (; range < ranges_.size() && ranges_[range].parameter < bucket.end; ++range) {
      const std::int64_t size = ranges_[range].end - ranges_[range].begin;
      mine.slice(0, at, at + size).copy_from(own(range));
      at += size;
    }
    const Tensor all = ranks_.all_gather(*context_, mine, bucket.rows);
    at = 0;
    for (std::size_t i = bucket.first; i < bucket.end; ++i) {
      const std::int64_t size = parameters_[i].var.value().numel();
      if (const Tensor to = whole(i); to.defined()) flat(to).copy_from(all.slice(0, at, at + size));
      at += size;
    }
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
  gather([this](std::size_t i) { return own_->parameters()[i].var.value(); },
         [this](std::size_t i) { return parameters_[i].var.value(); });
}

void SharedAdamW::zero_grad() {
  for (const Parameter& p : parameters_) p.var.slot()->grad = Tensor();
  for (const Parameter& p : own_->parameters()) p.var.slot()->grad = Tensor();
}

std::vector<NamedTensor> SharedAdamW::moments(bool keep) const {
  std::vector<NamedTensor> all = keep || !divided() ? room_for_moments() : std::vector<NamedTensor>();
  if (!divided()) return all;
  for (const std::size_t moment : {0, 1})
    gather([&](std::size_t i) { return moment == 0 ? own_->moments()[i].first : own_->moments()[i].second; },
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
