#include <cmath>

#include "data/batches.h"
#include "experiment/reproduce/locality.h"
#include "experiment/reproduce/trials.h"
#include "fovea/attention.h"

// How far from itself a token attends, in the first layer of a trained model.
namespace fovea {
namespace {

// q, k and v of the first layer: the first product that has as many columns as all three.
class FirstProjection final : public TapeObserver {
 public:
  explicit FirstProjection(std::int64_t columns) : columns_(columns) {}

  void on_values(const Tape& tape, const Op&, std::span<const Tensor> values) override {
    if (!qkv.defined() && !values.empty() && values[0].rank() == 3 && values[0].dim(2) == columns_)
      qkv = values[0].clone(tape.context());
  }

  Tensor qkv;  // (b, n, 3 heads d)

 private:
  std::int64_t columns_;
};

// Row i of the weights of a head is what the values e_j, one after the other, are mixed to.
class FirstLayer {
 public:
  FirstLayer(Context& context, const Model& model, const Batch& batch) : context_(context), config_(model.config()) {
    FirstProjection projection(3 * config_.width);
    Tape tape(context, {.record = false, .observer = &projection});
    model.forward(tape, batch);
    if (!projection.qkv.defined())
      fail(ErrorCode::unsupported, "the first layer makes no q, k and v in one product", config_.layers[0]);
    const std::int64_t heads = config_.heads, n = projection.qkv.dim(0) * projection.qkv.dim(1);
    const Tensor all = projection.qkv.reshape({1, n, 3 * heads, config_.width / heads});
    q_ = all.slice(2, 0, heads);
    k_ = all.slice(2, heads, 2 * heads);
  }

  std::int64_t length() const { return q_.dim(1); }

  // Of all heads, (n, n) each, one after the other.
  std::vector<std::vector<double>> weights() const {
    const std::int64_t n = length(), heads = config_.heads, d = config_.width / heads;
    std::vector<std::vector<double>> maps(static_cast<std::size_t>(heads),
                                          std::vector<double>(static_cast<std::size_t>(n * n)));
    for (std::int64_t first = 0; first < n; first += d) {
      const std::vector<float> mixed = mix(units(first));
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t h = 0; h < heads; ++h)
          for (std::int64_t j = first; j < std::min(n, first + d); ++j)
            maps[static_cast<std::size_t>(h)][static_cast<std::size_t>(i * n + j)] =
                mixed[static_cast<std::size_t>((i * heads + h) * d + j - first)];
    }
    return maps;
  }

 private:
  // Values of which the tokens from `first` on have one channel each.
  Tensor units(std::int64_t first) const {
    const std::int64_t n = length(), heads = config_.heads, d = config_.width / heads;
    std::vector<float> values(static_cast<std::size_t>(n * heads * d), 0.0f);
    for (std::int64_t j = first; j < std::min(n, first + d); ++j)
      for (std::int64_t h = 0; h < heads; ++h) values[static_cast<std::size_t>((j * heads + h) * d + j - first)] = 1.0f;
    return Tensor::from<float>(context_, {1, n, heads, d}, values);
  }

  std::vector<float> mix(const Tensor& values) const {
    Tape tape(context_, {.record = false});
    AttentionOptions options;
    options.causal = config_.causal;
    options.layers = std::ssize(config_.layers);
    if (config_.positions == Positions::rope)
      options.rotary = Rotary{.base = config_.rope_base, .halves = config_.rope_pairs == RopePairs::halves};
    const Mechanism mechanism = Mechanism::parse(config_.layers[0]);
    return attention(tape, Var(q_), Var(k_), Var(values), mechanism, options).output.value().to_vector<float>();
  }

  Context& context_;
  const ModelConfig& config_;
  Tensor q_, k_;
};

}  // namespace

Outcome run_locality(const TrialCall& call) {
  Outcome outcome = run_training(call);
  const RunSettings settings = call.plan.settings(call.cell);
  const auto data = call.data.load(settings, {}, call.environment);
  ContextOptions machine = call.environment.machine;
  machine.seed = settings.train.seed;
  Context context(machine);
  const Model model = load_model(context, (Path(settings.train.out) / "best").string(), DType::f32);
  constexpr std::int64_t kExamples = 8;
  Batches batches(*data->validation, {.batch_size = 1, .shuffle = false, .limit = kExamples});
  LocalityProfile profile;
  while (!batches.epoch_done()) {
    const FirstLayer layer(context, model, batches.next(context));
    for (const std::vector<double>& map : layer.weights()) profile.add(map, layer.length());
  }
  for (const int percent : {5, 10, 20, 40, 60, 80})
    outcome.set("mass_" + std::to_string(percent), profile.mass(0.01 * percent));
  return outcome;
}

}  // namespace fovea
