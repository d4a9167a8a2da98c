#include "nn/vision.h"

#include <fmt/format.h>

#include "core/wide.h"
#include "nn/divided.h"

namespace fovea::nn {
namespace {

EmbeddingSpec spec_of(const ModelConfig& config, const StackSpec& spec, bool front) {
  return {.width = spec.width,
          .max_length = config.image->patches(),
          .front = front,
          .positions = spec.positions,
          .dropout = spec.dropout,
          .dtype = spec.dtype};
}

void check_pictures(const ImageConfig& image, const Tensor& pictures) {
  if (!pictures.defined() || pictures.rank() != 4 || pictures.dtype() != DType::f32)
    fail(ErrorCode::shape, "pictures must be f32 of shape (batch, height, width, channels)", "values");
  if (pictures.dim(1) != image.height || pictures.dim(2) != image.width || pictures.dim(3) != image.channels)
    fail(ErrorCode::shape,
         fmt::format("pictures of {} x {} with {} channels, but the model reads {} x {} with {}", pictures.dim(1),
                     pictures.dim(2), pictures.dim(3), image.height, image.width, image.channels),
         "values");
}

}  // namespace

VisionStack::VisionStack(const Scope& scope, const ModelConfig& config, const StackSpec& spec, bool front)
    : image_(*config.image),
      spec_(spec_of(config, spec, front)),
      patches_(scope / "embedding" / "patches", image_.patch * image_.patch * image_.channels, spec.width,
               Linear::Options{.deviation = spec.init_deviation}),
      front_(front ? (scope / "embedding").add("front", {1, spec.width}, Init::normal(kEmbeddingDeviation)) : Var()),
      positions_(scope / "embedding", spec_),
      stack_(scope, spec) {}

Source VisionStack::operator()(Tape& tape, const Tensor& pictures, const RowSharers& sharers) const {
  tape.at("batch", [&] { check_pictures(image_, pictures); });
  const Context& context = tape.context();
  const Tensor cut = patches(tape, pictures.contiguous(context), image_.patch).value();
  Var x = patches_(tape, Var(cut.to(context, wide_type(spec_.dtype))));
  const std::int64_t b = x.dim(0);
  if (front_.defined()) {
    const std::vector<Var> parts = {embedding(tape, front_, Index(Tensor::zeros(context, {b, 1}, DType::i32), 0, 1)),
                                    x};
    x = concat(tape, parts, 1);
  }
  const auto layout = share_rows(context, full_layout(context, b, x.dim(1)), b, x.dim(1), sharers);
  x = positions_(tape, own(tape, x, *layout), *layout);
  x = cast(tape, dropout(tape, x, spec_.dropout, *layout), spec_.dtype);
  return {stack_(tape, x, layout), layout};
}

}  // namespace fovea::nn
