#pragma once

#include <cstdint>
#include <vector>

// Weights of one row of scores, by sorting; -infinity is masked. A row without keys gives zeros.
namespace fovea::reference {

using Row = std::vector<double>;

Row softmax_weights(const Row& scores);
// The k largest; of equal ones the first.
Row top_k_weights(const Row& scores, std::int64_t k);
Row sparsemax_weights(const Row& scores);
Row entmax15_weights(const Row& scores);
// `target` pays the margin; below 0 nobody does.
Row margin_weights(const Row& scores, double margin, std::int64_t target);
std::int64_t first_largest(const Row& scores);  // -1 in a row without keys
// Normalised by the extremes of the row; without a spread all weights are 0.
Row self_adjust_weights(const Row& scores);

}  // namespace fovea::reference
