#include "experiment/step_cost.h"

#include <fmt/format.h>

#include "core/rng.h"
#include "data/labelled.h"
#include "data/text/language.h"
#include "fovea/error.h"
#include "measure/rounds.h"

namespace fovea {
namespace {

// ids from 1 on: 0 is padding where sequences are labelled.
Dataset labelled_tokens(const RandomTokens& wanted) {
  constexpr std::int64_t kMostIds = 256;  // of examples that are kept as bytes
  const auto vocabulary = static_cast<std::uint32_t>(std::min(wanted.vocabulary, kMostIds));
  Random random(1);
  LabelledData data{"random tokens", static_cast<int>(wanted.classes), static_cast<int>(vocabulary),
                    static_cast<int>(wanted.length)};
  for (std::int64_t i = 0; i < wanted.examples; ++i) {
    Example example;
    for (std::int64_t j = 0; j < wanted.length; ++j)
      example.tokens.push_back(static_cast<std::uint8_t>(1 + random.below(vocabulary - 1)));
    example.label = static_cast<int>(random.below(static_cast<std::uint32_t>(wanted.classes)));
    data.train.push_back(std::move(example));
  }
  data.validation = data.test = data.train;
  return dataset_of(std::move(data));
}

Dataset running_tokens(const RandomTokens& wanted) {
  Random random(1);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(wanted.examples * wanted.length + 1));
  for (std::int32_t& id : ids)
    id = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(wanted.vocabulary)));
  LanguageOptions options{.length = wanted.length};
  if (wanted.task == Task::mlm) options.masking = Masking{.vocabulary = wanted.vocabulary};
  Dataset data{
      .name = "random tokens", .task = wanted.task, .vocabulary = wanted.vocabulary, .max_length = wanted.length};
  const auto tokens = std::make_shared<TokenList>(std::move(ids));
  data.validation = data.test = language_split(tokens, options);
  options.training = true;
  data.train = language_split(tokens, options);
  return data;
}

class StepTimes : public TrainObserver {
 public:
  void on_step(const StepReport& report) override {
    if (report.step > kWarmSteps) seconds.push_back(report.seconds);
  }
  std::vector<double> seconds;
};

}  // namespace

Dataset random_tokens(const RandomTokens& wanted) {
  switch (wanted.task) {
    case Task::classify: return labelled_tokens(wanted);
    case Task::lm:
    case Task::mlm: return running_tokens(wanted);
    default:
      fail(ErrorCode::unsupported,
           fmt::format("steps of {} are not measured on random tokens",
                       task_names()[static_cast<std::size_t>(wanted.task)]),
           "model.task", "classify, lm or mlm");
  }
}

StepCost measure_steps(ContextOptions machine, const ModelConfig& config, const Dataset& data, TrainConfig train) {
  machine.seed = train.seed;
  Context context(machine);
  Model model(context, config);
  train.steps += kWarmSteps;
  train.out.clear();
  train.eval_every = 0;
  train.eval_examples = 1;
  Trainer trainer(context, model, data, train);
  StepTimes times;
  trainer.add(times);
  const TrainResult result = trainer.run();
  return {.seconds = median(times.seconds),
          .peak_memory = result.peak_memory,
          .parameters = model.parameter_count(),
          .steps = std::ssize(times.seconds),
          .tokens = result.tokens,
          .train_seconds = result.train_seconds};
}

}  // namespace fovea
