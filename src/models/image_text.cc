#include "models/network.h"

namespace fovea {
std::unique_ptr<Network> make_image_text(const nn::Scope&, const ModelConfig&) {
  fail(ErrorCode::unsupported, "not yet");
}
std::unique_ptr<Network> make_forecaster(const nn::Scope&, const ModelConfig&) {
  fail(ErrorCode::unsupported, "not yet");
}
}  // namespace fovea
