#include "nn/series.h"

#include <fmt/format.h>

#include <cmath>

#include "core/wide.h"

namespace fovea::nn {
namespace {

constexpr std::int64_t kTaps = 3;

EmbeddingSpec spec_of(const StackSpec& spec) {
  return {.width = spec.width,
          .max_length = spec.max_length,
          .positions = spec.positions,
          .dropout = spec.dropout,
          .dtype = spec.dtype};
}

StackConfig with_batch_norm(StackConfig config) {
  config.norm = StackNorm::batch;
  config.norm_affine = true;
  return config;
}

}  // namespace

void check_series(const Tensor& series, const char* name, std::int64_t rows, std::int64_t features) {
  const bool fits = series.defined() && series.rank() == 3 && series.dtype() == DType::f32 && series.dim(1) == rows &&
                    series.dim(2) == features;
  if (!fits)
    fail(ErrorCode::shape,
         fmt::format(
             "must be f32 of shape (batch, {}, {}), got {}", rows, features,
             series.defined() ? fmt::format("{} {}", name_of(series.dtype()), series.shape().text()) : "nothing"),
         name, "the sizes of model.series");
}

SeriesConv::SeriesConv(const Scope& scope, std::int64_t in, std::int64_t out)
    : weight_(
          scope.add("weight", {kTaps, in, out}, Init::normal(std::sqrt(2.0 / static_cast<double>(kTaps * in))), true)),
      bias_(scope.add("bias", {out}, Init::zeros())) {}

SeriesEmbedding::SeriesEmbedding(const Scope& scope, const StackSpec& spec, const SeriesConfig& series)
    : spec_(spec_of(spec)),
      channels_(series.channels),
      features_(series.marks),
      values_(scope / "values", series.channels, spec.width),
      positions_(scope, spec_) {
  if (features_ > 0) marks_.emplace(scope / "marks", features_, spec.width, Linear::Options{.bias = false});
}

Source SeriesEmbedding::operator()(Tape& tape, const Input& input) const {
  const Context& context = tape.context();
  check_series(input.values, "values", spec_.max_length, channels_);
  const DType wide = wide_type(spec_.dtype);
  Var x = values_(tape, input.values.to(context, wide));
  if (marks_) {
    check_series(input.marks, "marks", spec_.max_length, features_);
    x = add(tape, x, (*marks_)(tape, input.marks.to(context, wide)));
  }
  const auto layout = full_layout(context, x.dim(0), x.dim(1));
  x = dropout(tape, positions_(tape, x, *layout), spec_.dropout);
  return {cast(tape, x, spec_.dtype), layout};
}

DistilLayer::DistilLayer(const Scope& scope, const StackConfig& config)
    : conv_(scope / "conv", config.width, config.width), norm_(scope / "norm", with_batch_norm(config)) {}

Source DistilLayer::operator()(Tape& tape, const Source& x) const {
  const Var rows = activate(tape, norm_(tape, conv_(tape, x.rows), *x.layout), Activation::elu);
  const Var half = max_pool1d(tape, rows, {.size = kTaps, .stride = 2, .before = 1, .after = 1}).value;
  return {half, full_layout(tape.context(), half.dim(0), half.dim(1))};
}

}  // namespace fovea::nn
