#include <algorithm>
#include <cmath>

#include "fovea/inspect.h"
#include "inspect/without_heads.h"

namespace fovea {
namespace {

constexpr double kTinyNorm = 1e-20;

// Sums of o dL/do of every head, by layer and sequence.
struct GateSums {
  std::vector<std::vector<double>> of;  // (layers), by head: the mean over sequences of |sum|
};

struct Gate {
  GateSums* sums;
  std::size_t layer;
  std::vector<Sequences::Rows> rows;
};

// dL / dgate of a gate of 1 on the output of each head; the gradient goes on as it is.
void gate_backward(Tape& tape, Node& node) {
  const auto& gate = std::any_cast<const Gate&>(node.attributes);
  const std::int64_t heads = node.saved[0].dim(2);
  std::vector<double>& sums = gate.sums->of[gate.layer];
  sums.assign(static_cast<std::size_t>(heads), 0.0);
  for (const Sequences::Rows& rows : gate.rows)
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto part = [&](const Tensor& x) {
        return x.select(0, rows.batch).slice(0, rows.begin, rows.begin + rows.count).select(1, h).to_vector<double>();
      };
      const std::vector<double> o = part(node.saved[0]), g = part(node.grad());
      double sum = 0.0;
      for (std::size_t i = 0; i < o.size(); ++i) sum += o[i] * g[i];
      sums[static_cast<std::size_t>(h)] += std::abs(sum) / static_cast<double>(gate.rows.size());
    }
  tape.accumulate(node.inputs[0], node.grad());
}

constexpr Op kGate{"gate_heads", gate_backward};

class Gates final : public AttentionWatch {
 public:
  Var on_attention(const Call& call, const Var& output) override {
    const std::size_t layer = layers.of(call.tape);
    sums.of.resize(layers.places.size());
    if (sums.of[layer].empty()) sums.of[layer].resize(static_cast<std::size_t>(output.dim(2)), 0.0);
    return call.tape.record(kGate, {output}, output.value(), {output.value()}, Gate{&sums, layer, call.queries});
  }

  inspection::LayerNumbers layers;
  GateSums sums;
};

// What the gradients of a model hold, put back in the end.
class KeptGradients {
 public:
  explicit KeptGradients(const Model& model, const Context& context) : model_(model) {
    for (const Parameter& parameter : model.parameters()) {
      const Tensor grad = parameter.trained() ? parameter.var.grad() : Tensor();
      kept_.push_back(grad.defined() ? grad.clone(context, Lifetime::persistent) : Tensor());
    }
  }
  ~KeptGradients() {
    std::size_t i = 0;
    for (const Parameter& parameter : model_.parameters()) {
      if (parameter.trained()) parameter.var.slot()->grad = kept_[i];
      ++i;
    }
  }
  KeptGradients(const KeptGradients&) = delete;
  KeptGradients& operator=(const KeptGradients&) = delete;

 private:
  const Model& model_;
  std::vector<Tensor> kept_;
};

double loss_without(Context& context, const Model& model, const Batch& batch,
                    std::vector<inspection::HeadPlace> heads) {
  const inspection::WithoutHeads without(std::move(heads));
  Tape tape(context, {.record = false});
  return model.loss(tape, batch).value.value().item();
}

}  // namespace

std::vector<HeadImportance> head_importance(Context& context, const Model& model, const Batch& batch, bool ablation) {
  const KeptGradients kept(model, context);
  Gates gates;
  {
    Tape tape(context);
    const Loss loss = model.loss(tape, batch);
    tape.backward(loss.value);
  }
  std::vector<HeadImportance> out;
  for (std::size_t layer = 0; layer < gates.sums.of.size(); ++layer) {
    const std::vector<double>& sums = gates.sums.of[layer];
    double squares = 0.0;
    for (const double sum : sums) squares += sum * sum;
    for (std::size_t h = 0; h < sums.size(); ++h)
      out.push_back({.place = gates.layers.places[layer],
                     .layer = static_cast<std::int64_t>(layer),
                     .head = static_cast<std::int64_t>(h),
                     .by_gradient = sums[h] / (std::sqrt(squares) + kTinyNorm)});
  }
  if (!ablation) return out;
  const double whole = loss_without(context, model, batch, {});
  for (HeadImportance& head : out) {
    const inspection::HeadPlace place{static_cast<std::size_t>(head.layer), head.head};
    head.by_ablation = loss_without(context, model, batch, {place}) - whole;
  }
  return out;
}

}  // namespace fovea
