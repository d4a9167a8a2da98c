#pragma once

#include "fovea/tokenizer.h"
#include "text/pipeline.h"

namespace fovea {

struct Tokenizer::State {
  explicit State(text::Document document) : pipeline(std::move(document)) {}

  text::Pipeline pipeline;

  static Tokenizer make(text::Document document) {
    text::guess_roles(document);
    return Tokenizer(std::make_shared<const State>(std::move(document)));
  }
};

}  // namespace fovea
