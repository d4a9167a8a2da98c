#pragma once

#include <map>
#include <string>
#include <vector>

#include "mechanisms/watch.h"

namespace fovea::inspection {

// The attention layers of a model, numbered in the order they run first: a segment that runs again has the same.
class LayerNumbers {
 public:
  std::size_t of(const Tape& tape) {
    const std::string place = tape.path(tape.place());
    const auto [it, is_new] = numbers_.try_emplace(place, places.size());
    if (is_new) places.push_back(place);
    return it->second;
  }

  std::vector<std::string> places;

 private:
  std::map<std::string, std::size_t> numbers_;
};

struct HeadPlace {
  std::size_t layer;
  std::int64_t head;
};

// While it lives, these heads give nothing.
class WithoutHeads final : public AttentionWatch {
 public:
  explicit WithoutHeads(std::vector<HeadPlace> heads) : heads_(std::move(heads)) {}

  Var on_attention(const Call& call, const Var& output) override {
    const std::size_t layer = layers_.of(call.tape);
    Tensor rest;
    for (const HeadPlace& at : heads_) {
      if (at.layer != layer) continue;
      if (!rest.defined()) rest = output.value().clone(call.tape.context());
      rest.slice(2, at.head, at.head + 1).fill(0.0);
    }
    return rest.defined() ? Var(rest) : output;
  }

 private:
  std::vector<HeadPlace> heads_;
  LayerNumbers layers_;
};

}  // namespace fovea::inspection
