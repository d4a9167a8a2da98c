#pragma once

#include <optional>
#include <string>

#include "fovea/model.h"
#include "io/file.h"

// LoRA: a product of two small matrices beside each weight, which alone is trained. In a folder of its own an adapter
// holds what was trained and names the model it was trained on.
namespace fovea {

inline constexpr const char* kAdapterFile = "adapter.safetensors";

bool has_adapters(const ModelConfig& config);

// The model that computes the same without them: each weight with its product added. Nothing in it is frozen.
Model merge_adapters(Context& context, const Model& model);

void remove_adapters(ModelConfig& config);  // and thaws what was frozen for them

// What was trained of the model in a checkpoint, with its tokeniser; the other weights are those of `base`, a folder of
// a model.
void save_adapter(const Path& checkpoint, const Path& base, const std::string& folder);

// The config of the model in a folder, which may be an adapter's.
ModelConfig stored_config(const Path& folder);

// The model of such a folder, merged. Refuses a base that does not fit, or is not there any more.
Model load_adapted(Context& context, const Path& folder, std::optional<DType> dtype);

}  // namespace fovea
