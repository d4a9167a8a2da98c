#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/rng.h"

namespace fovea {

// How masked language models are trained: a share of the tokens is asked for, of which most are replaced by the mask,
// some by random tokens, and the rest left as they are (RoBERTa: drawn anew every time).
struct Masking {
  std::int32_t mask = 0;                   // the id of the mask
  std::int64_t vocabulary = 0;             // random tokens are below this
  std::vector<std::int32_t> special = {};  // ids that are never asked for and never drawn
  double share = 0.15, replaced = 0.8, random = 0.1;
};

// Changes the ids of one sequence and writes what is asked for: -1 where nothing is.
class Masker {
 public:
  explicit Masker(const Masking& masking);  // refuses one without tokens to ask for

  // Asks for at least one token, where there is one that may be asked for: a sequence that asks nothing teaches
  // nothing.
  void mask(std::span<std::int32_t> ids, std::int32_t* targets, Random& random) const;

 private:
  bool is_special(std::int32_t id) const;
  void ask(std::int32_t& id, std::int32_t& target, Random& random) const;

  Masking masking_;
};

}  // namespace fovea
