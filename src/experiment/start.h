#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/tokenizer.h"
#include "fovea/train.h"

// Models that begin with the weights of another one: what `fovea train --from` makes of its folder.
namespace fovea {

// The model in the folder, of a run, a checkpoint or an import, with the head that the data's usual task needs: as it
// is where it has that task already, or data has none. Refuses what does not fit.
ModelConfig start_model(const std::string& folder, std::optional<Task> wanted);

// Whether it knows two texts as one, as BERT has learned them; encoders of single sentences do not.
bool joins_texts(const std::string& folder);

// What usually fine-tunes it: small steps for what the folder brings, larger ones for a head that it does not.
void set_start_training(TrainConfig& train, const ModelConfig& model, const std::string& folder);

// A new head of numbers begins where a short run would spend most of its steps to get to: at their mean, or, of pairs
// without a hidden layer, on the line that best makes them of the product of both vectors. `drawn` names the parameters
// that no folder has brought; none: all of them. Other data is left alone.
void begin_numbers(Context& context, const Model& model, const Dataset& data,
                   const std::vector<std::string>* drawn = nullptr);

// Freezes what the folder brings and puts adapters of this rank beside it; a new head is trained whole.
void add_adapters(ModelConfig& model, const std::string& folder, std::int64_t rank);

std::shared_ptr<const Tokenizer> start_tokenizer(const std::string& folder);  // none: the folder has none

std::string start_name(const std::string& folder);  // "minilm", of a checkpoint "first/best"

}  // namespace fovea
