#pragma once

#include "fovea/model.h"
#include "nn/attention_layer.h"

namespace fovea {

// A batch of tokens as the model reads it: checked, with the token of cls pooling in front of every sequence, and with
// id 0 in all padding.
struct Arranged {
  Tensor ids;  // i32 (b, n)
  std::shared_ptr<const nn::Layout> layout;
};
Arranged arrange(const Context& context, const ModelConfig& config, const Tensor& ids, const Sequences& rows);

}  // namespace fovea
