#include "core/wide.h"
#include "models/network.h"
#include "nn/graph_memory.h"
#include "nn/reversible_norm.h"
#include "nn/series.h"
#include "nn/stack.h"

namespace fovea {
namespace {

// What forecasters have in common: numbers in, numbers out.
class ForecastNetwork : public Network {
 public:
  explicit ForecastNetwork(const SeriesConfig& series) : series_(series) {}

  void share_rows(const nn::RowSharers& sharers) override {
    if (sharers.ranks.size() > 1)
      fail(ErrorCode::unsupported, "forecasters do not divide their series among ranks",
           "support matrix: forecast x sequence", "a mesh of the axes data and tensor");
  }

  Loss loss(Tape& tape, const Batch& batch, const LossOptions&) const override {
    nn::check_series(batch.targets, "batch.targets", series_.horizon, series_.channels);
    const Var forecast = forward(tape, batch);
    if (forecast.dim(0) != batch.targets.dim(0))
      fail(ErrorCode::shape, "every series needs the rows that follow on it", "batch.targets");
    return report_of_numbers(tape, forecast, batch.targets);
  }

 protected:
  SeriesConfig series_;
};

// An encoder that halves its rows between layers, and a decoder that gives all rows at once: it reads the last known
// ones again, then zeros in the places of those to come.
class Informer final : public ForecastNetwork {
 public:
  Informer(const nn::Scope& root, const ModelConfig& config)
      : Informer(root, config, stack_spec(config, config, config.series->length),
                 stack_spec(config, *config.decoder, config.series->label + config.series->horizon)) {}

  Var forward(Tape& tape, const Batch& batch) const override {
    const nn::Source source = encode(tape, batch.input);
    return tape.at("decoder", [&] {
      const nn::Source in = tape.at("batch", [&] { return decoder_embedding_(tape, batch.second); });
      if (in.rows.dim(0) != source.rows.dim(0))
        fail(ErrorCode::shape, "every series needs what its decoder reads", "batch.second");
      const Var out = decoder_(tape, in.rows, in.layout, source);
      const Var last = slice(tape, out, 1, series_.label, series_.label + series_.horizon);
      return head_(tape, cast(tape, last, wide_));
    });
  }

  Var features(Tape& tape, const Input& input) const override {
    const nn::Source source = encode(tape, input);
    return cast(tape, mean_pool(tape, source.rows, source.layout->rows), wide_);
  }

 private:
  Informer(const nn::Scope& root, const ModelConfig& config, const StackSpec& encoder, const StackSpec& decoder)
      : ForecastNetwork(*config.series),
        wide_(wide_type(config.dtype)),
        encoder_embedding_(root / "encoder" / "embedding", encoder, series_),
        encoder_(root / "encoder", encoder),
        decoder_embedding_(root / "decoder" / "embedding", decoder, series_),
        decoder_(root / "decoder", with_source(decoder, encoder.width)),
        head_(root / "head", decoder.width, series_.channels) {
    for (std::size_t i = 0; series_.distil && i + 1 < encoder_.size(); ++i)
      distil_.emplace_back(root / "encoder" / "distil" / static_cast<std::int64_t>(i), encoder);
  }

  static StackSpec with_source(StackSpec spec, std::int64_t width) {
    spec.source_width = width;
    return spec;
  }

  nn::Source encode(Tape& tape, const Input& input) const {
    return tape.at("encoder", [&] {
      const nn::Source in = tape.at("batch", [&] { return encoder_embedding_(tape, input); });
      nn::Stack::Between halve;
      if (!distil_.empty())
        halve = [&](Tape& t, const nn::Source& x, std::size_t block) { return distil_[block](t, x); };
      return encoder_.run(tape, in, {}, halve);
    });
  }

  DType wide_;
  nn::SeriesEmbedding encoder_embedding_;
  nn::Stack encoder_;
  nn::SeriesEmbedding decoder_embedding_;
  nn::Stack decoder_;
  nn::Linear head_;
  std::vector<nn::DistilLayer> distil_;  // after every layer of the encoder but the last
};

nn::EmbeddingSpec patch_positions(const StackSpec& spec) {
  return {.width = spec.width, .max_length = spec.max_length, .positions = spec.positions, .dtype = spec.dtype};
}

// Every channel is a series by itself: normed, cut into patches that learn from those of other channels and from a
// memory, and encoded. All rows to come are made of all patches at once.
class Memformer final : public ForecastNetwork {
 public:
  Memformer(const nn::Scope& root, const ModelConfig& config)
      : Memformer(root, config, stack_spec(config, config, config.series->patches())) {}

  Var forward(Tape& tape, const Batch& batch) const override {
    const Tensor& values = batch.input.values;
    nn::check_series(values, "batch.input.values", series_.length, series_.channels);
    const std::int64_t b = values.dim(0), channels = series_.channels;
    const ChannelMoments statistics = norm_.measure(tape.context(), values);
    const Var x = encode(tape, norm_.normalize(tape, values, statistics));
    const Var flat = reshape(tape, cast(tape, x, wide_), {b, channels, x.dim(1) * x.dim(2)});
    return norm_.restore(tape, transpose(tape, head_(tape, flat), 1, 2), statistics);
  }

 private:
  Memformer(const nn::Scope& root, const ModelConfig& config, const StackSpec& spec)
      : ForecastNetwork(*config.series),
        wide_(wide_type(spec.dtype)),
        dtype_(spec.dtype),
        dropout_(spec.dropout),
        norm_(root / "norm", series_.channels),
        memory_(root / "memory", series_),
        embedding_(root / "embedding", series_.patch + series_.memory_width, spec.width),
        positions_(root / "embedding", patch_positions(spec)),
        stack_(root, spec),
        head_(root / "head", spec.width * series_.patches(), series_.horizon) {}

  // (b, length, channels) -> (b channels, patches, width)
  Var encode(Tape& tape, const Var& values) const {
    const std::int64_t b = values.dim(0), channels = values.dim(2), count = series_.patches();
    const Var series = reshape(tape, transpose(tape, values, 1, 2), {b * channels, series_.length, 1});
    const Sliding cut{
        .size = series_.patch, .stride = series_.stride, .after = series_.stride, .padding = EdgePadding::replicate};
    const Var patches = reshape(tape, unfold1d(tape, series, cut).value, {b, channels, count, series_.patch});
    const Var tokens =
        reshape(tape, memory_(tape, patches), {b * channels, count, series_.patch + series_.memory_width});
    const auto layout = nn::full_layout(tape.context(), b * channels, count);
    const Var x = dropout(tape, positions_(tape, embedding_(tape, tokens), *layout), dropout_);
    return stack_(tape, cast(tape, x, dtype_), layout);
  }

  DType wide_, dtype_;
  double dropout_;
  nn::ReversibleNorm norm_;
  nn::GraphMemory memory_;
  nn::Linear embedding_;
  nn::PositionTable positions_;
  nn::Stack stack_;
  nn::Linear head_;
};

}  // namespace

std::unique_ptr<Network> make_forecaster(const nn::Scope& scope, const ModelConfig& config) {
  if (config.series->kind == Forecaster::informer) return std::make_unique<Informer>(scope, config);
  return std::make_unique<Memformer>(scope, config);
}

}  // namespace fovea
