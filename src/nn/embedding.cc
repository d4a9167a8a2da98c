#include "nn/embedding.h"

#include <cmath>

#include "core/wide.h"
#include "nn/divided.h"

namespace fovea::nn {
EmbeddingSpec EmbeddingSpec::of(const ModelConfig& config) {
  return {.vocabulary = config.vocabulary,
          .width = config.width,
          .max_length = config.max_length,
          .types = config.types,
          .offset = config.position_offset,
          .front = config.pooling == Pooling::cls && (config.task == Task::classify || config.task == Task::match ||
                                                      config.task == Task::regress || config.task == Task::image_text),
          .positions = config.positions,
          .scale = config.embedding_scale,
          .dropout = config.dropout,
          .dtype = config.dtype};
}

Tensor sinusoids(const Context& context, std::int64_t rows, std::int64_t width, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(rows * width));
  for (std::int64_t c = 0; c < width; ++c) {
    const double w = std::pow(10000.0, -static_cast<double>(c - c % 2) / static_cast<double>(width));
    for (std::int64_t p = 0; p < rows; ++p) {
      const double angle = static_cast<double>(p) * w;
      values[static_cast<std::size_t>(p * width + c)] = c % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  const Tensor table = Tensor::empty(context, {rows, width}, dtype, Lifetime::persistent);
  table.copy_from(Tensor::wrap(values.data(), {rows, width}, DType::f64));
  return table;
}

PositionTable::PositionTable(const Scope& scope, const EmbeddingSpec& spec) : offset_(spec.offset) {
  const std::int64_t rows = spec.max_length + (spec.front ? 1 : 0) + spec.offset;
  if (spec.positions == Positions::learned)
    table_ = scope.add("positions", {rows, spec.width}, Init::normal(kEmbeddingDeviation));
  else if (spec.positions == Positions::sinusoidal)
    table_ = sinusoids(scope.context(), rows, spec.width, wide_type(spec.dtype));
}

RowPlaces PositionTable::places(Tape& tape, const Layout& layout) const {
  if (!table_.defined()) return {};
  RowPlaces places{offset_ == 0 ? table_ : slice(tape, table_, 0, offset_, table_.dim(0)),
                   Index(layout.positions, 0, layout.longest),
                   {}};
  if (!layout.division && layout.pasts.empty())
    places.runs = layout.rows.rows(layout.positions.dim(0), layout.positions.dim(1), "rows");
  return places;
}

Var PositionTable::operator()(Tape& tape, const Var& x, const Layout& layout) const {
  if (!table_.defined()) return x;
  const RowPlaces rows = places(tape, layout);
  return add(tape, x, embedding(tape, rows.table, rows.index));
}

Var token_table(const Scope& scope, const EmbeddingSpec& spec) {
  const std::int64_t rows = spec.vocabulary + (spec.front ? 1 : 0);
  return scope.add("tokens", {rows, spec.width}, Init::normal(kEmbeddingDeviation), false, {0, {rows}});
}

Embedding::Embedding(const Scope& scope, const ModelConfig& config, const EmbeddingSpec& spec, Var tokens)
    : spec_(spec),
      vocabulary_{scope.ranks(), spec.vocabulary + (spec.front ? 1 : 0)},
      tokens_(tokens.defined() ? std::move(tokens) : token_table(scope, spec)),
      types_(spec.types > 0 ? scope.add("types", {spec.types, spec.width}, Init::normal(kEmbeddingDeviation)) : Var()),
      positions_(scope, spec) {
  if (config.embedding_norm) norm_.emplace(scope / "norm", config);
}

std::optional<Embedding> embedding_at(const Scope& scope, const ModelConfig& config, const EmbeddingSpec& spec) {
  if (!scope.stage().first()) return {};
  return Embedding(scope / "embedding", config, spec);
}

// Tokens, types and positions, in the dtype of the tables or, where nothing is left to be done to it, in another.
Var Embedding::sum(Tape& tape, const Arranged& batch, DType dtype) const {
  if (spec_.scale == 1.0 && !types_.defined() && vocabulary_.ranks.size() == 1)
    return embedding_sum(tape, tokens_, batch.ids, positions_.places(tape, *batch.layout), dtype);
  Var x = divided::embedding(tape, tokens_, batch.ids, vocabulary_);
  if (spec_.scale != 1.0) x = scale(tape, x, spec_.scale);
  if (types_.defined()) {
    const Index types = batch.types.entries.defined()
                            ? batch.types
                            : Index(Tensor::zeros(tape.context(), batch.ids.entries.shape(), DType::i32), 0, 1);
    x = add(tape, x, embedding(tape, types_, types));
  }
  return positions_(tape, x, *batch.layout);
}

Var Embedding::operator()(Tape& tape, const Arranged& batch) const {
  const Tape::Stay stay = tape.enter("embedding");
  const bool stays = !norm_ && !(tape.training() && spec_.dropout > 0.0);
  Var x = sum(tape, batch, stays ? spec_.dtype : tokens_.dtype());
  if (norm_) x = (*norm_)(tape, x, *batch.layout);
  return cast(tape, dropout(tape, x, spec_.dropout, *batch.layout), spec_.dtype);
}

}  // namespace fovea::nn
