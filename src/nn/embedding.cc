#include "nn/embedding.h"

#include <cmath>

#include "core/wide.h"

namespace fovea::nn {
namespace {

// The same positions, so many rows further down the table.
Tensor shifted(const Context& context, const Tensor& positions, std::int64_t offset) {
  if (offset == 0) return positions;
  const Tensor out = Tensor::empty(context, positions.shape(), DType::i32);
  for (std::int64_t i = 0; i < positions.numel(); ++i)
    out.data<std::int32_t>()[i] = positions.data<std::int32_t>()[i] + static_cast<std::int32_t>(offset);
  return out;
}

}  // namespace

EmbeddingSpec EmbeddingSpec::of(const ModelConfig& config) {
  return {.vocabulary = config.vocabulary,
          .width = config.width,
          .max_length = config.max_length,
          .types = config.types,
          .offset = config.position_offset,
          .front = config.pooling == Pooling::cls &&
                   (config.task == Task::classify || config.task == Task::match || config.task == Task::image_text),
          .positions = config.positions,
          .scale = config.embedding_scale,
          .dropout = config.dropout,
          .dtype = config.dtype};
}

Tensor sinusoids(const Context& context, std::int64_t rows, std::int64_t width, DType dtype) {
  const Tensor exact = Tensor::empty(context, {rows, width}, DType::f64);
  double* values = exact.data<double>();
  for (std::int64_t c = 0; c < width; ++c) {
    const double w = std::pow(10000.0, -static_cast<double>(c - c % 2) / static_cast<double>(width));
    for (std::int64_t p = 0; p < rows; ++p) {
      const double angle = static_cast<double>(p) * w;
      values[p * width + c] = c % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  const Tensor table = Tensor::empty(context, {rows, width}, dtype, Lifetime::persistent);
  table.copy_from(exact);
  return table;
}

PositionTable::PositionTable(const Scope& scope, const EmbeddingSpec& spec) : offset_(spec.offset) {
  const std::int64_t rows = spec.max_length + (spec.front ? 1 : 0) + spec.offset;
  if (spec.positions == Positions::learned)
    table_ = scope.add("positions", {rows, spec.width}, Init::normal(kEmbeddingDeviation));
  else if (spec.positions == Positions::sinusoidal)
    table_ = sinusoids(scope.context(), rows, spec.width, wide_type(spec.dtype));
}

Var PositionTable::operator()(Tape& tape, const Var& x, const Tensor& positions) const {
  if (!table_.defined()) return x;
  return add(tape, x, embedding(tape, table_, shifted(tape.context(), positions, offset_)));
}

Embedding::Embedding(const Scope& scope, const ModelConfig& config, const EmbeddingSpec& spec, Var tokens)
    : spec_(spec),
      tokens_(tokens.defined() ? std::move(tokens)
                               : scope.add("tokens", {spec.vocabulary + (spec.front ? 1 : 0), spec.width},
                                           Init::normal(kEmbeddingDeviation))),
      types_(spec.types > 0 ? scope.add("types", {spec.types, spec.width}, Init::normal(kEmbeddingDeviation)) : Var()),
      positions_(scope, spec) {
  if (config.embedding_norm) norm_.emplace(scope / "norm", config);
}

Var Embedding::operator()(Tape& tape, const Arranged& batch) const {
  const Tape::Stay stay = tape.enter("embedding");
  Var x = embedding(tape, tokens_, batch.ids);
  if (spec_.scale != 1.0) x = scale(tape, x, spec_.scale);
  if (types_.defined()) {
    const Tensor types =
        batch.types.defined() ? batch.types : Tensor::zeros(tape.context(), batch.ids.shape(), DType::i32);
    x = add(tape, x, embedding(tape, types_, types));
  }
  x = positions_(tape, x, batch.layout->positions);
  if (norm_) x = (*norm_)(tape, x, *batch.layout);
  return cast(tape, dropout(tape, x, spec_.dropout), spec_.dtype);
}

}  // namespace fovea::nn
