#include "data/pictures/pictures.h"

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "data/hash.h"
#include "fovea/error.h"

namespace fovea {
namespace {

constexpr std::uint64_t kPictureStream = std::uint64_t{0x70696374} << 32;  // keeps these draws apart from other users

// What both kinds of batches have in common.
class PicturesSplit : public Split {
 public:
  explicit PicturesSplit(std::shared_ptr<const Pictures> pictures) : pictures_(std::move(pictures)) {
    std::array<std::int64_t, 256> counts{};
    for (const std::uint8_t label : pictures_->labels) ++counts[label];
    if (size() > 0)
      majority_ = static_cast<double>(*std::max_element(counts.begin(), counts.end())) / static_cast<double>(size());
  }

  std::int64_t size() const override { return pictures_->count(); }
  std::int64_t length(std::int64_t) const override { return pictures_->size(); }
  double majority() const override { return majority_; }
  std::uint64_t hash() const override {
    Hash hash;
    hash.add_all<std::uint8_t>(pictures_->values);
    hash.add_all<std::uint8_t>(pictures_->labels);
    return hash.value();
  }

 protected:
  Batch labels_of(const Context& context, std::span<const std::int64_t> picks) const {
    Batch batch;
    batch.examples.assign(picks.begin(), picks.end());
    batch.targets = Tensor::empty(context, {std::ssize(picks)}, DType::i32);
    for (std::size_t i = 0; i < picks.size(); ++i)
      batch.targets.data<std::int32_t>()[i] = pictures_->labels[static_cast<std::size_t>(picks[i])];
    return batch;
  }
  const Pictures& pictures() const { return *pictures_; }
  const std::uint8_t* picture(std::int64_t pick) const { return pictures_->values.data() + pick * pictures_->size(); }

 private:
  std::shared_ptr<const Pictures> pictures_;
  double majority_ = 0.0;
};

class PixelSplit final : public PicturesSplit {
 public:
  using PicturesSplit::PicturesSplit;

  Batch batch(const Context& context, std::span<const std::int64_t> picks, std::uint64_t /*draw*/) const override {
    Batch batch = labels_of(context, picks);
    batch.input.ids = Tensor::empty(context, {std::ssize(picks), pictures().size()}, DType::i32);
    std::int32_t* out = batch.input.ids.data<std::int32_t>();
    for (const std::int64_t pick : picks) out = std::copy_n(picture(pick), pictures().size(), out);
    return batch;
  }
};

class PictureSplit final : public PicturesSplit {
 public:
  PictureSplit(std::shared_ptr<const Pictures> pictures, const PictureScale& scale, const Augmentation& augmentation)
      : PicturesSplit(std::move(pictures)), augmentation_(augmentation) {
    for (std::size_t c = 0; c < scale.mean.size(); ++c) {
      std::array<float, 256>& scaled = scaled_.emplace_back();
      for (std::size_t v = 0; v < scaled.size(); ++v)
        scaled[v] = static_cast<float>((static_cast<double>(v) / 255.0 - scale.mean[c]) / scale.deviation[c]);
    }
    if (std::ssize(scaled_) != this->pictures().channels || scale.deviation.size() != scaled_.size())
      fail(ErrorCode::usage, "mean and deviation need one number for each channel", "data.mean, data.deviation");
  }

  Batch batch(const Context& context, std::span<const std::int64_t> picks, std::uint64_t draw) const override {
    const Pictures& all = pictures();
    Batch batch = labels_of(context, picks);
    batch.input.values = Tensor::empty(context, {std::ssize(picks), all.height, all.width, all.channels}, DType::f32);
    float* out = batch.input.values.data<float>();
    Random random(context.seed(), kPictureStream + draw);
    for (std::size_t i = 0; i < picks.size(); ++i)
      write(picture(picks[i]), drawn(random), out + static_cast<std::int64_t>(i) * all.size());
    return batch;
  }

 private:
  struct Move {
    std::int64_t down = 0, right = 0;
    bool mirrored = false;
  };

  Move drawn(Random& random) const {
    const auto span = static_cast<std::uint32_t>(2 * augmentation_.shift + 1);
    Move move;
    if (augmentation_.shift > 0) {
      move.down = static_cast<std::int64_t>(random.below(span)) - augmentation_.shift;
      move.right = static_cast<std::int64_t>(random.below(span)) - augmentation_.shift;
    }
    if (augmentation_.flip) move.mirrored = random.below(2) == 1;
    return move;
  }

  void write(const std::uint8_t* picture, const Move& move, float* out) const {
    const Pictures& all = pictures();
    for (std::int64_t y = 0; y < all.height; ++y)
      for (std::int64_t x = 0; x < all.width; ++x) {
        const std::int64_t row = y - move.down, moved = x - move.right;
        const std::int64_t column = move.mirrored ? all.width - 1 - moved : moved;
        const bool inside = row >= 0 && row < all.height && column >= 0 && column < all.width;
        const std::int64_t pixel = (row * all.width + column) * all.channels;
        for (std::int64_t c = 0; c < all.channels; ++c)
          *out++ = scaled_[static_cast<std::size_t>(c)][inside ? picture[pixel + c] : 0];
      }
  }

  Augmentation augmentation_;
  std::vector<std::array<float, 256>> scaled_;  // every value a byte can have, for each channel
};

}  // namespace

PictureScale PictureScale::of(const Pictures& pictures) {
  PictureScale scale;
  const double pixels = std::max(1.0, static_cast<double>(pictures.count() * pictures.height * pictures.width));
  for (std::int64_t c = 0; c < pictures.channels; ++c) {
    std::array<std::int64_t, 256> seen{};
    for (std::int64_t i = c; i < std::ssize(pictures.values); i += pictures.channels)
      ++seen[pictures.values[static_cast<std::size_t>(i)]];
    const auto mean_of = [&](auto f) {
      double sum = 0.0;
      for (std::size_t v = 0; v < seen.size(); ++v)
        sum += static_cast<double>(seen[v]) * f(static_cast<double>(v) / 255.0);
      return sum / pixels;
    };
    const double mean = mean_of([](double v) { return v; });
    const double variance = mean_of([&](double v) { return (v - mean) * (v - mean); });
    scale.mean.push_back(mean);
    scale.deviation.push_back(variance > 0.0 ? std::sqrt(variance) : 1.0);
  }
  return scale;
}

PictureScale PictureScale::chosen(const DataSettings& settings, const Pictures& train) {
  if (!settings.mean.empty() && !settings.deviation.empty()) return {settings.mean, settings.deviation};
  return of(train);
}

std::shared_ptr<const Split> picture_split(std::shared_ptr<const Pictures> pictures, const PictureScale& scale,
                                           const Augmentation& augmentation) {
  return std::make_shared<PictureSplit>(std::move(pictures), scale, augmentation);
}

std::shared_ptr<const Split> pixel_split(std::shared_ptr<const Pictures> pictures) {
  return std::make_shared<PixelSplit>(std::move(pictures));
}

}  // namespace fovea
