#pragma once

#include <string>
#include <vector>

#include "fovea/model.h"
#include "fovea/safetensors.h"
#include "io/file.h"

namespace fovea {

// Names of the files in a checkpoint folder.
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kConfigFile = "config.json";

// A file whose tensors are to replace others of the same names. All names, shapes and dtypes are checked when it is
// opened; apply() then cannot fail half way.
class TensorUpdate {
 public:
  // `targets` are the tensors to replace. The file must hold exactly these.
  TensorUpdate(const Path& file, std::vector<NamedTensor> targets);
  void apply() const;

 private:
  SafetensorsFile file_;
  std::vector<NamedTensor> targets_;
};

std::vector<NamedTensor> named_tensors(const Model& model);

// Both files, into a folder that is there.
void write_model(const Model& model, const Path& folder);

// The "model" section of a config.json.
ModelConfig read_model_config(const Path& file);

}  // namespace fovea
