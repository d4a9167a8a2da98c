#include "data/text/masked_inputs.h"

#include <algorithm>
#include <tuple>

#include "data/kinds.h"
#include "data/text/masker.h"
#include "tensor/views.h"

namespace fovea {
namespace {

constexpr std::uint64_t kMasks = std::uint64_t{0x696e7075} << 32;  // apart from other users of the seed

class MaskedInputs final : public Split {
 public:
  // `training`: masks are drawn anew every time; otherwise an example has always the same.
  MaskedInputs(std::shared_ptr<const Split> split, const Masking& masking, bool training)
      : split_(std::move(split)), masker_(masking), training_(training) {}

  std::int64_t size() const override { return split_->size(); }
  std::int64_t length(std::int64_t example) const override { return split_->length(example); }
  std::uint64_t hash() const override { return split_->hash(); }
  double characters_per_token() const override { return split_->characters_per_token(); }

  Batch batch(const Context& context, std::span<const std::int64_t> picks, std::uint64_t draw) const override {
    Batch batch = split_->batch(context, picks, draw);
    batch.second = {};
    batch.targets = host_room(context, batch.input.ids.shape(), DType::i32);
    std::fill_n(batch.targets.data<std::int32_t>(), batch.targets.numel(), -1);
    Random random(context.seed(), kMasks + draw);
    for (std::size_t i = 0; i < picks.size(); ++i) {
      if (!training_) random = Random(context.seed(), kMasks + static_cast<std::uint64_t>(picks[i]));
      const auto [begin, rows] = place_of(batch.input, i);
      masker_.mask(std::span(batch.input.ids.data<std::int32_t>() + begin, static_cast<std::size_t>(rows)),
                   batch.targets.data<std::int32_t>() + begin, random);
    }
    return batch;
  }

 private:
  // Where sequence i begins, and its tokens: sequences lie end to end, or each in a row of its own.
  static std::pair<std::int64_t, std::int64_t> place_of(const Input& input, std::size_t i) {
    const auto& [ends, lengths] = std::tie(input.rows.cu_seqlens, input.rows.lengths);
    if (!ends.empty()) return {ends[i], ends[i + 1] - ends[i]};
    const std::int64_t n = input.ids.dim(1);
    return {static_cast<std::int64_t>(i) * n, lengths.empty() ? n : lengths[i]};
  }

  std::shared_ptr<const Split> split_;
  Masker masker_;
  bool training_;
};

}  // namespace

Dataset masked_inputs(const Dataset& labelled) {
  Dataset data = labelled;
  data.task = Task::mlm;
  data.classes = 0;
  data.class_names.clear();
  const Masking masking = masking_of(data.tokenizer.get(), data.vocabulary);
  for (auto* part : {&data.train, &data.validation, &data.test})
    if (!empty(*part)) *part = std::make_shared<MaskedInputs>(*part, masking, part == &data.train);
  return data;
}

}  // namespace fovea
