#pragma once

#include <span>
#include <string_view>

#include "pretrained/fields.h"

namespace fovea::pretrained {

// How parameters of ours stand in their files. All but the first name a layer, and both of its tensors.
enum class Kind : std::uint8_t {
  tensor,   // as it is
  framed,   // as it is, with one more axis of size 1 in front
  linear,   // weight (out, in), ours transposed; bias
  product,  // weight (in, out), as ours; bias
  norm,     // weight, our gain; bias
  patches,  // weight (out, channels, height, width), a convolution; bias
};

// One line of the table between our names and theirs. "*" is the number of a layer. "a.{q,k,v}": three layers whose
// outputs stand side by side in ours. "a|b": an older name that is read, too.
struct NamePair {
  std::string_view ours, theirs;
  Kind kind = Kind::tensor;
  bool (*when)(const ModelConfig&) = nullptr;  // of several for the same name
};

using Fields = void (*)(ConfigFields&, ModelConfig&);

// What a class of theirs adds to the model it stands on.
struct Variant {
  std::string_view name;  // "GPT2LMHeadModel"
  Task task;
  bool prefixed;  // names of what it stands on begin with the prefix
  Fields fields = nullptr;
  std::span<const NamePair> names = {};
  std::string_view head =
      {};  // the tensor that a tied model does without: where it is there and differs, it is not tied
};

struct Architecture {
  std::string_view format;  // "gpt2", also their model_type
  std::string_view prefix;  // "transformer."
  std::string_view tokens;  // their embedding
  ModelConfig (*frame)();   // what all models of the kind have in common
  Fields fields;
  std::span<const NamePair> names;
  std::span<const Variant> variants;
  std::span<const std::string_view> spare;  // tensors that files may hold and no variant needs; "*": any text
};

extern const Architecture kGpt2, kBert, kRoberta, kLlama, kT5, kVit;

std::span<const Architecture* const> architectures();

}  // namespace fovea::pretrained
