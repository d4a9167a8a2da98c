#pragma once

#include "fovea/data.h"

namespace fovea {

// The loss, in nats for each token, of who knows how often each token is to be told in this part, and nothing else: a
// bound that a model has to pass before it has learned anything of what stands beside what.
double frequency_loss(const Split& split);

}  // namespace fovea
