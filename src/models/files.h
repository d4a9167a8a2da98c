#pragma once

#include <span>
#include <string>
#include <vector>

#include "fovea/model.h"
#include "fovea/safetensors.h"
#include "io/file.h"
#include "parallel/cut.h"

namespace fovea {

// Names of the files in a checkpoint folder.
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kConfigFile = "config.json";

// The first of the tensors that holds a number that is none, or is infinite; empty: there is none.
std::string not_finite(std::span<const NamedTensor> tensors);

// How tensors lie in the whole ones of a file, where ranks have parts of them; no cuts: they are whole.
struct TensorParts {
  std::vector<WeightCut> cuts = {};
  dist::Group ranks = {};
  std::size_t others = 0;  // tensors of the file that are other ranks' alone
};

// A file whose tensors are to replace others of the same names. All names, shapes and dtypes, its checksum and its
// numbers are checked when it is opened; apply() then cannot fail half way.
class TensorUpdate {
 public:
  // `targets` are the tensors to replace. The file must hold exactly these.
  TensorUpdate(const Path& file, std::vector<NamedTensor> targets, TensorParts parts = {});
  void apply() const;

 private:
  const WeightCut& cut(std::size_t target) const;

  SafetensorsFile file_;
  std::vector<NamedTensor> targets_;
  TensorParts parts_;
};

std::vector<NamedTensor> named_tensors(const Model& model);

// Takes over the weights of a saved model of another task, where names and shapes agree; refuses one that has none.
// Gives the names of those that the folder does not have.
std::vector<std::string> adopt_weights(Context& context, const Model& model, const Path& folder);

// Both files, into a folder that is there.
void write_model(const Model& model, const Path& folder);

// The "model" section of a config.json.
ModelConfig read_model_config(const Path& file);

}  // namespace fovea
