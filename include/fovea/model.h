#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/autograd.h"
#include "fovea/export.h"
#include "fovea/ops.h"
#include "fovea/sequences.h"

namespace fovea {

class FieldVisitor;

enum class NormPlacement : std::uint8_t { pre, post };
enum class FeedForward : std::uint8_t { ffn, glu };
// The first three enter with the tokens, the others in every attention layer: rope, alibi and t5 in mechanisms that
// have the feature (rotary, alibi, bias); shaw and xl in place of softmax.
enum class Positions : std::uint8_t { none, sinusoidal, learned, rope, alibi, t5, shaw, xl };

struct PositionKind {
  std::string_view name, summary, paper;
};
FOVEA_EXPORT std::span<const PositionKind> position_kinds();  // in the order of Positions

enum class Pooling : std::uint8_t { mean, cls };

// Everything that decides the shape of a sequence classifier. The same names are used in JSON, after --set model.
// and in config.json of a checkpoint.
struct FOVEA_EXPORT ModelConfig {
  std::int64_t vocabulary = 0;  // token ids are 0 .. vocabulary - 1
  std::int64_t classes = 0;
  std::int64_t max_length = 2048;  // longest sequence, without the token that cls pooling puts in front
  std::int64_t width = 64;
  std::int64_t heads = 2;
  std::vector<std::string> layers = {"softmax", "softmax"};  // one mechanism each: "diag:block=64"; "norm*2" is two
  bool causal = false;  // tokens read no later one; for mechanisms that have no bidirectional form
  NormKind norm = NormKind::layer;
  double norm_eps = 1e-5;
  bool norm_affine = true;  // learned gains (and for LayerNorm biases)
  NormPlacement placement = NormPlacement::pre;
  FeedForward feed_forward = FeedForward::ffn;
  std::int64_t inner = 128;  // hidden size of the feed-forward layers
  Activation activation = Activation::gelu;
  Positions positions = Positions::learned;
  double embedding_scale = 1.0;
  Pooling pooling = Pooling::mean;
  std::int64_t classifier_hidden = 128;  // 0: pooled features go straight to the classes
  double dropout = 0.1;                  // embeddings and sub-layer outputs
  double inner_dropout = 0.1;            // inside the feed-forward layers
  double attention_dropout = 0.1;        // weights of the mechanisms that have weights
  DType dtype = DType::f32;              // of activations: f32, bf16 (or f64, for tests); parameters stay f32
  bool checkpointing = false;            // keep only each layer's input and run the layer again in backward

  // "transformer", "transnormer-t1", "transnormer-t2"; or a mechanism ("norm", "diag:block=32"): the transformer preset
  // with that mechanism in every layer; or a list ("diag*1,norm*1"): the transformer preset with those layers. Causal
  // when one of them has no other form.
  // Vocabulary and classes are left for the data set to fill in.
  static ModelConfig preset(std::string_view name);
  static std::vector<std::string_view> preset_names();

  // Writes "norm*2" out and refuses what cannot be built, naming the field: "layers[1]". Vocabulary and classes may
  // still be 0; a Model refuses that.
  void check();

  void fields(FieldVisitor& v);  // names, help and ranges of all of the above
};

// "diag*1,norm*1", "softmax", "diag:block=64,weights=rela*2,norm" -> one text per layer.
FOVEA_EXPORT std::vector<std::string> parse_layers(std::string_view text);

// A named tensor of a model that training changes. Names are those in model.safetensors.
struct Parameter {
  std::string name;
  Var var;
  bool decay = false;  // weight decay applies: matrices, but not embeddings

  bool trained() const { return var.needs_grad(); }  // or drawn once and kept
};

// A classifier of token sequences: embedding, encoder, pooling, classifier.
class FOVEA_EXPORT Model {
 public:
  // Parameters are drawn from the context's seed by name: order of construction and thread count do not matter.
  Model(Context& context, ModelConfig config);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  const ModelConfig& config() const;
  const std::vector<Parameter>& parameters() const;
  std::int64_t parameter_count() const;

  // ids i32 (1, total) with packed rows, or (b, n) with lengths; the same result either way, row for row.
  // Gives logits (sequences, classes) in f32 (f64).
  Var forward(Tape& tape, const Tensor& ids, const Sequences& rows) const;

  std::string text() const;  // a table of layers: kind, shape, parameters

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A folder with model.safetensors and config.json.
FOVEA_EXPORT void save_model(const Model& model, const std::string& folder);
FOVEA_EXPORT Model load_model(Context& context, const std::string& folder);

}  // namespace fovea
