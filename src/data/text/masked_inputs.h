#pragma once

#include "fovea/data.h"

namespace fovea {

// Labelled sequences of token ids without their labels: some of the tokens of each are asked for, as a masked language
// model is trained. Of pairs, the first inputs. What a model learns of the inputs alone, before it sees a label.
Dataset masked_inputs(const Dataset& labelled);

}  // namespace fovea
