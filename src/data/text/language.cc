#include "data/text/language.h"

#include <algorithm>

#include "core/rng.h"
#include "data/hash.h"
#include "data/text/masker.h"
#include "fovea/error.h"

namespace fovea {
namespace {

// Keep these draws apart from other users of the seed.
constexpr std::uint64_t kOffsets = std::uint64_t{0x6f666673} << 32, kMasks = std::uint64_t{0x6d61736b} << 32;

class LanguageSplit final : public Split {
 public:
  LanguageSplit(std::shared_ptr<const TokenSource> tokens, const LanguageOptions& options)
      : tokens_(std::move(tokens)),
        options_(options),
        ahead_(options.masking ? 0 : 1),
        length_(std::min(options.length, std::max<std::int64_t>(0, places()))) {
    if (options.length < 1) fail(ErrorCode::usage, "a window needs at least one token", "length");
    if (options.masking) masker_.emplace(*options.masking);
  }

  std::int64_t size() const override {
    if (length_ < 1) return 0;
    return options_.training ? places() / length_ : (places() + length_ - 1) / length_;
  }
  std::int64_t length(std::int64_t) const override { return length_; }
  double characters_per_token() const override { return options_.characters_per_token; }

  std::uint64_t hash() const override {
    Hash hash;
    std::vector<std::int32_t> block(std::size_t{1} << 16);
    for (std::int64_t begin = 0; begin < tokens_->size(); begin += std::ssize(block)) {
      const std::span part =
          std::span(block).first(static_cast<std::size_t>(std::min(std::ssize(block), tokens_->size() - begin)));
      tokens_->copy(begin, part);
      hash.add_all<std::int32_t>(part);
    }
    hash.add_all<std::int64_t>(std::span(&length_, 1));
    return hash.value();
  }

  Batch batch(const Context& context, std::span<const std::int64_t> picks, std::uint64_t draw) const override {
    const Shape shape{std::ssize(picks), length_};
    Batch batch;
    batch.examples.assign(picks.begin(), picks.end());
    batch.input.ids = Tensor::empty(context, shape, DType::i32);
    batch.targets = Tensor::empty(context, shape, DType::i32);
    const std::int64_t offset = options_.training ? offset_of(context, draw) : 0;
    Random random(context.seed(), kMasks + draw);
    for (std::size_t i = 0; i < picks.size(); ++i) {
      if (!options_.training) random = Random(context.seed(), kMasks + static_cast<std::uint64_t>(picks[i]));
      const std::int64_t row = static_cast<std::int64_t>(i) * length_;
      fill(picks[i] * length_ + offset, random,
           {batch.input.ids.data<std::int32_t>() + row, batch.targets.data<std::int32_t>() + row});
    }
    return batch;
  }

 private:
  // Rows that can be read: the last token has no next one.
  std::int64_t places() const { return tokens_->size() - ahead_; }

  std::int64_t offset_of(const Context& context, std::uint64_t draw) const {
    return Random(context.seed(), kOffsets + draw).below(static_cast<std::uint32_t>(length_));
  }

  struct Row {
    std::int32_t *ids, *targets;
  };

  // The last window ends with the text; what it shares with the one before is not asked for again.
  void fill(std::int64_t wanted, Random& random, const Row& row) const {
    const std::int64_t begin = std::min(wanted, places() - length_);
    const std::int64_t known = options_.training ? 0 : wanted - begin;
    std::vector<std::int32_t> window(static_cast<std::size_t>(length_ + ahead_));
    tokens_->copy(begin, window);
    if (masker_)
      masker_->mask(std::span(window).subspan(static_cast<std::size_t>(known)), row.targets + known, random);
    else
      std::copy(window.begin() + 1, window.end(), row.targets);
    std::fill_n(row.targets, known, -1);
    std::copy_n(window.begin(), length_, row.ids);
  }

  std::shared_ptr<const TokenSource> tokens_;
  LanguageOptions options_;
  std::int64_t ahead_;
  std::int64_t length_;
  std::optional<Masker> masker_;
};

}  // namespace

std::shared_ptr<const Split> language_split(std::shared_ptr<const TokenSource> tokens, const LanguageOptions& options) {
  return std::make_shared<LanguageSplit>(std::move(tokens), options);
}

}  // namespace fovea
