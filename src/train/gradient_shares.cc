#include "train/gradient_shares.h"

#include <algorithm>

#include "autograd/add_into.h"
#include "core/wide.h"

namespace fovea {

GradientShares::GradientShares(Context& context, const SharedAdamW& adamw, const dist::Group& ranks)
    : context_(context), adamw_(adamw), ranks_(ranks.split(0, "gradients of shares")) {
  const std::vector<ParameterBucket>& buckets = adamw.buckets();
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const ParameterBucket& own = bucket(i);
    const DType dtype = wide_type(adamw.whole()[own.first].var.dtype());
    const std::int64_t rows = own.rows[static_cast<std::size_t>(ranks_.rank())];
    sums_.push_back(
        {Tensor::zeros(context, {rows}, dtype, Lifetime::persistent), std::vector<double>(own.end - own.first, 0.0)});
    add_bucket();
    for (std::size_t p = own.first; p < own.end; ++p) add_to_last(adamw.whole()[p].var);
  }
}

// Backward reaches the last parameters first.
const ParameterBucket& GradientShares::bucket(std::size_t i) const {
  return adamw_.buckets()[adamw_.buckets().size() - 1 - i];
}

// From here on the gradients are the bucket's: the next part begins with none.
void GradientShares::launch(std::size_t i) {
  Gradients gradients;
  std::size_t bytes = 0;
  for (std::size_t p = bucket(i).first; p < bucket(i).end; ++p) {
    gradients.push_back(std::exchange(adamw_.whole()[p].var.slot()->grad, Tensor()));
    bytes += gradients.back().defined() ? gradients.back().bytes() : 0;
  }
  waiting_ += bytes;
  peak_ = std::max(peak_, waiting_.load());
  worker_.submit([this, i, bytes, gradients = std::move(gradients)] {
    send(i, gradients);
    waiting_ -= bytes;
  });
}

// Runs on the worker's thread.
void GradientShares::send(std::size_t i, const Gradients& gradients) {
  Sum& sum = sums_[i];
  const ParameterBucket& own = bucket(i);
  const Tensor numbers = Tensor::empty(context_, {own.size}, sum.share.dtype());
  std::vector<double> has;
  std::int64_t at = 0;
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    const std::int64_t size = adamw_.whole()[own.first + p].var.value().numel();
    const Tensor room = numbers.slice(0, at, at + size);
    if (gradients[p].defined())
      room.copy_from(gradients[p].reshape({-1}));
    else
      room.fill(0.0);
    has.push_back(gradients[p].defined() ? 1.0 : 0.0);
    at += size;
  }
  const Tensor share = ranks_.reduce_scatter(context_, numbers, own.rows);
  const std::vector<double> all = ranks_.all_gather(has);
  const bool first = std::all_of(sum.of.begin(), sum.of.end(), [](double of) { return of == 0.0; });
  for (std::size_t p = 0; p < all.size(); ++p) sum.of[p % has.size()] += all[p];
  if (first)
    sum.share.copy_from(share);
  else
    add_into(context_, sum.share, share);
}

// Parts of a step are added up one after another.
void GradientShares::end_part(bool) {
  launch_rest();
  worker_.wait();
  ++rounds_;
}

void GradientShares::finish(std::int64_t rounds) {
  while (rounds_ < rounds) end_part(true);  // others have more parts
  rounds_ = 0;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    Sum& sum = sums_[i];
    adamw_.set_gradients(adamw_.buckets().size() - 1 - i, sum.share, sum.of);
    std::fill(sum.of.begin(), sum.of.end(), 0.0);
  }
}

void GradientShares::abandon(const Error& error) noexcept {
  ranks_.fail(error);
  try {
    worker_.wait();
  } catch (const std::exception&) {  // the error that ended the step is told
  }
}

std::size_t GradientShares::bytes() const {
  std::size_t bytes = 0;
  for (const Sum& sum : sums_) bytes += sum.share.bytes();
  return bytes;
}

}  // namespace fovea
