#pragma once

#include "fovea/pretrained.h"
#include "io/file.h"
#include "pretrained/architecture.h"

namespace fovea::pretrained {

// A model file of llama2.c and, beside it, tokenizer.bin or tok<vocabulary>.bin.
Imported import_llama2c(Context& context, const Path& file);

// What their config.json says, checked as a config of ours is. `where` names the file.
ModelConfig read_config(ConfigFields& fields, const Architecture& architecture, const Variant& variant);

}  // namespace fovea::pretrained
