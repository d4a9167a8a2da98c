#include <gtest/gtest.h>

#include "core/wide.h"
#include "dist/threads.h"
#include "fovea/mechanism.h"
#include "models/mesh.h"
#include "parallel/cut.h"
#include "support/expect_error.h"
#include "support/families.h"
#include "support/names.h"
#include "support/tensors.h"

// Models whose sequences or weights ranks divide, beside models of one rank: losses, and gradients added up over the
// ranks that have the same weights.
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

// The same by ranks that have the layers in stages: all chunks forward, then all of them back.
Loss::Numbers learn_in_stages(Context& context, const Model& model, const Divided& c) {
  const Pipeline& pipeline = pipeline_of(model);
  const Batch batch = batch_of(context, c);
  const LossOptions options{.label_smoothing = 0.1};
  std::vector<std::pair<std::unique_ptr<Tape>, Pipeline::Pass>> passes;
  std::vector<double> numbers(4, 0.0);
  for (const std::int64_t chunk : pipeline.chunks()) {
    auto tape = std::make_unique<Tape>(context, TapeOptions{.training = true, .stream = 3});
    passes.emplace_back(std::move(tape), Pipeline::Pass());
    passes.back().second = forward_chunk(model, *passes.back().first, batch, &options, chunk);
    const Loss::Numbers own = passes.back().second.loss.read(context);
    numbers[0] += own.value, numbers[1] += own.asked, numbers[2] += own.correct;
  }
  const Tensor one = Tensor::from<double>(context, {}, std::vector{1.0});
  for (auto at = passes.rbegin(); at != passes.rend(); ++at) pipeline.backward(*at->first, at->second, one);
  pipeline.settle();
  numbers = pipeline.sum(numbers);
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

// Is this a gradient of nothing: of a bias whose mean is taken off again, say?
bool is_rounding(const Tensor& gradient) {
  constexpr double kLeast = 1e-13;
  for (const double g : gradient.to_vector<double>())
    if (std::abs(g) > kLeast) return false;
  return true;
}

// The gradient of a parameter of the whole model, of what each rank has of it.
Tensor gradient_of_all(const Context& context, const dist::Mesh& mesh, const Model& part, const Parameter& whole) {
  Tensor all = Tensor::zeros(context, whole.var.shape(), wide_type(whole.var.dtype()));
  for (const Parameter& p : part.parameters()) {
    if (p.name != whole.name) continue;
    const Tensor sum =
        p.var.grad().defined() ? p.var.grad().clone(context) : Tensor::zeros(context, p.var.shape(), p.var.dtype());
    (p.cut.cuts() ? mesh.same_weights : mesh.same_layers).all_reduce(sum);
    all = divided::whole_of(context, sum, p.cut, mesh.tensor);
  }
  if (mesh.pipeline.size() > 1) {
    all = all.clone(context);
    mesh.pipeline.all_reduce(all);
  }
  return all;
}

void expect_as_one(const dist::Group& group, const dist::MeshShape& shape, const Divided& c) {
  SCOPED_TRACE(shape.text());
  const dist::Mesh mesh(group, shape);
  Context alone({.threads = 1, .seed = 7, .memory = {.poison = true}}),
      context({.threads = 1, .seed = 7, .memory = {.poison = true}});
  const Model whole(alone, c.config);
  Model part(context, c.config);
  set_mesh(part, mesh);
  EXPECT_EQ(part.parameter_count(), whole.parameter_count());
  const Loss::Numbers expected = learn(alone, whole, c),
                      got = shape.pipeline > 1 ? learn_in_stages(context, part, c) : learn(context, part, c);
  EXPECT_NEAR(got.value, expected.value, c.tolerance * std::abs(expected.value));
  EXPECT_EQ(got.asked, expected.asked);
  EXPECT_EQ(got.correct, expected.correct);
  for (std::size_t i = 0; i < whole.parameters().size(); ++i) {
    const Parameter& p = whole.parameters()[i];
    const Var& a = p.var;
    if (!a.needs_grad() || !a.grad().defined()) continue;
    const Tensor got = gradient_of_all(context, mesh, part, p);
    if (is_rounding(a.grad()) && is_rounding(got)) continue;
    EXPECT_LT(relative_error(got, a.grad()), c.tolerance) << p.name;
  }
}

void expect_no_stages(const Divided& c) {
  dist::run_threads(2, [&](const dist::Group& group) {
    Context context({.threads = 1, .seed = 7});
    Model model(context, c.config);
    EXPECT_ERROR(set_mesh(model, dist::Mesh(group, {.pipeline = 2})), ErrorCode::unsupported, "not one stack",
                 " x pipeline", "a mesh without the axis pipeline");
  });
}

class DividedModels : public ::testing::TestWithParam<Divided> {};

TEST_P(DividedModels, LearnAsWholeOnes) {
  for (const int ranks : {2, 4})
    dist::run_threads(ranks,
                      [&](const dist::Group& group) { expect_as_one(group, {.sequence = group.size()}, GetParam()); });
}

// Grouped heads of two cannot be four ranks'.
std::int64_t most_ranks(const ModelConfig& config) { return config.kv_heads > 0 ? config.kv_heads : 4; }

TEST_P(DividedModels, LearnWithPartsOfTheWeights) {
  const Divided& c = GetParam();
  for (const std::int64_t ranks : {2, 4})
    if (ranks <= most_ranks(c.config))
      dist::run_threads(static_cast<int>(ranks),
                        [&](const dist::Group& group) { expect_as_one(group, {.tensor = group.size()}, c); });
  dist::run_threads(4, [&](const dist::Group& group) { expect_as_one(group, {.sequence = 2, .tensor = 2}, c); });
}

// Four layers in two and four stages, one of them of two chunks, and with the other axes.
TEST_P(DividedModels, LearnInStages) {
  Divided c = GetParam();
  const Task task = c.config.task;
  if (task == Task::seq2seq || task == Task::vision || task == Task::image_text) return expect_no_stages(c);
  const std::vector<std::string> two = c.config.layers;
  c.config.layers.insert(c.config.layers.end(), two.begin(), two.end());
  const auto on = [&](int ranks, const dist::MeshShape& shape) {
    dist::run_threads(ranks, [&](const dist::Group& group) { expect_as_one(group, shape, c); });
  };
  on(2, {.pipeline = 2});
  on(2, {.pipeline = 2, .chunks = 2});
  on(4, {.pipeline = 4});
  on(4, {.tensor = 2, .pipeline = 2});
  on(4, {.sequence = 2, .pipeline = 2, .chunks = 2});
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
    Model model(context, families::family("informer-forecast"));
    EXPECT_ERROR(set_mesh(model, dist::Mesh(group, {.sequence = 2})), ErrorCode::unsupported,
                 "do not divide their series", "forecast x sequence", "axes data");
  });
}

// Heads apart or all on every rank: every mechanism has a form, with the dropout of the whole.
TEST(SharedWeights, OfEveryMechanism) {
  for (const std::string_view name : mechanism_names()) {
    ModelConfig config = families::family("transformer");
    config.set_attention(name);
    config.inner_dropout = config.dropout = 0.2;
    config.attention_dropout = Mechanism(name).supports(Feature::dropout) ? 0.2 : 0.0;
    SCOPED_TRACE(std::string(name));
    for (const int ranks : {2, 4})
      dist::run_threads(ranks, [&](const dist::Group& group) {
        expect_as_one(group, {.tensor = group.size()}, {std::string(name), config, false, 1e-8});
      });
  }
}

// Each sum over ranks takes (ranks - 1) / ranks of its bytes there and back: two in a layer, one for the embedding,
// forward and backward. The loss takes five numbers of each row.
TEST(SharedWeights, MoveWhatTheDocumentationSays) {
  const ModelConfig config = families::family("gpt");
  for (const int ranks : {2, 4})
    dist::run_threads(ranks, [&](const dist::Group& group) {
      Context context({.threads = 1, .seed = 7});
      Model model(context, config);
      const dist::Mesh mesh(group, {.tensor = group.size()});
      set_mesh(model, mesh);
      learn(context, model, {"gpt", config});
      const std::uint64_t rows = 16, sums = 2 * (2 * config.layers.size() + 1);
      const std::uint64_t bytes = rows * static_cast<std::uint64_t>(config.width) * sizeof(double);
      const auto others = static_cast<std::uint64_t>(ranks - 1);
      EXPECT_EQ(mesh.tensor.traffic().at("all_reduce").sent,
                sums * 2 * others * bytes / static_cast<std::uint64_t>(ranks));
      EXPECT_EQ(mesh.tensor.traffic().at("all_gather").sent, others * 5 * sizeof(double) * rows);
    });
}

TEST(SharedWeights, OfForecasters) {
  for (const char* name : {"informer-forecast", "memformer-forecast"})
    dist::run_threads(2, [&](const dist::Group& group) {
      expect_as_one(group, {.tensor = 2}, {name, families::family(name), false, 1e-9});
    });
}

TEST(SharedWeights, WithAdaptersAndFrozenParts) {
  ModelConfig config = families::family("gpt");
  config.lora = 2;
  config.frozen = {"embedding", "layers", "final_norm"};
  dist::run_threads(2, [&](const dist::Group& group) { expect_as_one(group, {.tensor = 2}, {"lora", config}); });
}

TEST(Stages, WithAdaptersAndFrozenParts) {
  ModelConfig config = families::family("gpt");
  config.lora = 2;
  config.frozen = {"embedding", "layers", "final_norm"};
  dist::run_threads(2, [&](const dist::Group& group) { expect_as_one(group, {.pipeline = 2}, {"lora", config}); });
  config = families::family("transformer");
  config.frozen = {"embedding", "layers.0"};  // nothing to be learned in the first stage
  dist::run_threads(2, [&](const dist::Group& group) { expect_as_one(group, {.pipeline = 2}, {"frozen", config}); });
}

// Outside of training each rank gets what one alone would.
TEST(Stages, GiveTheirOutputToAll) {
  for (const char* name : {"gpt", "matcher", "rater", "roberta"}) {
    const Divided c{name, families::family(name)};
    Context alone({.threads = 1, .seed = 7});
    const Model whole(alone, c.config);
    Tape tape(alone, {.record = false});
    const Batch batch = batch_of(alone, c);
    const Tensor expected = whole.forward(tape, batch).value();
    const Loss::Numbers loss = whole.loss(tape, batch).read(alone);
    dist::run_threads(2, [&](const dist::Group& group) {
      Context context({.threads = 1, .seed = 7});
      Model part(context, c.config);
      set_mesh(part, dist::Mesh(group, {.pipeline = 2}));
      Tape quiet(context, {.record = false});
      const Tensor got = part.forward(quiet, batch_of(context, c)).value();
      ASSERT_EQ(got.shape(), expected.shape());
      EXPECT_LT(relative_error(got, expected), 1e-12) << name;
      const Loss::Numbers own = part.loss(quiet, batch_of(context, c)).read(context);
      EXPECT_NEAR(own.value, loss.value, 1e-12 * loss.value);
      EXPECT_EQ(own.asked, loss.asked);
      EXPECT_EQ(own.correct, loss.correct);
      EXPECT_NEAR(own.deviation, loss.deviation, 1e-12);
      Tape recording(context);
      EXPECT_ERROR(part.loss(recording, batch_of(context, c)), ErrorCode::unsupported, "in stages", "model", "train");
    });
  }
}

// Rows of f64 one way, their gradients the other, and with the rows where their random streams go on.
TEST(Stages, MoveWhatTheDocumentationSays) {
  const ModelConfig config = families::family("gpt");
  dist::run_threads(2, [&](const dist::Group& group) {
    Context context({.threads = 1, .seed = 7});
    Model model(context, config);
    set_mesh(model, dist::Mesh(group, {.pipeline = 2}));
    learn_in_stages(context, model, {"gpt", config});
    const std::uint64_t rows = 16, bytes = rows * static_cast<std::uint64_t>(config.width) * sizeof(double);
    EXPECT_EQ(pipeline_of(model).given(), bytes + (group.rank() == 0 ? sizeof(double) : 0));
  });
}

TEST(Stages, MoreThanLayersAreRefused) {
  dist::run_threads(3, [](const dist::Group& group) {
    Context context({.threads = 1, .seed = 7});
    Model model(context, families::family("gpt"));
    EXPECT_ERROR(set_mesh(model, dist::Mesh(group, {.pipeline = 3})), ErrorCode::usage,
                 "2 layers do not divide into 3 stages", "layers", "a smaller axis pipeline");
  });
}

TEST(SharedWeights, WhatRanksCannotShareIsANamedError) {
  const auto refuse = [](const ModelConfig& config, int ranks, const char* what, const char* where) {
    dist::run_threads(ranks, [&](const dist::Group& group) {
      Context context({.threads = 1, .seed = 7});
      Model model(context, config);
      const dist::Mesh mesh(group, {.tensor = group.size()});
      try {
        set_mesh(model, mesh);
        ADD_FAILURE() << what;
      } catch (const Error& error) {
        EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
        EXPECT_NE(error.where().find(where), std::string::npos) << error.where();
      }
    });
  };
  ModelConfig config = families::family("gpt");
  refuse(config, 3, "4 heads with keys and values of 4 do not divide among 3 ranks", "heads x tensor");
  config = families::family("llama");
  refuse(config, 4, "4 heads with keys and values of 2 do not divide among 4 ranks", "heads x tensor");
  config = families::family("gpt");
  config.weight_norm = true;
  refuse(config, 2, "do not know its length", "weight_norm x tensor");
  config = families::family("transformer");
  config.positions = Positions::t5;
  config.layers = {"softmax", "rela"};
  refuse(config, 2, "whose heads ranks divide, and to others", "shared weights x tensor");
}

}  // namespace
}  // namespace fovea
