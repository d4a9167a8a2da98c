#include "models/network.h"
#include "nn/divided.h"
#include "nn/embedding.h"
#include "nn/output.h"
#include "nn/stack.h"

namespace fovea {
namespace {

StackSpec decoder_spec(const ModelConfig& config) {
  StackSpec spec = stack_spec(config, *config.decoder,
                              config.decoder_max_length > 0 ? config.decoder_max_length : config.max_length);
  spec.source_width = config.width;
  return spec;
}

nn::EmbeddingSpec decoder_embedding(const ModelConfig& config, const StackSpec& decoder) {
  nn::EmbeddingSpec spec = nn::EmbeddingSpec::of(config);
  if (config.decoder_vocabulary > 0) spec.vocabulary = config.decoder_vocabulary;
  spec.types = 0;
  spec.width = decoder.width;
  spec.max_length = decoder.max_length;
  spec.positions = decoder.positions;
  spec.dropout = decoder.dropout;
  return spec;
}

// An encoder reads the first input; a decoder reads the second one, attends to the encoder's output and gives the
// distribution of the next token.
class Seq2Seq final : public Network {
 public:
  Seq2Seq(const nn::Scope& root, const ModelConfig& config) : Seq2Seq(root, config, decoder_spec(config)) {}

  Var forward(Tape& tape, const Batch& batch) const override {
    const nn::Source source = read_source(tape, batch.input);
    return head_(tape, decode(tape, batch.second, {}, source).x);
  }

  Loss loss(Tape& tape, const Batch& batch, const LossOptions& options) const override {
    const nn::Source source = read_source(tape, batch.input);
    const Rows out = decode(tape, batch.second, {}, source);
    const Tensor wanted = nn::own_targets(tape.context(), batch.targets, *out.layout);
    return report_of_rows(tape, head_.loss(tape, out.x, wanted, options.label_smoothing));
  }

  nn::Source read_source(Tape& tape, const Input& input) const override {
    return tape.at("encoder", [&]() -> nn::Source {
      const nn::Arranged batch = arrange(tape, encoder_embedding_.spec(), input);
      return {encoder_(tape, encoder_embedding_(tape, batch), batch.layout), batch.layout};
    });
  }

  nn::Past new_past() const override { return {std::vector<nn::LayerPast>(decoder_.size()), 0}; }

  Var step(Tape& tape, const Input& tokens, const std::vector<nn::Past*>& pasts,
           const nn::Source& source) const override {
    const Rows out = decode(tape, tokens, pasts, source);
    nn::advance(tokens, pasts);
    return head_(tape, nn::pool(tape, out.x, *out.layout, Pooling::last));
  }

 private:
  struct Rows {
    Var x;
    std::shared_ptr<const nn::Layout> layout;
  };

  Seq2Seq(const nn::Scope& root, const ModelConfig& config, const StackSpec& decoder)
      : encoder_embedding_(root / "encoder" / "embedding", config, nn::EmbeddingSpec::of(config)),
        encoder_(root / "encoder", config),
        decoder_embedding_(root / "decoder" / "embedding", config, decoder_embedding(config, decoder),
                           config.shared_embedding ? encoder_embedding_.tokens() : Var()),
        decoder_(root / "decoder", decoder),
        head_(root / "head", config, decoder_embedding_.spec().vocabulary, decoder_embedding_.tokens()) {}

  Rows decode(Tape& tape, const Input& input, const std::vector<nn::Past*>& pasts, const nn::Source& source) const {
    return tape.at("decoder", [&]() -> Rows {
      const nn::Arranged batch = arrange(tape, decoder_embedding_.spec(), input, pasts);
      return {decoder_(tape, decoder_embedding_(tape, batch), batch.layout, source), batch.layout};
    });
  }

  nn::Embedding encoder_embedding_;
  nn::Stack encoder_;
  nn::Embedding decoder_embedding_;
  nn::Stack decoder_;
  nn::LanguageHead head_;
};

}  // namespace

std::unique_ptr<Network> make_seq2seq(const nn::Scope& scope, const ModelConfig& config) {
  return std::make_unique<Seq2Seq>(scope, config);
}

}  // namespace fovea
