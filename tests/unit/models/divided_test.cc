#include <gtest/gtest.h>

#include "dist/threads.h"
#include "models/mesh.h"
#include "support/expect_error.h"
#include "support/families.h"
#include "support/names.h"
#include "support/tensors.h"

// Models whose sequences ranks divide, beside models of one rank: losses, and gradients added up over the ranks.
namespace fovea {
namespace {

using testing::relative_error;

struct Divided {
  std::string name;
  ModelConfig config;
  bool padded = false;
  double tolerance = 1e-10;
};
void PrintTo(const Divided& c, std::ostream* out) { *out << c.name; }

// The same sequences, one below the other.
Input padded(const Context& context, const Input& packed) {
  const std::vector<Sequences::Rows> rows = packed.rows.rows(1, packed.ids.dim(1), "rows");
  std::int64_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.count);
  Input out{.ids = Tensor::zeros(context, {std::ssize(rows), longest}, DType::i32)};
  for (std::size_t s = 0; s < rows.size(); ++s) {
    out.rows.lengths.push_back(static_cast<std::int32_t>(rows[s].count));
    out.ids.select(0, static_cast<std::int64_t>(s))
        .slice(0, 0, rows[s].count)
        .copy_from(packed.ids.select(0, 0).slice(0, rows[s].begin, rows[s].begin + rows[s].count));
  }
  return out;
}

// Targets of rows lie as the rows do; those of padding do not count.
Tensor padded_targets(const Context& context, const Input& packed, const Tensor& targets) {
  if (targets.numel() != packed.ids.numel()) return targets;
  const Tensor shifted = Tensor::empty(context, targets.shape(), DType::i32);
  for (std::int64_t i = 0; i < targets.numel(); ++i)
    shifted.data<std::int32_t>()[i] = targets.data<std::int32_t>()[i] + 1;
  const Tensor out = padded(context, {.ids = shifted.reshape({1, targets.numel()}), .rows = packed.rows}).ids;
  for (std::int64_t i = 0; i < out.numel(); ++i) --out.data<std::int32_t>()[i];
  return out.reshape({out.numel()});
}

Batch batch_of(const Context& context, const Divided& c) {
  Batch batch = families::random_batch(context, c.config, 5);
  if (!c.padded) return batch;
  const bool seconds = batch.second.ids.defined();
  if (batch.targets.defined())
    batch.targets = padded_targets(context, c.config.task == Task::seq2seq ? batch.second : batch.input, batch.targets);
  batch.input = padded(context, batch.input);
  if (seconds) batch.second = padded(context, batch.second);
  return batch;
}

Loss::Numbers learn(Context& context, const Model& model, const Divided& c) {
  Tape tape(context, {.training = true, .stream = 3});
  const Loss loss = model.loss(tape, batch_of(context, c), {.label_smoothing = 0.1});
  tape.backward(loss.value);
  return loss.read(context);
}

void expect_as_one(const dist::Group& group, const Divided& c) {
  Context alone({.threads = 1, .seed = 7, .memory = {.poison = true}}),
      context({.threads = 1, .seed = 7, .memory = {.poison = true}});
  const Model whole(alone, c.config);
  const Model part(context, c.config);
  set_mesh(part, dist::Mesh(group, {.sequence = group.size()}));
  const Loss::Numbers expected = learn(alone, whole, c), got = learn(context, part, c);
  EXPECT_NEAR(got.value, expected.value, c.tolerance * std::abs(expected.value));
  EXPECT_EQ(got.asked, expected.asked);
  EXPECT_EQ(got.correct, expected.correct);
  for (std::size_t i = 0; i < whole.parameters().size(); ++i) {
    const Var &a = whole.parameters()[i].var, &b = part.parameters()[i].var;
    if (!a.needs_grad() || !a.grad().defined()) continue;
    const Tensor sum =
        b.grad().defined() ? b.grad().clone(context) : Tensor::zeros(context, a.shape(), a.grad().dtype());
    group.all_reduce(sum);
    EXPECT_LT(relative_error(sum, a.grad()), c.tolerance) << whole.parameters()[i].name << " on " << group.size();
  }
}

class DividedModels : public ::testing::TestWithParam<Divided> {};

TEST_P(DividedModels, LearnAsWholeOnes) {
  for (const int ranks : {2, 4})
    dist::run_threads(ranks, [](const dist::Group& group) { expect_as_one(group, GetParam()); });
}

void drop(StackConfig& stack) { stack.dropout = stack.inner_dropout = stack.attention_dropout = 0.2; }

std::vector<Divided> cases() {
  std::vector<Divided> all;
  for (const std::string& name : families::names()) {
    Divided c{name, families::family(name)};
    if (c.config.task == Task::forecast) continue;
    drop(c.config);
    if (c.config.decoder) drop(*c.config.decoder);
    if (c.config.image_stack) drop(*c.config.image_stack);
    all.push_back(c);
    if (c.config.image && c.config.task == Task::vision) continue;
    c.name += "-padded";
    c.padded = true;
    if (c.config.task != Task::image_text) all.push_back(c);
  }
  const auto classifier = [&](const std::string& name, const auto& change, double tolerance = 1e-10) {
    ModelConfig config = families::family("transformer");
    drop(config);
    change(config);
    all.push_back({name, config, false, tolerance});
  };
  for (const char* attention : {"transnormer-t2", "performer", "reformer", "linformer", "sinkhorn"})
    classifier(attention, [&](ModelConfig& c) { c.set_attention(attention); });
  for (const StackNorm norm : {StackNorm::batch, StackNorm::instance, StackNorm::group})
    classifier("norm-" + std::to_string(static_cast<int>(norm)), [&](ModelConfig& c) {
      c.norm = norm;
      c.pooling = Pooling::last;  // the mean of rows whose mean was taken off is nothing but rounding
    });
  for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::first, Pooling::last})
    classifier("pooling-" + std::to_string(static_cast<int>(pooling)), [&](ModelConfig& c) { c.pooling = pooling; });
  for (const FeedForward form : {FeedForward::ffn, FeedForward::glu})
    classifier(form == FeedForward::ffn ? "experts" : "experts-glu", [&](ModelConfig& c) {
      c.experts = 3;
      c.feed_forward = form;
    });
  for (const Positions positions : {Positions::rope, Positions::alibi, Positions::t5, Positions::shaw, Positions::xl})
    classifier("positions-" + std::to_string(static_cast<int>(positions)), [&](ModelConfig& c) {
      c.positions = positions;
      if (positions == Positions::rope || positions == Positions::alibi) c.attention_dropout = 0.0;
    });
  classifier("recomputed", [](ModelConfig& c) { c.checkpointing = true; });
  classifier(
      "f32", [](ModelConfig& c) { c.dtype = DType::f32; }, 1e-4);
  all.push_back({"bf16", families::family("gpt", DType::bf16), false, 3e-2});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Families, DividedModels, ::testing::ValuesIn(cases()), kNamedAsPrinted);

TEST(DividedModels, ForecastersAreANamedError) {
  dist::run_threads(2, [](const dist::Group& group) {
    Context context({.threads = 1, .seed = 7});
    const Model model(context, families::family("informer-forecast"));
    EXPECT_ERROR(set_mesh(model, dist::Mesh(group, {.sequence = 2})), ErrorCode::unsupported,
                 "do not divide their series", "forecast x sequence", "axis data");
  });
}

}  // namespace
}  // namespace fovea
