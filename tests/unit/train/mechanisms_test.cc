#include <gtest/gtest.h>

#include <cmath>

#include "fovea/mechanism.h"
#include "fovea/optim.h"
#include "support/names.h"
#include "support/tiny.h"

// Every mechanism of the registry in both layers of a small model: it must be able to learn a batch by heart.
namespace fovea {
namespace {

struct TrainingCase {
  std::string mechanism;
  DType dtype;
};

void PrintTo(const TrainingCase& c, std::ostream* out) { *out << c.mechanism << "_" << name_of(c.dtype); }

std::vector<TrainingCase> training_cases() {
  std::vector<TrainingCase> cases;
  for (const std::string_view name : mechanism_names())
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) cases.push_back({std::string(name), dtype});
  return cases;
}

class Training : public testing::TestWithParam<TrainingCase> {};

// Sequences of different lengths, one after another.
struct Packed {
  Tensor ids, labels;
  Sequences rows;
};

Packed packed_batch(const Context& context, const std::vector<Example>& examples) {
  std::vector<std::int32_t> ids, labels;
  Packed batch;
  batch.rows.cu_seqlens = {0};
  for (const Example& e : examples) {
    ids.insert(ids.end(), e.tokens.begin(), e.tokens.end());
    labels.push_back(e.label);
    batch.rows.cu_seqlens.push_back(static_cast<std::int32_t>(ids.size()));
  }
  batch.ids = Tensor::from<std::int32_t>(context, {1, static_cast<std::int64_t>(ids.size())}, ids);
  batch.labels = Tensor::from<std::int32_t>(context, {static_cast<std::int64_t>(labels.size())}, labels);
  return batch;
}

TEST_P(Training, LearnsABatchByHeart) {
  Context context({.threads = 1, .seed = 3, .memory = {.poison = true}});
  ModelConfig config = tiny::without_dropout(tiny::config(GetParam().mechanism));
  config.width = 32;
  config.inner = config.classifier_hidden = 32;
  config.dtype = GetParam().dtype;
  Model model(context, config);
  AdamW adamw(context, model.parameters(), {});
  const Packed batch = packed_batch(context, tiny::examples(5, 12, 40));
  LossScaler scaler;
  double first = 0.0, last = 0.0;
  for (std::uint64_t step = 0; step < 60; ++step) {
    Tape tape(context, {.training = true, .stream = step << 20});
    const Var loss = cross_entropy(tape, model.forward(tape, batch.ids, batch.rows), batch.labels);
    last = loss.value().item();
    if (step == 0) first = last;
    ASSERT_TRUE(std::isfinite(last)) << "step " << step;
    if (config.dtype != DType::f16) {
      tape.backward(loss);
    } else {
      tape.backward(scale(tape, loss, scaler.scale()));
      const bool finite = scaler.unscale(context, model.parameters()).item() == 1.0;
      scaler.adapt(finite);
      if (!finite) {
        adamw.zero_grad();
        continue;
      }
    }
    clip_norm(context, model.parameters(), 1.0);
    adamw.step(5e-3);
  }
  EXPECT_LT(scaler.state().skipped, 20);
  EXPECT_GT(first, 1.5);
  EXPECT_LT(last, 0.5 * first) << "from " << first;
}

INSTANTIATE_TEST_SUITE_P(Every, Training, testing::ValuesIn(training_cases()), kNamedAsPrinted);

}  // namespace
}  // namespace fovea
