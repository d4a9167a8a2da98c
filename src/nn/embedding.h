#pragma once

#include <optional>
#include <vector>

#include "nn/layers.h"
#include "nn/layout.h"
#include "nn/norm_layer.h"
#include "ops/embedding.h"
#include "parallel/vocabulary.h"

namespace fovea::nn {

inline constexpr double kEmbeddingDeviation = 0.02;  // of tables as they begin

// What decides how tokens become vectors.
struct EmbeddingSpec {
  std::int64_t vocabulary = 0, width = 0, max_length = 0;
  std::int64_t types = 0;   // kinds of tokens that have a vector of their own
  std::int64_t offset = 0;  // rows of a learned position table before position 0
  bool front = false;       // a token of the model's own, id `vocabulary`, before every sequence
  Positions positions = Positions::none;
  double scale = 1.0, dropout = 0.0;
  DType dtype = DType::f32;

  bool has_table() const { return positions == Positions::learned || positions == Positions::sinusoidal; }
  static EmbeddingSpec of(const ModelConfig& config);
};

// A batch of tokens as a stack reads it: checked, with the model's own token where there is one, and with id 0 in all
// padding.
struct Arranged {
  Index ids, types;  // (b, n); types may be undefined
  std::shared_ptr<const Layout> layout;
};
// Here ids leave the host, where a batch has them: the one place that looks at each of them. `pasts`: empty, or for
// each sequence what it follows on.
Arranged arrange(const Context& context, const EmbeddingSpec& spec, const Input& input,
                 const std::vector<Past*>& pasts = {}, const RowSharers& sharers = {});

// Row p: sin(p w_m) and cos(p w_m) in turn, w_m = 10000^(-2m / width); an odd last column has the sine only.
Tensor sinusoids(const Context& context, std::int64_t rows, std::int64_t width, DType dtype);

// Vectors of positions that are added to the rows of a stack: learned, sinusoidal or none at all.
class PositionTable {
 public:
  PositionTable(const Scope& scope, const EmbeddingSpec& spec);

  Var operator()(Tape& tape, const Var& x, const Layout& layout) const;  // x plus the vectors
  RowPlaces places(Tape& tape, const Layout& layout) const;

 private:
  std::int64_t offset_;
  Var table_;
};

// The vectors of tokens, (vocabulary, width) of all ranks.
Var token_table(const Scope& scope, const EmbeddingSpec& spec);

// Token, type and position vectors, and a norm where the model has one.
class Embedding {
 public:
  // `tokens`: the table of another embedding to share; undefined: one of its own.
  Embedding(const Scope& scope, const ModelConfig& config, const EmbeddingSpec& spec, Var tokens = {});

  const EmbeddingSpec& spec() const { return spec_; }
  const Var& tokens() const { return tokens_; }  // (vocabulary, width): of this rank
  // (b, n, width), in the dtype of activations
  Var operator()(Tape& tape, const Arranged& batch) const;

 private:
  Var sum(Tape& tape, const Arranged& batch, DType dtype) const;

  EmbeddingSpec spec_;
  divided::Vocabulary vocabulary_;
  Var tokens_, types_;
  PositionTable positions_;
  std::optional<NormLayer> norm_;
};

// That of a model, where the scope's stage has what comes before the layers.
std::optional<Embedding> embedding_at(const Scope& scope, const ModelConfig& config, const EmbeddingSpec& spec);

}  // namespace fovea::nn
