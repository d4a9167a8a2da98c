#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/export.h"
#include "fovea/model.h"
#include "fovea/tokenizer.h"

// Models that others have trained: in from their files, and out again.
namespace fovea {

struct ImportOptions {
  std::vector<std::string> ignore = {};  // fields of config.json that are not known here and do not matter
  std::optional<Pooling> pooling = {};   // of an encoder, in place of what its folder says
};

struct Imported {
  Model model;
  std::optional<Tokenizer> tokenizer = {};  // where the folder has one
  std::string architecture = {};            // "BertModel"
  std::vector<std::string> left_out = {};   // tensors that the model does not need
};

// A Hugging Face folder (config.json; model.safetensors, whole or in shards) of one of model_architectures(), with the
// pooling and normalising of sentence-transformers where it has them; or a llama2.c model file. Weights become f32.
// What is not known, missing, of another shape or cut off is refused by name.
FOVEA_EXPORT Imported import_model(Context& context, const std::string& path, const ImportOptions& options = {});

FOVEA_EXPORT std::vector<std::string_view> model_architectures();  // "GPT2LMHeadModel", ...
FOVEA_EXPORT std::vector<std::string_view> model_formats();        // "gpt2", "bert", ...

struct ExportOptions {
  std::string format = {};               // one of model_formats(); empty: the one that has such models
  const Tokenizer* tokenizer = nullptr;  // goes along
};

// Writes config.json and model.safetensors as `transformers` reads them; for encoders without a pooler also what
// sentence-transformers reads. Refuses a model that the format cannot describe, naming the setting.
FOVEA_EXPORT void export_model(const Model& model, const std::string& folder, const ExportOptions& options = {});

// A folder as save_model() writes it, with the tokeniser in it; and the tokeniser of such a folder, refused when the
// model cannot take all of its ids.
FOVEA_EXPORT void save_model(const Model& model, const Tokenizer& tokenizer, const std::string& folder);
FOVEA_EXPORT std::optional<Tokenizer> load_tokenizer(const Model& model, const std::string& folder);

struct EmbedOptions {
  std::int64_t batch_tokens = 4096;  // texts that go together have about as many
  bool normalize = false;            // vectors of length 1, whatever the model says
  std::function<void(std::int64_t done, std::int64_t texts)> progress = {};
};

// One vector for each text, f32 (texts, features). Texts longer than the model reads are cut.
FOVEA_EXPORT Tensor embed(Context& context, const Model& model, const Tokenizer& tokenizer,
                          std::span<const std::string_view> texts, const EmbedOptions& options = {});

// The k rows most like each row of vectors (n, d), by cosine, most alike first; at most n - 1.
struct Neighbour {
  std::int64_t row;
  float cosine;
};
FOVEA_EXPORT std::vector<std::vector<Neighbour>> neighbours(const Context& context, const Tensor& vectors,
                                                            std::int64_t k);

}  // namespace fovea
