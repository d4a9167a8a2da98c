#include "nn/vision.h"
#include "core/wide.h"
#include "models/network.h"
#include "nn/divided.h"
#include "nn/output.h"

namespace fovea {
namespace {

// Patches -> stack -> one vector -> classes.
class Vision final : public Network {
 public:
  Vision(const nn::Scope& root, const ModelConfig& config)
      : pooling_(config.pooling),
        wide_(wide_type(config.dtype)),
        stack_(root, config, config, config.pooling == Pooling::cls),
        classifier_(root / "classifier", config, config.width) {}

  Var features(Tape& tape, const Input& input) const override {
    const nn::Source out = stack_(tape, input.values, sharers());
    return cast(tape, nn::pool(tape, out.rows, *out.layout, pooling_), wide_);
  }
  Var forward(Tape& tape, const Batch& batch) const override { return classifier_(tape, features(tape, batch.input)); }

 private:
  Pooling pooling_;
  DType wide_;
  nn::VisionStack stack_;
  nn::Classifier classifier_;
};

}  // namespace

std::unique_ptr<Network> make_vision(const nn::Scope& scope, const ModelConfig& config) {
  return std::make_unique<Vision>(scope, config);
}

}  // namespace fovea
