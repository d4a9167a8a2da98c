// The C functions through which the race (race.py) runs fovea inside the process that runs PyTorch. They call the
// public interface on memory of the caller and time it here, so that neither side pays for Python.
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "fovea/attention.h"
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

// A value whose gradient is wanted, taken over by the first contribution: PyTorch's autograd.grad copies none either.
Var wanted(const Tensor& value) {
  auto slot = std::make_shared<Slot>();
  slot->shape = value.shape();
  slot->dtype = value.dtype();
  return {value, std::move(slot)};
}

}  // namespace

enum Pass : std::int32_t { kForward, kBackward, kBoth };

// One attention problem on the caller's memory; race.py has the same struct. All arrays are dense f32.
struct AttentionSpec {
  const char* mechanism;
  std::int64_t batch, n, heads, dim;
  std::int32_t causal;
  std::int64_t window_left;  // keys before the query, none after it; -1: no window
  float *q, *k, *v, *grad;   // (batch, n, heads, dim)
  float* bias;               // (1, heads, n, n), or null
};

struct Gradients {
  float *output, *q, *k, *v, *bias;  // shaped like what they belong to; bias may be null
};

class AttentionWork {
 public:
  AttentionWork(Context& context, const AttentionSpec& spec)
      : context_(context), mechanism_(Mechanism::parse(spec.mechanism)) {
    const Shape shape{spec.batch, spec.n, spec.heads, spec.dim};
    q_ = Tensor::wrap(spec.q, shape, DType::f32);
    k_ = Tensor::wrap(spec.k, shape, DType::f32);
    v_ = Tensor::wrap(spec.v, shape, DType::f32);
    grad_ = Tensor::wrap(spec.grad, shape, DType::f32);
    if (spec.bias != nullptr) bias_ = Tensor::wrap(spec.bias, {1, spec.heads, spec.n, spec.n}, DType::f32);
    options_.causal = spec.causal != 0;
    if (spec.window_left >= 0) options_.window = Window{spec.window_left, 0};
  }

  double run(Pass pass) const {
    auto start = Clock::now();
    Tape tape(context_, {.record = pass != kForward});
    const Call call = forward(tape);
    if (pass == kForward) return seconds_since(start);
    if (pass == kBackward) start = Clock::now();
    tape.backward(call.output, grad_);
    return seconds_since(start);
  }

  void results(const Gradients& to) const {
    Tape tape(context_);
    const Call call = forward(tape);
    tape.backward(call.output, grad_);
    const auto copy = [](float* data, const Tensor& from) {
      if (data != nullptr) Tensor::wrap(data, from.shape(), DType::f32).copy_from(from);
    };
    copy(to.output, call.output.value());
    copy(to.q, call.q.grad());
    copy(to.k, call.k.grad());
    copy(to.v, call.v.grad());
    if (bias_.defined()) copy(to.bias, call.bias.grad());
  }

 private:
  struct Call {
    Var q, k, v, bias, output;
  };
  Call forward(Tape& tape) const {
    const auto input = [&](const Tensor& value) { return tape.recording() ? wanted(value) : Var(value); };
    Call call{input(q_), input(k_), input(v_), bias_.defined() ? input(bias_) : Var(), {}};
    AttentionOptions options = options_;
    options.bias = call.bias;
    call.output = attention(tape, call.q, call.k, call.v, mechanism_, options).output;
    return call;
  }

  Context& context_;
  Mechanism mechanism_;
  AttentionOptions options_;
  Tensor q_, k_, v_, grad_, bias_;
};

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

FOVEA_EXPORT peers::AttentionWork* fovea_attention_new(Context* context, const peers::AttentionSpec* spec) {
  peers::AttentionWork* work = nullptr;
  peers::guarded([&] { work = new peers::AttentionWork(*context, *spec); });
  return work;
}
FOVEA_EXPORT void fovea_attention_free(peers::AttentionWork* work) { delete work; }
FOVEA_EXPORT double fovea_attention_run(peers::AttentionWork* work, std::int32_t pass) {
  double seconds = -1.0;
  peers::guarded([&] { seconds = work->run(static_cast<peers::Pass>(pass)); });
  return seconds;
}
FOVEA_EXPORT bool fovea_attention_results(peers::AttentionWork* work, const peers::Gradients* to) {
  return peers::guarded([&] { work->results(*to); });
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
