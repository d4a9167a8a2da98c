#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/export.h"
#include "fovea/model.h"
#include "fovea/tokenizer.h"

namespace fovea {

// When a beam search is over. Beams that are complete keep their score; open ones may still gain by length.
enum class BeamStop : std::uint8_t {
  enough,   // `beams` of them are complete
  likely,   // and no open one is better than the worst of those, as it stands
  certain,  // and no open one can become better
};
FOVEA_EXPORT std::vector<std::string_view> beam_stop_names();  // in this order

// How the next token is chosen and when to stop. The same names are used on the command line, in JSON and in Python.
struct FOVEA_EXPORT GenerateOptions {
  std::int64_t max_tokens = 200;
  double temperature = 0.0;         // 0: always the most likely token; else the logits are divided by it and drawn from
  std::int64_t top_k = 0;           // only among the k most likely tokens; 0: all
  double top_p = 1.0;               // only among the fewest most likely tokens that have this probability together
  double repetition_penalty = 1.0;  // of tokens that were there: a positive logit is divided by it, others multiplied
  std::int64_t beams = 1;           // beam search: so many beginnings are followed at once
  double length_penalty = 1.0;      // beams are compared by log-probability / length^penalty
  BeamStop beam_stop = BeamStop::likely;
  std::uint64_t seed = 0;                   // a draw depends on the seed, the prompt's number and the step alone
  std::vector<std::int32_t> stop_ids = {};  // tokens that end a sequence
  std::vector<std::string> stop = {};       // texts that do; for generate_text() and text streams
  std::optional<std::int32_t> start = {};   // seq2seq: what the decoder reads first
  std::int64_t batch = 32;                  // prompts that run together; their texts do not depend on it

  // Refuses what contradicts itself, naming the field.
  void check() const;
  void fields(FieldVisitor& v);
};

enum class GenerateEnd : std::uint8_t {
  max_tokens,
  stop_id,
  stop_text,
  context,      // the model has no positions for more
  interrupted,  // the caller asked to stop
};
FOVEA_EXPORT std::string_view name_of(GenerateEnd end);

struct Generated {
  std::vector<std::int32_t> ids;  // the new ones, with the stop token where there was one
  GenerateEnd end = GenerateEnd::max_tokens;
  double score = 0.0;  // of beam search
  std::string text;    // of generate_text(), without the text that stopped it
};

// What weights are kept as, besides the model's own, while tokens are made. One prompt at a time is bound by reading
// them: half the bytes, nearly twice the speed; 32 prompts read them once for all. Prompts of more than 64 tokens are
// read with the model's own.
enum class WeightForm : std::uint8_t {
  f32,   // exact
  bf16,  // 8 bits of precision
  i8,    // whole numbers up to 127 times a scale for each output
};
FOVEA_EXPORT std::vector<std::string_view> weight_form_names();  // in the order of WeightForm

using Tokens = std::vector<std::int32_t>;

struct TokenWatch {
  // A new token of a prompt; false ends that prompt (as stop_text). Beam search calls it when the best sequence is
  // known.
  std::function<bool(std::int64_t prompt, std::int32_t id)> token = {};
  std::function<void(std::int64_t prompt, const Generated& result)> done = {};  // a prompt is finished
};

// Continues prompts with a language model, or translates them with an encoder-decoder model.
class FOVEA_EXPORT Generator {
 public:
  // Both must outlive the generator; a model that is trained on needs a new one.
  Generator(Context& context, const Model& model, WeightForm weights = WeightForm::f32);
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  // One result for each prompt, in order. The prompts of an encoder-decoder model are what its encoder reads. `stop`
  // is looked at after every token.
  std::vector<Generated> run(std::span<const Tokens> prompts, const GenerateOptions& options,
                             const TokenWatch& watch = {}, const std::atomic<bool>* stop = nullptr);

  const Model& model() const;
  Context& context() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What of a sequence has been said so far. Text is held back while it may be the beginning of one that ends the
// sequence, and while a character is unfinished.
class FOVEA_EXPORT TextStream {
 public:
  // `before`: tokens that the new ones follow on; they are not said, but may decide how the first new one is written.
  TextStream(const Tokenizer& tokenizer, std::span<const std::int32_t> before, std::vector<std::string> stop);

  std::string next(std::int32_t id);  // what can be said now; nothing more once the sequence has stopped
  std::string finish();               // all the rest
  bool stopped() const { return stopped_; }

 private:
  std::string release(std::string_view fresh, bool all);

  Tokenizer::Stream stream_;
  std::vector<std::string> stop_;
  std::string held_;  // not said yet
  bool stopped_ = false;
};

struct TextWatch {
  std::function<void(std::int64_t prompt, std::string_view piece)> piece = {};  // new text of a prompt
  std::function<void(std::int64_t prompt, const Generated& result)> done = {};
};

// The options with the tokeniser's own end of text among the stop tokens and, for an encoder-decoder model, its
// beginning of text (or, as T5 has it, padding) to start from.
FOVEA_EXPORT GenerateOptions with_roles(GenerateOptions options, const Tokenizer& tokenizer, const Model& model);

// Texts in, texts out. Special tokens that the tokeniser puts around a text are put before a prompt, not after it.
FOVEA_EXPORT std::vector<Generated> generate_text(Generator& generator, const Tokenizer& tokenizer,
                                                  std::span<const std::string> prompts, const GenerateOptions& options,
                                                  const TextWatch& watch = {}, const std::atomic<bool>* stop = nullptr);

}  // namespace fovea
