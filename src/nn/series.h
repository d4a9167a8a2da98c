#pragma once

#include "nn/embedding.h"

namespace fovea::nn {

// f32 (b, rows, features), rows of every item; throws otherwise. `name` is the field: "values".
void check_series(const Tensor& series, const char* name, std::int64_t rows, std::int64_t features);

// A convolution over three neighbouring rows; before the first row stands the last one.
class SeriesConv {
 public:
  SeriesConv(const Scope& scope, std::int64_t in, std::int64_t out);

  Var operator()(Tape& tape, const Var& x) const {  // (b, n, in) -> (b, n, out)
    return conv1d(tape, x, weight_, bias_, {.padding = EdgePadding::circular});
  }

 private:
  Var weight_, bias_;  // (3, in, out), (out)
};

// Measurements -> a convolution, a product of the marks of their time, positions.
class SeriesEmbedding {
 public:
  // `spec.max_length` rows, all of which are read.
  SeriesEmbedding(const Scope& scope, const StackSpec& spec, const SeriesConfig& series);

  Source operator()(Tape& tape, const Input& input) const;  // (b, n, width), in the dtype of activations

 private:
  EmbeddingSpec spec_;
  std::int64_t channels_, features_;
  SeriesConv values_;
  std::optional<Linear> marks_;
  PositionTable positions_;
};

// Half as many rows, rounded up: a convolution, batch norm and ELU, then the largest of three rows around every second.
class DistilLayer {
 public:
  DistilLayer(const Scope& scope, const StackConfig& config);

  Source operator()(Tape& tape, const Source& x) const;

 private:
  SeriesConv conv_;
  NormLayer norm_;
};

}  // namespace fovea::nn
