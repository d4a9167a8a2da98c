// Trains a small language model to sort digits: after "31415>" it writes "11345". A data set is any class that makes
// batches.
#include <fovea/train.h>

#include <algorithm>
#include <cstdio>
#include <random>

constexpr std::int64_t kDigits = 5, kLength = 2 * kDigits;  // the model reads all but the last digit

struct Sorting : fovea::Split {
  Sorting(std::int64_t count, unsigned first) : count(count), first(first) {}
  std::int64_t size() const override { return count; }
  std::int64_t length(std::int64_t) const override { return kLength; }
  std::uint64_t hash() const override { return first; }
  fovea::Batch batch(const fovea::Context& context, std::span<const std::int64_t> examples,
                     std::uint64_t) const override {
    fovea::Batch batch{.examples = {examples.begin(), examples.end()}};
    batch.input.ids = fovea::Tensor::zeros(context, {batch.size(), kLength}, fovea::DType::i32);
    batch.targets = fovea::Tensor::empty(context, {batch.size(), kLength}, fovea::DType::i32);
    batch.targets.fill(-1);  // nothing is asked about the digits before ">"
    for (std::int64_t row = 0; row < batch.size(); ++row) {
      std::int32_t* ids = batch.input.ids.data<std::int32_t>() + row * kLength;
      std::int32_t* answer = batch.targets.data<std::int32_t>() + row * kLength + kDigits;
      std::mt19937 generator(first + static_cast<unsigned>(examples[static_cast<std::size_t>(row)]));
      std::generate_n(ids, kDigits, [&] { return static_cast<std::int32_t>(generator() % 10); });
      std::partial_sort_copy(ids, ids + kDigits, answer, answer + kDigits);
      ids[kDigits] = 10;  // ">"
      std::copy_n(answer, kDigits - 1, ids + kDigits + 1);
    }
    return batch;
  }
  std::int64_t count;
  unsigned first;
};

int main() try {
  fovea::Context context;
  fovea::Dataset data{.name = "sorting", .task = fovea::Task::lm, .vocabulary = 11, .max_length = kLength};
  data.train = std::make_shared<Sorting>(100000, 0);
  data.validation = std::make_shared<Sorting>(500, 100000);

  fovea::ModelConfig config = fovea::ModelConfig::preset("gpt");
  config.width = 64, config.heads = 4, config.inner = 128;
  config.vocabulary = data.vocabulary, config.max_length = data.max_length;
  config.set_attention("softmax/norm");
  fovea::Model model(context, config);

  fovea::TrainConfig train{.steps = 400, .batch = 64, .schedule = {.peak = 3e-3, .warmup = 50}, .eval_every = 100};
  const fovea::TrainResult result = fovea::Trainer(context, model, data, train).run();
  std::printf("%.1f s: %.1f%% of the digits in their place\n", result.train_seconds, 100 * result.last.accuracy);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
