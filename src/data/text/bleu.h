#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// BLEU of a corpus as sacrebleu gives it by default: WMT's "13a" tokenisation, case kept, n-grams up to 4, exponential
// smoothing.
struct Bleu {
  double score = 0.0;                     // 0 to 100
  std::array<double, 4> precisions = {};  // in percent, of 1-grams to 4-grams
  double brevity = 0.0;                   // the penalty for short translations, 0 to 1
  std::int64_t length = 0, reference_length = 0;
};
Bleu corpus_bleu(std::span<const std::string> translations, std::span<const std::string> references);

// chrF2 of a corpus as sacrebleu gives it by default: F score of character n-grams up to 6, recall counted twice as
// much, white space left out. 0 to 100.
double corpus_chrf(std::span<const std::string> translations, std::span<const std::string> references);

// The words that BLEU compares.
std::vector<std::string> tokenize_13a(std::string_view text);

}  // namespace fovea
