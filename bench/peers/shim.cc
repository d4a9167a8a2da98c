// The C functions through which the race (race.py) runs what the Python package does not offer: the product that tells
// a quiet machine from a busy one, and single training steps whose parameters PyTorch's model begins from.
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "fovea/model.h"
#include "fovea/ops.h"
#include "fovea/optim.h"
#include "gemm/rate.h"

namespace fovea::peers {
namespace {

thread_local std::string last_error;

// Runs body; what it throws becomes the text of fovea_error().
template <class Body>
bool guarded(Body&& body) {
  try {
    body();
    return true;
  } catch (const std::exception& e) {
    last_error = e.what();
    return false;
  }
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

// One training step of a preset on a batch of equally long sequences; race.py has the same struct.
struct TrainSpec {
  const char* preset;
  std::int64_t batch, n, vocabulary, classes;
  double dropout, attention_dropout;
  double rate, weight_decay;
  std::int32_t *ids, *targets;  // (batch, n), (batch)
};

class TrainWork {
 public:
  TrainWork(Context& context, const TrainSpec& spec)
      : context_(context),
        rate_(spec.rate),
        model_(context, config_of(spec)),
        optimizer_(context, model_.parameters(), {.weight_decay = spec.weight_decay}),
        ids_(Tensor::wrap(spec.ids, {1, spec.batch * spec.n}, DType::i32)),
        targets_(Tensor::wrap(spec.targets, {spec.batch}, DType::i32)) {
    for (std::int64_t s = 0; s <= spec.batch; ++s) rows_.cu_seqlens.push_back(static_cast<std::int32_t>(s * spec.n));
  }

  const std::vector<Parameter>& parameters() const { return model_.parameters(); }

  // Gradients stay in the parameters until update().
  double loss() {
    Tape tape(context_, {.training = true, .stream = steps_++ << 20});
    const Var loss = cross_entropy(tape, model_.forward(tape, ids_, rows_), targets_);
    const double value = loss.value().item();
    tape.backward(loss);
    return value;
  }
  void update() { optimizer_.step(rate_); }

  double run() {
    const auto start = Clock::now();
    loss();
    update();
    return seconds_since(start);
  }

 private:
  static ModelConfig config_of(const TrainSpec& spec) {
    ModelConfig config = ModelConfig::preset(spec.preset);
    config.vocabulary = spec.vocabulary;
    config.classes = spec.classes;
    config.max_length = spec.n;
    config.dropout = config.inner_dropout = spec.dropout;
    config.attention_dropout = spec.attention_dropout;
    return config;
  }

  Context& context_;
  double rate_;
  Model model_;
  AdamW optimizer_;
  Tensor ids_, targets_;
  Sequences rows_;
  std::uint64_t steps_ = 0;
};

// A parameter as the caller sees it: its memory, and whether weight decay applies.
struct ParameterView {
  const char* name;
  float *data, *grad;  // grad is null before loss() and after update()
  std::int64_t numel;
  std::int32_t decay;
};

}  // namespace fovea::peers

using fovea::Context;
namespace peers = fovea::peers;

// Functions that can fail return null, a negative number of seconds or false; fovea_error() then says why.
extern "C" {

FOVEA_EXPORT const char* fovea_error() { return peers::last_error.c_str(); }

FOVEA_EXPORT Context* fovea_context_new(std::int32_t threads) {
  Context* context = nullptr;
  peers::guarded([&] { context = new Context({.threads = threads}); });
  return context;
}
FOVEA_EXPORT void fovea_context_free(Context* context) { delete context; }

// Floating-point operations per second of sgemm 2048^3.
FOVEA_EXPORT double fovea_anchor(Context* context) {
  double rate = -1.0;
  peers::guarded([&] { rate = fovea::gemm::gemm_rate(*context); });
  return rate;
}

FOVEA_EXPORT peers::TrainWork* fovea_train_new(Context* context, const peers::TrainSpec* spec) {
  peers::TrainWork* work = nullptr;
  peers::guarded([&] { work = new peers::TrainWork(*context, *spec); });
  return work;
}
FOVEA_EXPORT void fovea_train_free(peers::TrainWork* work) { delete work; }
FOVEA_EXPORT std::int64_t fovea_train_parameters(const peers::TrainWork* work) {
  return static_cast<std::int64_t>(work->parameters().size());
}
FOVEA_EXPORT peers::ParameterView fovea_train_parameter(const peers::TrainWork* work, std::int64_t index) {
  const fovea::Parameter& p = work->parameters()[static_cast<std::size_t>(index)];
  const fovea::Tensor& grad = p.var.grad();
  return {p.name.c_str(), p.var.value().data<float>(), grad.defined() ? grad.data<float>() : nullptr,
          p.var.value().numel(), p.decay};
}
FOVEA_EXPORT bool fovea_train_loss(peers::TrainWork* work, double* loss) {
  return peers::guarded([&] { *loss = work->loss(); });
}
FOVEA_EXPORT bool fovea_train_update(peers::TrainWork* work) {
  return peers::guarded([&] { work->update(); });
}
FOVEA_EXPORT double fovea_train_run(peers::TrainWork* work) {
  double seconds = -1.0;
  peers::guarded([&] { seconds = work->run(); });
  return seconds;
}
}
