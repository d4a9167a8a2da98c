#include <fmt/format.h>

#include "fovea/pretrained.h"
#include "io/checksums.h"
#include "io/folder.h"
#include "models/files.h"

namespace fovea {
namespace {

constexpr const char* kTokenizerFiles[] = {"tokenizer.json", "merges.txt", "vocab.txt"};

}  // namespace

void save_model(const Model& model, const Tokenizer& tokenizer, const std::string& folder) {
  AtomicFolder out(folder);
  write_model(model, out.path());
  tokenizer.save(out.path().string());
  write_checksums(out.path());
  out.commit();
}

std::optional<Tokenizer> load_tokenizer(const Model& model, const std::string& folder) {
  const Path path = committed_folder(folder);
  bool found = false;
  for (const char* name : kTokenizerFiles) found = found || is_there(path / name);
  if (!found) return {};
  Tokenizer tokenizer = Tokenizer::load(path.string());
  if (tokenizer.vocabulary() > model.config().vocabulary)
    fail(ErrorCode::bad_input,
         fmt::format("a tokeniser of {} ids for a model of {}", tokenizer.vocabulary(), model.config().vocabulary),
         path.string(), "the tokeniser the model was trained with");
  return tokenizer;
}

}  // namespace fovea
