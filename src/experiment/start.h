#pragma once

#include <memory>
#include <optional>
#include <string>

#include "fovea/tokenizer.h"
#include "fovea/train.h"

// Models that begin with the weights of another one: what `fovea train --from` makes of its folder.
namespace fovea {

// The model in the folder, of a run, a checkpoint or an import, with the head that the data's usual task needs: as it
// is where it has that task already, or data has none. Refuses what does not fit.
ModelConfig start_model(const std::string& folder, std::optional<Task> wanted);

// What usually fine-tunes it: small steps for what the folder brings, larger ones for a head that it does not.
void set_start_training(TrainConfig& train, const ModelConfig& model, const std::string& folder);

// Freezes what the folder brings and puts adapters of this rank beside it; a new head is trained whole.
void add_adapters(ModelConfig& model, const std::string& folder, std::int64_t rank);

std::shared_ptr<const Tokenizer> start_tokenizer(const std::string& folder);  // none: the folder has none

std::string start_name(const std::string& folder);  // "minilm", of a checkpoint "first/best"

}  // namespace fovea
