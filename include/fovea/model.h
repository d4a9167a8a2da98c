#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/autograd.h"
#include "fovea/data.h"
#include "fovea/export.h"
#include "fovea/ops.h"
#include "fovea/sequences.h"
#include "fovea/weight_cut.h"

namespace fovea {

class FieldVisitor;
namespace dist {
struct Mesh;
}

enum class NormPlacement : std::uint8_t { pre, post };
// layer, rms and rms_a normalise each row; the others channels, over positions too, which a causal stack cannot have
// (its group norm keeps to each token).
enum class StackNorm : std::uint8_t { layer, rms, rms_a, batch, instance, group };
enum class FeedForward : std::uint8_t { ffn, glu };
// The first three enter with the tokens, the others in every attention layer: rope, alibi and t5 in mechanisms that
// have the feature (rotary, alibi, bias); shaw and xl in place of softmax.
enum class Positions : std::uint8_t { none, sinusoidal, learned, rope, alibi, t5, shaw, xl };

struct PositionKind {
  std::string_view name, summary, paper;
};
FOVEA_EXPORT std::span<const PositionKind> position_kinds();  // in the order of Positions

// mean and cls: over all rows, or a token of the model's own before the others. first and last: that row, for models
// whose input brings such a token.
enum class Pooling : std::uint8_t { mean, cls, first, last };
FOVEA_EXPORT std::vector<std::string_view> pooling_names();  // in this order
enum class RopePairs : std::uint8_t { adjacent, halves };    // channels (2m, 2m + 1), or (m, m + d/2)

// Slower angles of rope, for longer sequences: as RotaryStretch has it.
struct FOVEA_EXPORT RopeStretch : RotaryStretch {
  void check() const;
  void fields(FieldVisitor& v);
};

// The shape of one stack of layers.
struct FOVEA_EXPORT StackConfig {
  std::int64_t width = 64;
  std::int64_t heads = 2;
  std::int64_t kv_heads = 0;                                 // heads of k and v; 0: as many as heads
  std::int64_t head_width = 0;                               // 0: width / heads
  std::vector<std::string> layers = {"softmax", "softmax"};  // one mechanism each: "diag:block=64"; "norm*2" is two
  std::vector<std::string> cross = {};  // of the layers of a decoder: one for each layer, or one for all
  bool gated_cross = false;             // their cross-attention enters times tanh(a), a learned from 0
  bool causal = false;                  // tokens read no later one; for mechanisms that have no bidirectional form
  StackNorm norm = StackNorm::layer;
  double norm_eps = 1e-5;
  bool norm_affine = true;       // learned gains (and but for rms biases)
  std::int64_t norm_groups = 1;  // of a group norm
  NormPlacement placement = NormPlacement::pre;
  FeedForward feed_forward = FeedForward::ffn;
  std::int64_t inner = 128;  // hidden size of the feed-forward layers
  Activation activation = Activation::gelu;
  std::int64_t experts = 0;       // feed-forward layers of which each token takes one; 0: one for all
  double expert_capacity = 1.25;  // tokens an expert takes, as a multiple of an even share
  double expert_balance = 0.01;   // weight of the loss that spreads tokens evenly
  bool bias = true;               // of the products in attention and feed-forward layers
  bool weight_norm = false;       // their weights are direction times length
  Positions positions = Positions::learned;
  double rope_base = 10000.0;
  RopePairs rope_pairs = RopePairs::adjacent;
  std::optional<RopeStretch> rope_stretch = {};
  std::int64_t buckets = 32, bucket_distance = 128;  // of t5 positions
  double attention_scale = 0.0;                      // of the scores; 0: 1 / sqrt(head width)
  double init_deviation = 0.0;     // weights start normal, those that end a branch smaller; 0: uniform, by their sizes
  double dropout = 0.1;            // embeddings and sub-layer outputs
  double inner_dropout = 0.1;      // inside the feed-forward layers
  double attention_dropout = 0.1;  // weights of the mechanisms that have weights
  std::int64_t lora = 0;           // rank of the small products beside the weights of attention and feed-forward
  double lora_scale = 2.0;         // layers, which alone are trained; 0: none. They enter times this

  std::int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }

  // Writes "norm*2" out and refuses what cannot be built, naming the field: "layers[1]".
  void check();
  void fields(FieldVisitor& v);
};

// A stack with what all stacks of a model have in common.
struct FOVEA_EXPORT StackSpec : StackConfig {
  std::int64_t max_length = 2048;  // longest sequence, without the token that cls pooling puts in front
  std::int64_t source_width = 0;   // of what cross-attention reads; 0: width
  DType dtype = DType::f32;        // of activations: f32, bf16 (or f64, for tests); parameters stay f32
  bool checkpointing = false;      // keep only each layer's input and run the layer again in backward
};

// Pictures and how they are cut into patches; patch 1 reads a picture pixel by pixel.
struct FOVEA_EXPORT ImageConfig {
  std::int64_t height = 0, width = 0, channels = 0;
  std::int64_t patch = 4;

  std::int64_t patches() const { return (height / patch) * (width / patch); }
  void check() const;
  void fields(FieldVisitor& v);
};

enum class Forecaster : std::uint8_t { informer, memformer };

// Measurements and what foretells them. Sizes of 0 are taken from the data.
struct FOVEA_EXPORT SeriesConfig {
  Forecaster kind = Forecaster::informer;
  std::int64_t length = 0, label = 0, horizon = 0;  // rows: read; of these, read again by a decoder; foretold
  std::int64_t channels = 0, marks = 0;             // of a row; features of its time
  bool distil = true;                               // informer: half as many rows after every layer but the last
  std::int64_t patch = 32, stride = 8;              // memformer: rows read as one, and from one patch to the next
  std::int64_t memory_rows = 2, memory_width = 4;   // memformer: of the memory
  bool recurrent = false;                           // memformer: patches are read one after another, with a gated state

  std::int64_t patches() const { return (length - patch) / stride + 2; }  // the last one may run over the end
  // Takes the sizes that are 0 from the data, and refuses data of others.
  void fit(const Dataset& data);
  void check() const;
  void fields(FieldVisitor& v);
};

// Everything that decides the shape of a model. The same names are used in JSON, after --set model. and in config.json
// of a checkpoint. What stands here without a section is the first (mostly the only) stack.
struct FOVEA_EXPORT ModelConfig : StackSpec {
  Task task = Task::classify;
  std::int64_t vocabulary = 0;  // token ids are 0 .. vocabulary - 1
  std::int64_t classes = 0;
  bool pairs = false;  // of regress: the number is of two texts
  double embedding_scale = 1.0;
  bool embedding_norm = false;       // a norm after the embedding
  std::int64_t types = 0;            // parts of a text that have a vector of their own (BERT's segments)
  std::int64_t position_offset = 0;  // rows of a learned table before position 0
  Pooling pooling = Pooling::mean;
  bool unit_features = false;            // of encode: vectors of whole inputs have length 1
  std::int64_t classifier_hidden = 128;  // 0: pooled features go straight to the classes; of encode: are the features
  Activation classifier_activation = Activation::relu;
  bool tied = true;                             // the head of lm, mlm and seq2seq uses the embedding
  bool head_bias = false;                       // of that head
  bool head_transform = false;                  // a product, activation and norm before it
  double head_scale = 1.0;                      // on what enters it
  std::int64_t embedding_size = 64;             // of the vectors that image_text compares
  std::optional<StackConfig> decoder = {};      // of seq2seq, and of forecast by an informer
  std::int64_t decoder_vocabulary = 0;          // 0: the same as the encoder's
  std::int64_t decoder_max_length = 0;          // 0: the same as the encoder's
  bool shared_embedding = true;                 // encoder and decoder use one table
  std::optional<StackConfig> image_stack = {};  // of image_text; the first stack reads the text
  std::optional<ImageConfig> image = {};        // of vision and image_text
  std::optional<SeriesConfig> series = {};      // of forecast
  std::vector<std::string> frozen = {};         // parts whose parameters are not trained: "embedding", "layers.0", ...

  // A frame for a task ("transformer", "gpt", "seq2seq", "vit", ...); or a mechanism ("norm", "diag:block=32"): the
  // transformer preset with that mechanism in every layer; or several ("diag/norm*2"): with those layers. Sizes of the
  // data are left for the data set to fill in.
  static ModelConfig preset(std::string_view name);
  static std::vector<std::string_view> preset_names();

  // The mechanism of every layer, the list of all layers, or "transnormer-t1", "transnormer-t2": local attention in the
  // first half of them, linear attention in the others. Causal when one of them has no other form.
  void set_attention(std::string_view text);

  // Fills in what the task decides, and refuses what cannot be built, naming the field. Vocabulary and classes may
  // still be 0; a Model refuses that.
  void check();

  // Fills in the sizes that are still 0 from the data, and refuses data that is for another task or too large. A
  // classifier that is given pairs compares them, one that is given numbers foretells them.
  void fit(const Dataset& data);

  void fields(FieldVisitor& v);  // names, help and ranges of all of the above
};

// "softmax", "diag/norm*2", "diag:block=64,weights=rela*2/norm" -> one text per layer.
FOVEA_EXPORT std::vector<std::string> parse_layers(std::string_view text);

// A named tensor of a model that training changes. Names are those in model.safetensors.
struct Parameter {
  std::string name;
  Var var;
  bool decay = false;            // weight decay applies: matrices, but not embeddings
  WeightCut cut = {};            // how ranks that share weights have it
  std::vector<int> stages = {};  // which ranks of a pipeline have it, where there are several; their gradients add up

  bool trained() const { return var.needs_grad(); }  // or drawn once and kept
};

struct LossOptions {
  double label_smoothing = 0.0;
};

// What a batch cost, and what to report of it: scalars where the model is.
struct FOVEA_EXPORT Loss {
  Var value;              // the mean over all that was asked, and what the model adds to it
  Tensor asked = {};      // f64: targets that count
  Tensor correct = {};    // f64: of these, where there are classes
  Tensor deviation = {};  // f64: sum of absolute errors, where there are numbers

  struct Numbers {
    double value = 0.0, asked = 0.0, correct = 0.0, deviation = 0.0;
  };
  Numbers read(const Context& context) const;  // waits for them, once
};

class Network;   // what a task's model does (src/models/network.h)
class Pipeline;  // what a rank does of it (src/models/pipeline.h)
class WeightShares;
struct WholeParameter;

// A Transformer for one task.
class FOVEA_EXPORT Model {
 public:
  // Parameters are drawn from the context's seed by name: order of construction and thread count do not matter.
  // Refuses a config that makes more than `most` numbers, before memory is taken for them.
  Model(Context& context, ModelConfig config, std::int64_t most = std::numeric_limits<std::int64_t>::max());
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  const ModelConfig& config() const;
  const std::vector<Parameter>& parameters() const;
  std::int64_t parameter_count() const;  // of the whole model, also where ranks share its weights
  const Network& network() const;

  // What the task asks for, in f32 (f64): logits (sequences, classes) of classify, match and vision; numbers
  // (sequences, 1) of regress; logits (b, n, vocabulary) of lm, mlm and seq2seq, where n are the rows of the input
  // (seq2seq: of the second one); similarities (pictures, texts) of image_text; (b, horizon, channels) of forecast; the
  // rows themselves, (b, n, width), of encode.
  Var forward(Tape& tape, const Batch& batch) const;
  // The same of one input. ids i32 (1, total) with packed rows, or (b, n) with lengths; the same result either way, row
  // for row.
  Var forward(Tape& tape, const Tensor& ids, const Sequences& rows) const;

  Loss loss(Tape& tape, const Batch& batch, const LossOptions& options = {}) const;

  std::string text() const;  // a table of layers: kind, shape, parameters

 private:
  friend void set_mesh(Model& model, const dist::Mesh& mesh);
  friend const Pipeline& pipeline_of(const Model& model);
  friend WeightShares* weight_shares_of(const Model& model);
  friend const std::vector<WholeParameter>& whole_parameters(const Model& model);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A folder with model.safetensors and config.json.
FOVEA_EXPORT void save_model(const Model& model, const std::string& folder);
// `dtype` of activations, in place of the one it was saved with.
FOVEA_EXPORT Model load_model(Context& context, const std::string& folder, std::optional<DType> dtype = {});

}  // namespace fovea
